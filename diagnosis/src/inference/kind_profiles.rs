//! Profiles of failure kinds: the likelihood of the kinds a cause produces, a Dirichlet-multinomial over the
//! classes of failure.
//!
//! Every hypothesis must account for all failures, inside its region and outside: a term for the inside alone
//! would favour hypotheses with few failures inside. Equivalence classes are defined by paths alone; kinds only
//! weigh between classes, and between the causes of a region.
//!
//! A profile describes the usual kinds, not all possible ones. With weight 0.3 a cause produces a single kind that
//! its profile does not predict; this bounds the penalty of a surprise to a few nats, however often it repeats.
//! The term still separates two faults with different kinds from one fault with two kinds.

use parallax_model::KindClass;

use super::likelihood::log_sum_exp;
use crate::{regions::RegionKind, topology::ProxyMode};

/// Pseudo-counts of the Dirichlet prior, in the order of [`KindClass::ALL`].
pub(crate) type KindProfile = [f64; KindClass::ALL.len()];

/// Pseudo-count of a kind that a cause cannot produce, not even as a surprise. Lost packets cause no TLS alert, no invalid
/// certificate and no response without TLS: the server was reached.
pub(crate) const IMPOSSIBLE_KIND: f64 = 1e-4;

pub(crate) const BACKGROUND: KindProfile = [3.0, 0.5, 1.0, 0.5, 0.3, 0.2, 0.2, 0.75, 0.3, 0.5];
pub(crate) const NOLOCAL_DROPS: KindProfile = [8.0, 1.0, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const NOLOCAL_REFUSES: KindProfile = [1.0, 8.0, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const NOLOCAL_EITHER: KindProfile = [4.0, 4.0, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const PROTO_VIP: KindProfile = [0.3, 0.1, 5.0, 0.1, 0.1, 1.0, 4.0, 0.3, 0.1, 0.1];
pub(crate) const VIP: KindProfile = [4.0, 3.0, 1.0, 2.0, 0.5, 1.0, 0.3, 0.3, 0.1, 0.1];
pub(crate) const TARGET: KindProfile = [2.0, 3.0, 1.0, 0.3, 0.3, 1.0, 0.3, 4.0, 0.1, 0.1];
pub(crate) const BACKEND: KindProfile = [2.0, 4.0, 1.0, 0.3, 0.3, 0.3, 0.3, 4.0, 0.1, 0.1];
pub(crate) const CLIENT: KindProfile = [6.0, 0.3, 0.3, 3.0, 0.3, 0.1, 0.1, 0.1, 0.1, 1.0];
pub(crate) const CLIENT_VIP: KindProfile = [6.0, 3.0, 0.3, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const NETWORK: KindProfile = [8.0, 0.5, 0.1, 1.0, 2.0, IMPOSSIBLE_KIND, 0.1, 0.1, 0.1, 0.1];
pub(crate) const LOOPBACK: KindProfile = [7.0, 0.3, 2.0, 0.1, 0.1, IMPOSSIBLE_KIND, 0.1, 0.1, 0.1, 0.1];
pub(crate) const DNS: KindProfile = [3.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 3.0, 3.0];

/// Failures of an entry's connection to an origin, as clients see them: the entry answers 502 or 504, or not at all.
pub(crate) const GATEWAY: KindProfile = [1.5, 0.2, 0.2, 0.2, 3.0, 0.3, 0.1, 4.0, 0.1, 0.1];
/// The same if the network between the two loses packets. An origin behind an entry that passes TLS through may present a wrong
/// certificate; a lost packet does not.
pub(crate) const GATEWAY_NETWORK: KindProfile =
    [1.5, 0.2, 0.2, 0.2, 3.0, IMPOSSIBLE_KIND, 0.1, 4.0, 0.1, 0.1];

/// Returns the profile of a node without an endpoint, by kube-proxy mode: IPVS refuses the connection, the others
/// drop it.
pub(crate) const fn nolocal(mode: ProxyMode) -> KindProfile {
    match mode {
        ProxyMode::Ipvs => NOLOCAL_REFUSES,
        ProxyMode::Iptables | ProxyMode::Nftables => NOLOCAL_DROPS,
        ProxyMode::Unknown => NOLOCAL_EITHER,
    }
}

/// Returns the ln Dirichlet-multinomial likelihood of weighted counts, without the multinomial coefficient, which
/// is equal for all hypotheses.
pub(crate) fn ln_dirichlet_multinomial(counts: &KindProfile, pseudo: &KindProfile) -> f64 {
    let total: f64 = pseudo.iter().sum();
    let seen: f64 = counts.iter().sum();
    let terms: f64 = counts
        .iter()
        .zip(pseudo)
        .map(|(f, a)| libm::lgamma(a + f) - libm::lgamma(*a))
        .sum();
    libm::lgamma(total) - libm::lgamma(total + seen) + terms
}

/// Pseudo-counts of a surprise: any one kind, repeated.
const SINGLE_KIND: KindProfile = [0.1; KindClass::ALL.len()];
const SURPRISE_WEIGHT: f64 = 0.3;

/// Returns the ln likelihood of the kinds of one fault.
pub(crate) fn ln_kinds(counts: &KindProfile, pseudo: &KindProfile) -> f64 {
    if counts.iter().all(|count| *count <= 0.0) {
        return 0.0;
    }
    let mut surprise = SINGLE_KIND;
    for (single, usual) in surprise.iter_mut().zip(pseudo) {
        // What a cause cannot produce does not surprise either.
        if *usual <= IMPOSSIBLE_KIND {
            *single = *usual;
        }
    }
    log_sum_exp(&[
        libm::log(1.0 - SURPRISE_WEIGHT) + ln_dirichlet_multinomial(counts, pseudo),
        libm::log(SURPRISE_WEIGHT) + ln_dirichlet_multinomial(counts, &surprise),
    ])
}

/// Returns the profile of the kinds that a region usually produces.
pub(crate) const fn region_profile(kind: RegionKind, mode: ProxyMode) -> KindProfile {
    match kind {
        RegionKind::Healthy => BACKGROUND,
        RegionKind::Target => TARGET,
        RegionKind::Vip | RegionKind::OutsideAll | RegionKind::OutsideFrontNode => VIP,
        RegionKind::Backend => BACKEND,
        RegionKind::Bnode
        | RegionKind::BnodeRemote
        | RegionKind::Pair
        | RegionKind::Link
        | RegionKind::NodeLink
        | RegionKind::Zone
        | RegionKind::ZoneLink
        | RegionKind::Cross => NETWORK,
        RegionKind::Client => CLIENT,
        RegionKind::ClientVip | RegionKind::ZoneVip => CLIENT_VIP,
        RegionKind::NoLocal => nolocal(mode),
        RegionKind::Same
        | RegionKind::SameVip
        | RegionKind::SelfPod
        | RegionKind::SelfVip
        | RegionKind::LbOwnNode => LOOPBACK,
        RegionKind::ProtoVip => PROTO_VIP,
        RegionKind::DnsClient | RegionKind::DnsAll | RegionKind::DnsName => DNS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a real cluster, one of two ingress Pods presented another certificate a second earlier than the other. A third of the
    /// connections failed, as if a balancer had sent them back to their own node.
    #[test]
    fn a_handshake_that_the_server_refuses_is_no_loss_of_packets() {
        let class = |class: KindClass| KindClass::ALL.iter().position(|known| *known == class).unwrap();
        let mut certificates = KindProfile::default();
        certificates[class(KindClass::Tls)] = 3.0;
        let server = ln_kinds(&certificates, &TARGET).max(ln_kinds(&certificates, &BACKEND));
        for network in [NETWORK, LOOPBACK] {
            assert!(server - ln_kinds(&certificates, &network) > 6.0);
        }
        // Other surprises cost a few nats, as before.
        let mut refused = KindProfile::default();
        refused[class(KindClass::Refused)] = 3.0;
        assert!(ln_kinds(&refused, &BACKEND) - ln_kinds(&refused, &LOOPBACK) < 4.0);
    }
}
