//! Fronts at nodes' own addresses: node ports, and Pods with `hostNetwork`.
//!
//! These fronts are not enumerated: every node address with every node port would be millions of fronts, almost
//! all unused. They are looked up when a probe went to one, and only such fronts are judged.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{Front, NodeName, ServiceKey};

use super::{Endpoint, EndpointCondition, FrontInfo, FrontKind, Service, Topology, TrafficPolicy};

/// Listeners at the nodes' own addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NodeListeners {
    /// Node of each address.
    owners: BTreeMap<IpAddr, NodeName>,
    /// Services by node port; every node forwards it.
    by_node_port: BTreeMap<u16, FrontInfo>,
    /// Addresses at which a Pod with `hostNetwork` listens.
    by_host_address: BTreeMap<SocketAddr, FrontInfo>,
}

impl NodeListeners {
    /// Indexes a topology whose nodes, Services and published targets are complete. If several Services select the
    /// same Pod and port, the one that targets use wins, else the first by name.
    pub(super) fn new(topology: &Topology) -> Self {
        let mut machines = Self::default();
        for node in topology.nodes.values() {
            for address in &node.addresses {
                // If two nodes list the same address, its owner is unknown; the first node keeps it.
                let owner = machines.owners.entry(*address);
                owner.or_insert_with(|| node.name.clone());
            }
        }
        let used: BTreeSet<(&ServiceKey, u16)> = topology
            .targets
            .values()
            .filter(|placed| placed.dial_address.is_none())
            .filter_map(|placed| placed.entry.as_ref().map(|(key, port)| (key, *port)))
            .collect();
        for service in topology.services.values() {
            for port in &service.ports {
                let info = |kind| FrontInfo {
                    service: service.key.clone(),
                    kind,
                    port: port.port,
                    target_port: port.target_port,
                };
                if let Some(number) = port.node_port {
                    machines
                        .by_node_port
                        .entry(number)
                        .or_insert_with(|| info(FrontKind::NodePort));
                }
                for endpoint in &service.endpoints {
                    if !machines.is_host_network(endpoint) {
                        continue;
                    }
                    let at = SocketAddr::new(endpoint.address, port.target_port);
                    match machines.by_host_address.entry(at) {
                        Entry::Vacant(free) => drop(free.insert(info(FrontKind::Host))),
                        Entry::Occupied(mut taken) => {
                            let known = taken.get();
                            let kept = used.contains(&(&known.service, known.target_port));
                            if !kept && used.contains(&(&service.key, port.target_port)) {
                                taken.insert(info(FrontKind::Host));
                            }
                        }
                    }
                }
            }
        }
        machines
    }

    /// Reports whether an endpoint has its node's address: a Pod with `hostNetwork`.
    fn is_host_network(&self, endpoint: &Endpoint) -> bool {
        let owner = self.owners.get(&endpoint.address);
        owner.is_some() && owner == endpoint.node.as_ref()
    }

    /// A node port takes precedence: kube-proxy rewrites its packets before a listener on the node could receive
    /// them.
    fn lookup(&self, front: &Front) -> Option<&FrontInfo> {
        self.owners.get(&front.address.ip())?;
        self.by_node_port
            .get(&front.address.port())
            .or_else(|| self.by_host_address.get(&front.address))
    }
}

impl Topology {
    /// Returns the Service behind a front, whether the cluster publishes it or it is a node address.
    #[must_use]
    pub fn front(&self, front: &Front) -> Option<&FrontInfo> {
        self.fronts
            .get(front)
            .or_else(|| self.node_listeners.lookup(front))
    }

    /// Returns the node that has this address.
    #[must_use]
    pub fn node_at(&self, address: &IpAddr) -> Option<&NodeName> {
        self.node_listeners.owners.get(address)
    }

    /// Returns the addresses at which Pods with `hostNetwork` listen, with the Service that selects them.
    pub fn host_fronts(&self) -> impl Iterator<Item = (&SocketAddr, &FrontInfo)> {
        self.node_listeners.by_host_address.iter()
    }

    /// Returns the node whose own address a front is; `None` for cluster and balancer addresses.
    #[must_use]
    pub fn node_serving(&self, front: &Front) -> Option<&NodeName> {
        match self.front(front)?.kind {
            FrontKind::NodePort | FrontKind::Host => self.node_at(&front.address.ip()),
            FrontKind::ClusterIp | FrontKind::LoadBalancer(_) => None,
        }
    }

    /// Returns the endpoints of a front, independent of the client. A node port with policy Local leads only to
    /// the node's own endpoints, and an address of a `hostNetwork` Pod only to that Pod.
    #[must_use]
    pub fn entries(&self, front: &Front) -> Vec<&Endpoint> {
        let Some((info, service)) = self.front_and_service(front) else {
            return Vec::new();
        };
        match (info.kind, self.node_at(&front.address.ip())) {
            (FrontKind::NodePort, Some(node)) if service.external_traffic_policy == TrafficPolicy::Local => {
                service.usable_on(node)
            }
            (FrontKind::Host, _) => service
                .endpoints
                .iter()
                .filter(|endpoint| endpoint.address == front.address.ip())
                .filter(|endpoint| endpoint.condition != EndpointCondition::Unready)
                .collect(),
            _ => service.usable(),
        }
    }

    /// Returns the nodes that have an entry of a front.
    pub(crate) fn entry_nodes(&self, front: &Front) -> BTreeSet<&NodeName> {
        let Some((info, service)) = self.front_and_service(front) else {
            return BTreeSet::new();
        };
        match info.kind {
            FrontKind::ClusterIp | FrontKind::LoadBalancer(_) => service.entry_nodes(info.policy(service)),
            FrontKind::NodePort | FrontKind::Host => self
                .entries(front)
                .into_iter()
                .filter_map(|endpoint| endpoint.node.as_ref())
                .collect(),
        }
    }

    /// Reports whether the client's own node selects the endpoint by policy Local.
    pub(crate) fn uses_local_policy(&self, front: &Front) -> bool {
        self.node_serving(front).is_none()
            && self
                .front_and_service(front)
                .is_some_and(|(info, service)| info.policy(service) == TrafficPolicy::Local)
    }

    pub(super) fn front_and_service(&self, front: &Front) -> Option<(&FrontInfo, &Service)> {
        let info = self.front(front)?;
        Some((info, self.services.get(&info.service)?))
    }
}

impl FrontInfo {
    /// Returns the traffic policy of a front.
    pub(super) const fn policy(&self, service: &Service) -> TrafficPolicy {
        match self.kind {
            FrontKind::ClusterIp => service.internal_traffic_policy,
            FrontKind::LoadBalancer(_) | FrontKind::NodePort => service.external_traffic_policy,
            // No Service is involved.
            FrontKind::Host => TrafficPolicy::Cluster,
        }
    }
}

#[cfg(test)]
mod tests;
