//! Observations that affect hazards: a hazard that a probe disproves is not reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{Front, Network, NodeName, ServiceKey, Vantage};

use crate::{
    ids::{NameRegistry, VantageIx},
    topology::{FrontKind, Topology},
};

/// The latest outcome of one target from one vantage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatestOutcome {
    pub(crate) vantage: VantageIx,
    /// The front that the probe connected to.
    pub(crate) front: Front,
    pub(crate) ok: bool,
}

/// Observations that disprove or replace expectations from configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedFacts {
    /// Nodes whose Pod network reached a load balancer address of the Service in the latest probe.
    pub passing: BTreeMap<ServiceKey, BTreeSet<NodeName>>,
    /// Nodes whose Pod network failed to reach it in the latest probe; incidents already cover these.
    pub failing: BTreeMap<ServiceKey, BTreeSet<NodeName>>,
    /// IPv6 addresses in DNS answers, by name.
    pub published: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Addresses that any vantage reached in its latest probe.
    pub reached: BTreeSet<IpAddr>,
}

impl ObservedFacts {
    /// Collects the facts from the latest outcome of each target from each vantage.
    pub(crate) fn of(
        topology: &Topology,
        world: &NameRegistry,
        seen: impl Iterator<Item = LatestOutcome>,
    ) -> Self {
        // Deduplicate by front: the hundred hosts of a balancer are one address with the same clients.
        let mut seen: Vec<(Front, bool, VantageIx)> =
            seen.map(|one| (one.front, one.ok, one.vantage)).collect();
        seen.sort_unstable();
        seen.dedup();
        let mut facts = Self::default();
        for seen in seen.chunk_by(|a, b| a.0 == b.0) {
            let front = seen[0].0;
            if seen.iter().any(|(_, ok, _)| *ok) {
                facts.reached.insert(front.address.ip());
            }
            let Some(info) = topology.fronts().get(&front) else {
                continue;
            };
            if !matches!(info.kind, FrontKind::LoadBalancer(_)) {
                continue;
            }
            let nodes = |wanted: bool| {
                let seen = seen.iter().filter(move |(_, ok, _)| *ok == wanted);
                seen.filter_map(|(.., vantage)| match world.vantages.name(*vantage) {
                    Vantage::Cluster {
                        node,
                        network: Network::Pod,
                    } => Some(node.clone()),
                    _ => None,
                })
            };
            for (wanted, side) in [(true, &mut facts.passing), (false, &mut facts.failing)] {
                let mut nodes = nodes(wanted).peekable();
                if nodes.peek().is_some() {
                    side.entry(info.service.clone()).or_default().extend(nodes);
                }
            }
        }
        // If one host fails and another succeeds, the shared address is not at fault.
        for (service, nodes) in &mut facts.failing {
            if let Some(passing) = facts.passing.get(service) {
                nodes.retain(|node| !passing.contains(node));
            }
        }
        facts
    }

    /// Returns whether the node reached the Service's load balancer address in its latest probe, if it was probed.
    pub(crate) fn reached_from(&self, service: &ServiceKey, node: &NodeName) -> Option<bool> {
        let has = |side: &BTreeMap<ServiceKey, BTreeSet<NodeName>>| {
            side.get(service).is_some_and(|nodes| nodes.contains(node))
        };
        match (has(&self.passing), has(&self.failing)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }
}
