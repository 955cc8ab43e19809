//! Clients that would fail although none fails yet, derived from configuration and facts; one family per file.
//!
//! A hazard that probes disprove is not reported, and one that they confirm is an incident. Unknown facts produce no
//! hazard.

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
    /// The kind of a hazard.
    HazardKind {
        /// Traffic policy Local, and a data plane that applies it to in-cluster clients.
        LocalPolicy = "local-policy", "I1", "clients on nodes without an endpoint would be refused";
        /// The load balancer may send a client back to its own node.
        Loopback = "loopback", "I8.3", "clients on an endpoint's node would loop back through the load balancer";
        /// The load balancer's quota is nearly used up, or a remedy would exceed it.
        Quota = "quota", "I6", "the load balancer's quota is nearly used up";
        /// The node bypasses a load balancer that adds PROXY headers.
        ProxyBypass = "proxy-bypass", "F9", "in-cluster clients would bypass the load balancer's PROXY header";
        /// A Pod cannot reach itself through its Service.
        Hairpin = "hairpin", "F11", "Pods would not reach themselves through their Service";
        /// All endpoints are on one node.
        SingleNode = "single-node", "I1", "one node runs every endpoint";
        /// A name has an IPv6 address that nothing serves.
        UnservedIpv6 = "unserved-ipv6", "F17", "an IPv6 address is published but not served";
        /// A node's conntrack table is nearly full.
        Conntrack = "conntrack", "F27", "a node's conntrack table is nearly full";
        /// A node's kube-proxy is out of date or not healthy.
        StaleProxy = "stale-proxy", "F24", "a node's kube-proxy is out of date or not healthy";
        /// A node drops packets from its own addresses.
        OwnSources = "own-sources", "F8", "nodes drop packets from their own addresses, perhaps also health checks";
    }
}

impl HazardKind {
    /// Ids of the causes that an incident names once the failure has happened.
    pub(crate) const fn causes(self) -> &'static [&'static str] {
        match self {
            Self::LocalPolicy => &["F1", "F2", "F3", "F4"],
            Self::Loopback => &["F5", "F6", "F7"],
            Self::ProxyBypass => &["F9"],
            Self::Hairpin => &["F11", "F11b"],
            Self::Conntrack => &["F27"],
            Self::StaleProxy => &["F24"],
            Self::OwnSources => &["F8"],
            Self::Quota | Self::SingleNode | Self::UnservedIpv6 => &[],
        }
    }
}

/// A failure that configuration or node state makes possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hazard {
    /// Derived from the subject, so that two replicas and a replay agree.
    pub id: String,
    /// The kind.
    pub kind: HazardKind,
    /// The severity if it happens.
    pub severity: Severity,
    /// The affected Service, load balancer, name or nodes.
    pub subject: String,
    /// The clients that would fail.
    #[serde(rename = "who")]
    pub affected: AffectedClients,
    /// The hazard in one sentence.
    pub sentence: String,
    /// The facts that it is based on, each with its object.
    pub evidence: Vec<String>,
    /// Remedies.
    pub remedies: Vec<Remedy>,
}

/// Clients that would fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffectedClients {
    /// Nodes whose clients would fail; empty if the hazard does not depend on nodes.
    pub nodes: Vec<NodeName>,
    /// Number of nodes in the cluster.
    #[serde(rename = "of")]
    pub total_nodes: usize,
    /// In words: "Pods on 2 of 4 nodes (n3 and n4)".
    #[serde(rename = "words")]
    pub description: String,
}

/// Returns all hazards of a cluster, worst first.
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
        Remedy::remove_unsupported_commands(&mut hazard.remedies, topology);
    }
    all.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)));
    all
}

fn id(kind: HazardKind, subject: &str) -> String {
    format!("{kind}:{subject}")
}

/// Load balancer addresses by Service with their `ipMode`, computed once for all families.
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

    /// Addresses of a Service with the given `ipMode`.
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
    crate::wording::join_names(&names)
}

fn affected_clients(nodes: &BTreeSet<NodeName>, topology: &Topology, before: &str) -> AffectedClients {
    let of = topology.nodes().len();
    AffectedClients {
        nodes: nodes.iter().cloned().collect(),
        total_nodes: of,
        description: format!("{before}{}", super::node_share(nodes, of)),
    }
}
