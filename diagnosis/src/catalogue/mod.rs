//! The catalogue of causes as data: one file per family, listed in [`all`].
//!
//! The diagnosis first computes the posterior over regions, then over the causes that share the named region, given the
//! failure kinds and the facts.

mod backend;
#[cfg(test)]
mod causes_page;
mod certificates;
mod claims;
mod context;
mod control_plane;
mod dns;
mod http_proxy;
mod loopback;
mod network;
pub(crate) mod no_local;
mod node;
pub(crate) mod node_facts;
mod outside_vantages;
pub(crate) mod table;
mod target_causes;
pub(crate) mod unobservable;
mod virtual_address;

use parallax_model::{Front, Probability, ServiceKey};

use crate::{
    ids::NameRegistry,
    inference::{
        kind_profiles::{KindProfile, ln_dirichlet_multinomial},
        likelihood::log_sum_exp,
        prior::{FactScope, PriorFact},
    },
    regions::RegionKind,
    topology::{Endpoint, EndpointCondition, FrontKind, IpMode, ProxyMode, Service, Topology, TrafficPolicy},
    verdict::{Fact, NamedCause, Remedy},
};

pub(crate) use claims::{Claim, Clause, Wording, is_redirect, join_clauses};
pub(crate) use context::{
    CauseContext, ControllerPresence, CrossingClients, EndpointWithdrawal, FailureCounts,
};
pub(crate) use control_plane::WITHDRAWN_ENDPOINTS;
pub(crate) use table::ContingencyTable;

/// The regions of a fault at the server's end of a connection.
const SERVER_REGIONS: &[RegionKind] = &[
    RegionKind::Target,
    RegionKind::Vip,
    RegionKind::ProtoVip,
    RegionKind::Backend,
    RegionKind::OutsideAll,
];

/// A cause of failing probes.
#[derive(Debug)]
pub(crate) struct Cause {
    /// Id in the failure catalogue (`F…`), or an id of this project (`P…`) where the catalogue has none.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// The regions it breaks.
    pub(crate) regions: &'static [RegionKind],
    pub(crate) profile: fn(&CauseContext<'_>) -> KindProfile,
    /// The weight that the facts of this cluster give it relative to the other causes of the region; zero rules it out.
    pub(crate) weight: fn(&CauseContext<'_>) -> f64,
    /// The mechanism as clauses; in the sentence it follows who fails and how.
    pub(crate) mechanism: fn(&CauseContext<'_>) -> Vec<Clause>,
    pub(crate) remedies: fn(&CauseContext<'_>) -> Vec<Remedy>,
}

/// All causes of the catalogue.
pub(crate) fn all() -> impl Iterator<Item = &'static Cause> {
    [
        no_local::CAUSES,
        node::CAUSES,
        backend::CAUSES,
        virtual_address::CAUSES,
        target_causes::CAUSES,
        loopback::CAUSES,
        network::CAUSES,
        dns::CAUSES,
        outside_vantages::CAUSES,
        certificates::CAUSES,
        http_proxy::CAUSES,
        control_plane::CAUSES,
    ]
    .into_iter()
    .flatten()
}

/// Looks for a fact that changes the weight of one cause against the others of its region.
type FactRule = fn(&CauseContext<'_>) -> Option<Fact>;

/// Fact rules with the id of the cause that each one weights.
const FACTS: &[(&str, FactRule)] = &[("F13", target_causes::network_policy_fact)];

fn facts_of<'a>(cause: &'a Cause, situation: &'a CauseContext<'_>) -> impl Iterator<Item = Fact> + 'a {
    let own = FACTS.iter().filter(|(id, _)| *id == cause.id);
    own.filter_map(|(_, look)| look(situation))
}

/// Returns the facts that changed the weights of causes; they are reported alongside the facts that moved the region.
pub(crate) fn moving_facts(ranked: &[(&Cause, f64)], situation: &CauseContext<'_>) -> Vec<Fact> {
    ranked
        .iter()
        .map(|(cause, _)| *cause)
        .flat_map(|cause| facts_of(cause, situation))
        .collect()
}

/// Ranks the causes of regions that the evidence cannot separate, likeliest first, each with its share of the total.
/// Each region comes with its share of the class. Causes below one percent are left out.
pub(crate) fn rank_class(
    regions: &[(RegionKind, f64)],
    situation: &CauseContext<'_>,
) -> Vec<(&'static Cause, f64)> {
    let mut sums: Vec<(&Cause, f64)> = Vec::new();
    for (region, weight) in regions {
        for (cause, share) in rank(*region, situation) {
            match sums.iter_mut().find(|(known, _)| known.id == cause.id) {
                Some((_, sum)) => *sum += weight * share,
                None => sums.push((cause, weight * share)),
            }
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.id.cmp(b.0.id)));
    sums.retain(|(_, p)| *p >= 0.01);
    sums
}

/// Ranks the causes of a region, likeliest first, each with its share of the region's probability. Causes below one
/// percent are left out.
pub(crate) fn rank(region: RegionKind, situation: &CauseContext<'_>) -> Vec<(&'static Cause, f64)> {
    let of_control_plane = |id: &str| all().any(|c| c.id == id && (c.weight)(situation) > 0.0);
    let outranked = ["P11", "P12"].into_iter().any(of_control_plane);
    let mut scored: Vec<(&Cause, f64)> = all()
        .filter(|cause| cause.regions.contains(&region))
        .filter(|cause| !(outranked && control_plane::OUTRANKED.contains(&cause.id)))
        .filter_map(|cause| {
            let moved: f64 = facts_of(cause, situation).map(|fact| fact.multiplier).product();
            let likelier = (cause.weight)(situation) * moved;
            (likelier > 0.0).then(|| {
                let score = libm::log(likelier)
                    + ln_dirichlet_multinomial(&situation.failures_by_class, &(cause.profile)(situation));
                (cause, score)
            })
        })
        .collect();
    let total = log_sum_exp(&scored.iter().map(|(_, s)| *s).collect::<Vec<_>>());
    for (_, score) in &mut scored {
        *score = libm::exp(*score - total);
    }
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.id.cmp(b.0.id)));
    scored.retain(|(_, p)| *p >= 0.01);
    scored
}

pub(crate) fn named(ranked: &[(&Cause, f64)]) -> Vec<NamedCause> {
    ranked
        .iter()
        .filter_map(|(cause, p)| {
            Some(NamedCause {
                id: cause.id.to_owned(),
                title: cause.title.to_owned(),
                probability: Probability::new(*p).ok()?,
            })
        })
        .collect()
}

/// Returns the remedies of the likeliest cause, then those of the next two whose action is not listed yet.
pub(crate) fn remedies(ranked: &[(&Cause, f64)], situation: &CauseContext<'_>) -> Vec<Remedy> {
    let mut remedies: Vec<Remedy> = Vec::new();
    for (cause, _) in ranked.iter().take(3) {
        for remedy in (cause.remedies)(situation) {
            if !remedies.iter().any(|r| r.action == remedy.action) {
                remedies.push(remedy);
            }
        }
    }
    Remedy::remove_unsupported_commands(&mut remedies, situation.topology);
    remedies
}

/// Causes that delay connections as well as break them: a load balancer that tries the next endpoint after about 4 s,
/// DNS queries that are retried after 5 s, and everything that loses packets.
pub(crate) const DELAYING: &[&str] = &["F6", "F15", "F16", "F22", "F27", "F28"];

/// Static facts about a front's Service that move the prior, each reported with its multiplier.
pub(crate) fn facts(
    topology: &Topology,
    (front, service): (Option<&Front>, Option<&ServiceKey>),
    world: &NameRegistry,
    foreign_proxy: bool,
) -> Vec<PriorFact> {
    let mut facts = node_facts::common_facts(topology, world);
    if let Some(service) = service.and_then(|key| topology.service(key)) {
        facts.extend(unready(service, world));
    }
    let Some((front, info, service)) =
        front.and_then(|f| Some((f, topology.front(f)?, topology.service_of(f)?)))
    else {
        return facts;
    };
    facts.extend(node_facts::front_facts(
        topology,
        info,
        service,
        front.address.ip(),
        world,
    ));
    let mut add = |about, multiplier, text: String| {
        facts.push(PriorFact {
            scope: about,
            fact: Fact {
                text,
                multiplier,
                cause: None,
            },
        });
    };
    let nolocal = FactScope::Kind(RegionKind::NoLocal);
    let key = &service.key;
    let mode = topology.proxy_mode();
    match info.kind {
        FrontKind::LoadBalancer(ip_mode) => match service.external_traffic_policy {
            TrafficPolicy::Cluster => {
                add(
                    nolocal,
                    0.02,
                    format!("Service {key} has externalTrafficPolicy: Cluster"),
                );
            }
            TrafficPolicy::Local if mode == ProxyMode::Ipvs || foreign_proxy || ip_mode == IpMode::Proxy => {
                let reason = match (mode, ip_mode) {
                    (ProxyMode::Ipvs, _) => "kube-proxy runs in IPVS mode",
                    (_, IpMode::Proxy) => "its load balancer address has ipMode: Proxy",
                    _ => "kube-proxy is replaced",
                };
                add(
                    nolocal,
                    5.0,
                    format!("Service {key} has externalTrafficPolicy: Local and {reason}"),
                );
            }
            TrafficPolicy::Local if matches!(mode, ProxyMode::Iptables | ProxyMode::Nftables) => {
                add(
                    nolocal,
                    0.2,
                    format!(
                        "a current kube-proxy serves the load balancer address of Service {key} on every node \
                         (ipMode: VIP)"
                    ),
                );
            }
            TrafficPolicy::Local => {}
        },
        FrontKind::ClusterIp => match service.internal_traffic_policy {
            TrafficPolicy::Cluster => {
                add(
                    nolocal,
                    0.02,
                    format!("Service {key} has internalTrafficPolicy: Cluster"),
                );
            }
            TrafficPolicy::Local => {
                add(
                    nolocal,
                    5.0,
                    format!("Service {key} has internalTrafficPolicy: Local"),
                );
            }
        },
        // Other nodes' rules do not apply: this node serves the address itself.
        FrontKind::NodePort | FrontKind::Host => {
            if let Some(node) = topology.node_serving(front) {
                add(
                    nolocal,
                    0.02,
                    format!("{front} is an address of node {node}, which serves it itself"),
                );
            }
        }
    }
    facts
}

/// Endpoints that are not ready according to the EndpointSlice.
fn unready(service: &Service, world: &NameRegistry) -> Vec<PriorFact> {
    let unready = service.endpoints.iter();
    let unready = unready.filter(|endpoint| endpoint.condition == EndpointCondition::Unready);
    let fact = |endpoint: &Endpoint| {
        Some(PriorFact {
            scope: FactScope::Pod(world.pods.get(&endpoint.pod)?),
            fact: Fact {
                text: format!("the EndpointSlice marks {} as not ready", endpoint.pod),
                multiplier: 10.0,
                cause: None,
            },
        })
    };
    unready.filter_map(fact).collect()
}

// === shared by the families ===

/// Host and port as commands and URLs write them (RFC 3986 §3.2.2).
fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

pub(crate) fn remedy(action: impl Into<String>, command: Option<String>, price: impl Into<String>) -> Remedy {
    Remedy::new(action, command, price)
}

#[cfg(test)]
mod tests;
