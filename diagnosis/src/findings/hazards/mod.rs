//! Who would fail though nobody does yet: from configuration and facts alone, one family a file.
//!
//! A hazard that probes disprove is none, and one that they confirm is an incident. What nobody knows is not said.

mod hairpin;
mod ipv6;
mod loopback;
mod node;
mod policy;
mod proxied;
mod quota;
mod single;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{NodeName, ServiceKey};
use serde::{Deserialize, Serialize};

use super::{ObservedFacts, Severity, kinds};
use crate::{
    topology::{FrontKind, IpMode, Service, Topology},
    verdict::Remedy,
};

kinds! {
    /// What sort of hazard.
    HazardKind {
        /// Policy Local, and a data plane that holds clients inside to it.
        LocalPolicy = "local-policy", "I1", "clients on nodes without an endpoint would be refused";
        /// The balancer may hand a client back to its own node.
        Loopback = "loopback", "I8.3", "clients next to an endpoint would loop back through the balancer";
        /// The balancer's quota is near, or a way out would exceed it.
        Quota = "quota", "I6", "the balancer's quota is near";
        /// The node short-cuts a balancer that adds PROXY headers.
        ProxyBypass = "proxy-bypass", "F9", "clients inside would bypass the balancer's PROXY header";
        /// A pod cannot reach itself through its Service.
        Hairpin = "hairpin", "F11", "pods would not reach themselves through their Service";
        /// All endpoints are on one node.
        SingleNode = "single-node", "I1", "one node holds every endpoint";
        /// A name has an IPv6 address that nobody serves.
        UnservedIpv6 = "unserved-ipv6", "F17", "an IPv6 address is published and not served";
        /// A node's conntrack table is nearly full.
        Conntrack = "conntrack", "F27", "a node's conntrack table is nearly full";
        /// A node's kube-proxy is behind or ill.
        StaleProxy = "stale-proxy", "F24", "a node's kube-proxy is behind or not healthy";
        /// A node drops packets from its own addresses.
        OwnSources = "own-sources", "F8", "nodes drop packets from their own addresses, as a balancer's health checks may be";
    }
}

/// Something that configuration lets fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hazard {
    /// Derived from what it is about, so that two replicas and a replay agree.
    pub id: String,
    /// What sort.
    pub kind: HazardKind,
    /// How bad it would be.
    pub severity: Severity,
    /// The Service, balancer, name or nodes it is about.
    pub subject: String,
    /// Who would fail.
    pub who: AffectedClients,
    /// The hazard in one sentence.
    pub sentence: String,
    /// The facts it rests on, each with its object.
    pub evidence: Vec<String>,
    /// Ways out.
    pub remedies: Vec<Remedy>,
}

/// Who would fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffectedClients {
    /// Nodes whose clients would; empty where it is not a matter of nodes.
    pub nodes: Vec<NodeName>,
    /// Out of this many.
    pub of: usize,
    /// In words: "pods on 2 of 4 nodes (n3 and n4)".
    pub words: String,
}

/// Every hazard of a cluster, worst first.
#[must_use]
pub fn hazards(topology: &Topology, facts: &ObservedFacts) -> Vec<Hazard> {
    let mut all = Vec::new();
    let balancers = BalancerAddresses::of(topology);
    for service in balancers.0.keys().filter_map(|key| topology.service(key)) {
        all.extend(policy::hazard(topology, facts, service, &balancers));
        all.extend(loopback::hazard(topology, facts, service, &balancers));
        all.extend(proxied::hazard(topology, facts, service, &balancers));
        all.extend(single::hazard(topology, service));
    }
    all.extend(quota::hazards(topology));
    all.extend(hairpin::hazards(topology));
    all.extend(node::hazards(topology));
    all.extend(ipv6::hazards(topology, facts));
    for hazard in &mut all {
        Remedy::all_on(&mut hazard.remedies, topology);
    }
    all.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)));
    all
}

fn id(kind: HazardKind, subject: &str) -> String {
    format!("{kind}:{subject}")
}

/// Balancer addresses by Service, with who answers for each: worked out once for all families.
struct BalancerAddresses<'a>(BTreeMap<&'a ServiceKey, BTreeSet<(IpAddr, IpMode)>>);

impl<'a> BalancerAddresses<'a> {
    fn of(topology: &'a Topology) -> Self {
        let mut all: BTreeMap<&ServiceKey, BTreeSet<(IpAddr, IpMode)>> = BTreeMap::new();
        for (front, info) in topology.fronts() {
            if let FrontKind::LoadBalancer(mode) = info.kind {
                all.entry(&info.service)
                    .or_default()
                    .insert((front.address.ip(), mode));
            }
        }
        Self(all)
    }

    /// Addresses of one Service that are answered for in one way.
    fn addresses(&self, service: &Service, mode: IpMode) -> BTreeSet<IpAddr> {
        self.0
            .get(&service.key)
            .into_iter()
            .flatten()
            .filter(|(_, m)| *m == mode)
            .map(|(address, _)| *address)
            .collect()
    }
}

fn all_nodes(topology: &Topology) -> BTreeSet<NodeName> {
    topology.nodes().keys().cloned().collect()
}

fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    crate::wording::listed(&names)
}

fn who(nodes: &BTreeSet<NodeName>, topology: &Topology, before: &str) -> AffectedClients {
    let of = topology.nodes().len();
    AffectedClients {
        nodes: nodes.iter().cloned().collect(),
        of,
        words: format!("{before}{}", super::of_nodes(nodes, of)),
    }
}
