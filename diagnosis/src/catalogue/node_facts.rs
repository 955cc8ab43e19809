//! Node facts that move the prior, each reported with its multiplier. No fact is a verdict: a full conntrack table may
//! drop nothing, and a stale count may be about to be corrected.

use parallax_model::{KindClass, NodeName};

use super::CauseContext;
use crate::{
    ids::{NameRegistry, class_index},
    inference::prior::{FactScope, PriorFact},
    regions::RegionKind,
    topology::{
        FrontInfo, FrontKind, IpMode, Node, NodeFacts, ProxyMode, Service, Topology, TrafficPolicy,
        nodes_matching, stale_kube_proxies,
    },
    verdict::Fact,
};

/// Fill level from which a conntrack table is considered full: the kernel drops early, and counts arrive seconds apart.
pub(crate) const CONNTRACK_FULL_PERCENT: u8 = 95;

/// Facts about nodes that apply to every subject.
pub(super) fn common_facts(topology: &Topology, world: &NameRegistry) -> Vec<PriorFact> {
    let mut facts = Vec::new();
    for node in topology.nodes().values() {
        let Some(ix) = world.nodes.get(&node.name) else {
            continue;
        };
        let name = &node.name;
        if let Some(percent) = node
            .facts
            .conntrack_percent
            .filter(|p| *p >= CONNTRACK_FULL_PERCENT)
        {
            let text = format!("the conntrack table of {name} is {percent} % full");
            facts.push(fact(FactScope::Node(RegionKind::Client, ix), 5.0, text.clone()));
            facts.push(fact(FactScope::Node(RegionKind::Bnode, ix), 3.0, text));
        }
        if node.facts.proxy_healthy == Some(false) {
            let text = format!("kube-proxy on {name} reports that it is not healthy");
            facts.push(fact(FactScope::Node(RegionKind::ClientVip, ix), 5.0, text));
        }
    }
    let strict = nodes_matching(topology, |facts| facts.strict_rp_filter == Some(true));
    if !strict.is_empty() {
        let text = format!("rp_filter is strict on {}", shortened_list(&strict));
        for kind in [RegionKind::Same, RegionKind::SameVip] {
            facts.push(fact(FactScope::Kind(kind), 2.0, text.clone()));
        }
    }
    facts
}

/// Facts about nodes that apply to one front.
pub(super) fn front_facts(
    topology: &Topology,
    info: &FrontInfo,
    service: &Service,
    address: std::net::IpAddr,
    world: &NameRegistry,
) -> Vec<PriorFact> {
    let mut facts = Vec::new();
    for (node, known, published) in stale_kube_proxies(topology, service) {
        if let Some(ix) = world.nodes.get(&node.name) {
            let text = format!(
                "kube-proxy on {} has {known} local endpoints of Service {}, the EndpointSlices have {published}",
                node.name, service.key
            );
            facts.push(fact(FactScope::Node(RegionKind::ClientVip, ix), 10.0, text));
        }
    }
    facts.extend(hairpin(topology, service));
    let FrontKind::LoadBalancer(ip_mode) = info.kind else {
        return facts;
    };
    let (bound, unbound) = nodes_by_ipvs_binding(topology, address);
    if service.external_traffic_policy == TrafficPolicy::Local && !(bound.is_empty() && unbound.is_empty()) {
        let about = FactScope::Kind(RegionKind::NoLocal);
        facts.push(if bound.is_empty() {
            let text = format!(
                "{address} is not bound to kube-ipvs0 on {}: traffic leaves the node",
                shortened_list(&unbound)
            );
            fact(about, 0.2, text)
        } else {
            let text = format!("{address} is bound to kube-ipvs0 on {}", shortened_list(&bound));
            fact(about, 2.0, text)
        });
    }
    let dropping = nodes_matching(topology, |facts| facts.drops_own_source_addresses == Some(true));
    if ip_mode == IpMode::Vip && topology.proxy_mode() == ProxyMode::Ipvs && !dropping.is_empty() {
        let text = format!(
            "packets from the node's own addresses are dropped on {} (in_martian_src increases), as health checks \
             from {address} would be",
            shortened_list(&dropping)
        );
        for kind in [RegionKind::OutsideAll, RegionKind::OutsideFrontNode] {
            facts.push(fact(FactScope::Kind(kind), 4.0, text.clone()));
        }
    }
    facts
}

fn hairpin(topology: &Topology, service: &Service) -> Vec<PriorFact> {
    let hosts: Vec<&Node> = topology
        .nodes()
        .values()
        .filter(|node| node.facts.hairpin.is_some() && !service.usable_on(&node.name).is_empty())
        .collect();
    let off: Vec<&NodeName> = hosts
        .iter()
        .filter(|node| node.facts.hairpin == Some(false))
        .map(|node| &node.name)
        .collect();
    let (multiplier, text) = match (hosts.is_empty(), off.is_empty()) {
        (true, _) => return Vec::new(),
        (false, true) => (0.2, "hairpin mode is on where its endpoints run".to_owned()),
        (false, false) => (3.0, format!("hairpin mode is off on {}", shortened_list(&off))),
    };
    vec![fact(FactScope::Kind(RegionKind::SelfVip), multiplier, text)]
}

/// Nodes that have a load balancer's address on `kube-ipvs0`, and nodes that do not; unknown nodes are in neither list.
fn nodes_by_ipvs_binding(topology: &Topology, address: std::net::IpAddr) -> (Vec<&NodeName>, Vec<&NodeName>) {
    let has = |facts: &NodeFacts| {
        facts
            .ipvs_addresses
            .as_ref()
            .map(|addresses| addresses.contains(&address))
    };
    let ipvs = topology.proxy_mode() == ProxyMode::Ipvs;
    let with = |wanted| nodes_matching(topology, |facts| ipvs && has(facts) == Some(wanted));
    (with(true), with(false))
}

/// "n1 and n2", or "n1, n2 and 40 more nodes".
fn shortened_list(nodes: &[&NodeName]) -> String {
    const NAMED: usize = 3;
    let mut names: Vec<String> = nodes.iter().take(NAMED).map(ToString::to_string).collect();
    if nodes.len() > NAMED {
        names.push(crate::wording::pluralize(nodes.len() - NAMED, "more node"));
    }
    crate::wording::join_names(&names)
}

const fn fact(about: FactScope, multiplier: f64, text: String) -> PriorFact {
    PriorFact {
        scope: about,
        fact: Fact {
            text,
            multiplier,
            cause: None,
        },
    }
}

// === facts that separate causes of the same region ===

impl CauseContext<'_> {
    /// Facts of the region's node.
    fn member_facts(&self) -> Option<&NodeFacts> {
        let name = NodeName::new(self.members.first()?.as_str()).ok()?;
        self.topology.nodes().get(&name).map(|node| &node.facts)
    }

    /// The weight of a full conntrack table, given its measured fill level.
    pub(super) fn conntrack_weight(&self) -> f64 {
        let weight = match self.member_facts().and_then(|facts| facts.conntrack_percent) {
            Some(percent) if percent >= CONNTRACK_FULL_PERCENT => 3.0,
            Some(_) => 0.02,
            None => 0.3,
        };
        // A full table drops packets and reports nothing to the sender (nf_conntrack_in() in Linux).
        let reported = self.failures_by_class[class_index(KindClass::Unreachable)];
        let all: f64 = self.failures_by_class.iter().sum();
        weight * (1.0 - reported / all.max(f64::MIN_POSITIVE))
    }

    /// Reports whether any node has a strict reverse path filter, if known.
    pub(super) fn filters_strictly(&self) -> Option<bool> {
        self.any_node_reports(|facts| facts.strict_rp_filter)
    }

    /// Reports whether any node drops packets from its own addresses, if known.
    pub(super) fn drops_own_sources(&self) -> Option<bool> {
        self.any_node_reports(|facts| facts.drops_own_source_addresses)
    }

    /// Reports whether the front's address is on any node's `kube-ipvs0`, if known.
    pub(super) fn is_bound(&self) -> Option<bool> {
        let service = self.service?;
        let mut balancers = self.topology.fronts().iter().filter(|(_, info)| {
            info.service == service.key && matches!(info.kind, FrontKind::LoadBalancer(_))
        });
        let (front, _) = balancers.next()?;
        let (bound, unbound) = nodes_by_ipvs_binding(self.topology, front.address.ip());
        match (bound.is_empty(), unbound.is_empty()) {
            (true, true) => None,
            (none_bound, _) => Some(!none_bound),
        }
    }

    /// True if any node reports true, false if all nodes that report anything report false.
    fn any_node_reports(&self, fact: impl Fn(&NodeFacts) -> Option<bool>) -> Option<bool> {
        self.topology
            .nodes()
            .values()
            .filter_map(|node| fact(&node.facts))
            .reduce(|any, one| any || one)
    }
}

#[cfg(test)]
#[path = "node_facts_tests.rs"]
mod tests;
