//! What probes have shown that bears on hazards: a hazard that a probe disproves is none.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{Front, Network, NodeName, ServiceKey, Vantage};

use crate::{
    matrix::Seen,
    topology::{FrontKind, Topology},
};

/// What was seen, as far as it disproves or replaces what configuration lets expect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Nodes from whose pod network a balancer address of a Service was just reached.
    pub passing: BTreeMap<ServiceKey, BTreeSet<NodeName>>,
    /// Nodes from whose pod network it just was not: an incident's business already.
    pub failing: BTreeMap<ServiceKey, BTreeSet<NodeName>>,
    /// IPv6 addresses that names are told to have, by name.
    pub published: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Addresses that were just reached from anywhere.
    pub reached: BTreeSet<IpAddr>,
}

impl Facts {
    /// Takes in the newest outcome of each target from each vantage.
    pub(crate) fn see<'a>(&mut self, topology: &Topology, seen: impl Iterator<Item = Seen<'a>>) {
        // By front first: a balancer's hundred hosts are one address, asked by the same clients.
        let mut fronts: BTreeMap<Front, BTreeSet<(bool, &Vantage)>> = BTreeMap::new();
        for one in seen {
            fronts.entry(one.front).or_default().insert((one.ok, one.vantage));
        }
        for (front, seen) in fronts {
            if seen.last().is_some_and(|(ok, _)| *ok) {
                self.reached.insert(front.address.ip());
            }
            let Some(info) = topology.fronts().get(&front) else {
                continue;
            };
            if !matches!(info.kind, FrontKind::LoadBalancer(_)) {
                continue;
            }
            for (ok, vantage) in seen {
                let Vantage::Cluster {
                    node,
                    network: Network::Pod,
                } = vantage
                else {
                    continue;
                };
                let side = if ok { &mut self.passing } else { &mut self.failing };
                match side.get_mut(&info.service) {
                    Some(nodes) => nodes.insert(node.clone()),
                    None => side.entry(info.service.clone()).or_default().insert(node.clone()),
                };
            }
        }
        // One host that fails where another passes says nothing of the address they share.
        for (service, nodes) in &mut self.failing {
            if let Some(passing) = self.passing.get(service) {
                nodes.retain(|node| !passing.contains(node));
            }
        }
    }

    /// Nodes that were just seen to reach the Service's balancer address, or not to.
    pub(crate) fn tried(&self, service: &ServiceKey, node: &NodeName) -> Option<bool> {
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
