//! What kinds of failure a cause produces: a Dirichlet-multinomial over the classes of failure.
//!
//! Every hypothesis must account for all failures, inside its region and outside: a term for the inside alone would
//! reward hypotheses with few failures inside. The term chooses between causes that share a region; it stays out of the
//! posterior over regions, so that classes remain exactly what the paths cannot separate.

use parallax_model::KindClass;

use crate::topology::ProxyMode;

/// Pseudo-counts in the order of [`KindClass::ALL`].
pub(crate) type Profile = [f64; KindClass::ALL.len()];

pub(crate) const BACKGROUND: Profile = [3.0, 0.5, 1.0, 0.5, 0.3, 0.2, 0.2, 0.75, 0.3, 0.5];
pub(crate) const NOLOCAL_DROPS: Profile = [8.0, 1.0, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const NOLOCAL_REFUSES: Profile = [1.0, 8.0, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const NOLOCAL_EITHER: Profile = [4.0, 4.0, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const PROTO_VIP: Profile = [0.3, 0.1, 5.0, 0.1, 0.1, 1.0, 4.0, 0.3, 0.1, 0.1];
pub(crate) const VIP: Profile = [4.0, 3.0, 1.0, 2.0, 0.5, 1.0, 0.3, 0.3, 0.1, 0.1];
pub(crate) const TARGET: Profile = [2.0, 3.0, 1.0, 0.3, 0.3, 1.0, 0.3, 4.0, 0.1, 0.1];
pub(crate) const BACKEND: Profile = [2.0, 4.0, 1.0, 0.3, 0.3, 0.3, 0.3, 4.0, 0.1, 0.1];
pub(crate) const CLIENT: Profile = [6.0, 0.3, 0.3, 3.0, 0.3, 0.1, 0.1, 0.1, 0.1, 1.0];
pub(crate) const CLIENT_VIP: Profile = [6.0, 3.0, 0.3, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const NETWORK: Profile = [8.0, 0.5, 0.1, 1.0, 2.0, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const LOOPBACK: Profile = [7.0, 0.3, 2.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1];
pub(crate) const DNS: Profile = [3.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 3.0, 3.0];

/// How a node without an endpoint behaves under each implementation: IPVS answers with a refusal, the others drop.
pub(crate) const fn nolocal(mode: ProxyMode) -> Profile {
    match mode {
        ProxyMode::Ipvs => NOLOCAL_REFUSES,
        ProxyMode::Iptables | ProxyMode::Nftables => NOLOCAL_DROPS,
        ProxyMode::Unknown => NOLOCAL_EITHER,
    }
}

/// ln of the Dirichlet-multinomial of weighted counts, without the coefficient that is equal for all hypotheses.
pub(crate) fn dm(counts: &Profile, pseudo: &Profile) -> f64 {
    let total: f64 = pseudo.iter().sum();
    let seen: f64 = counts.iter().sum();
    let terms: f64 = counts
        .iter()
        .zip(pseudo)
        .map(|(f, a)| libm::lgamma(a + f) - libm::lgamma(*a))
        .sum();
    libm::lgamma(total) - libm::lgamma(total + seen) + terms
}
