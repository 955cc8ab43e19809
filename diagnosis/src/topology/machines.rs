//! Nodes' own addresses as fronts: ports that every node hands on to a Service, and pods that listen in the network of
//! their node.
//!
//! None of them is listed. Every node address with every node port would be millions of fronts that nobody asks for, so
//! what a probe went to is looked up; until then it costs nothing and nobody judges it.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{Front, NodeName, ServiceKey};

use super::{Endpoint, EndpointCondition, FrontInfo, FrontKind, Service, Topology, TrafficPolicy};

/// What nodes serve at their own addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NodeListeners {
    /// Whose each address is.
    owners: BTreeMap<IpAddr, NodeName>,
    /// What every node hands on at a port of its own.
    ports: BTreeMap<u16, FrontInfo>,
    /// Where a pod listens in its node's own network.
    hosts: BTreeMap<SocketAddr, FrontInfo>,
}

impl NodeListeners {
    /// Of a topology whose nodes, Services and published targets are known. Of several Services that select the same pod
    /// at the same port the one through which targets enter is meant, else the first by name.
    pub(super) fn of(topology: &Topology) -> Self {
        let mut machines = Self::default();
        for node in topology.nodes.values() {
            for address in &node.addresses {
                // Where two nodes say that an address is theirs, nobody knows whose it is; the first keeps it.
                let owner = machines.owners.entry(*address);
                owner.or_insert_with(|| node.name.clone());
            }
        }
        let used: BTreeSet<(&ServiceKey, u16)> = topology
            .targets
            .values()
            .filter(|placed| placed.dial.is_none())
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
                        .ports
                        .entry(number)
                        .or_insert_with(|| info(FrontKind::NodePort));
                }
                for endpoint in &service.endpoints {
                    if !machines.is_own(endpoint) {
                        continue;
                    }
                    let at = SocketAddr::new(endpoint.address, port.target_port);
                    match machines.hosts.entry(at) {
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

    /// Whether an endpoint has the address of its own node: a pod with `hostNetwork`.
    fn is_own(&self, endpoint: &Endpoint) -> bool {
        let owner = self.owners.get(&endpoint.address);
        owner.is_some() && owner == endpoint.node.as_ref()
    }

    /// kube-proxy rewrites what is meant for a node port before anything on the node could listen there.
    fn get(&self, front: &Front) -> Option<&FrontInfo> {
        self.owners.get(&front.address.ip())?;
        self.ports
            .get(&front.address.port())
            .or_else(|| self.hosts.get(&front.address))
    }
}

impl Topology {
    /// What stands behind a front, whether the cluster lists it or it is an address of a node.
    #[must_use]
    pub fn front(&self, front: &Front) -> Option<&FrontInfo> {
        self.fronts.get(front).or_else(|| self.machines.get(front))
    }

    /// The node that has an address of its own.
    #[must_use]
    pub fn node_at(&self, address: &IpAddr) -> Option<&NodeName> {
        self.machines.owners.get(address)
    }

    /// Where pods listen in the network of their node, with the Service that selects them.
    pub fn host_fronts(&self) -> impl Iterator<Item = (&SocketAddr, &FrontInfo)> {
        self.machines.hosts.iter()
    }

    /// The node that itself answers at a front: it is one of its own addresses and not a balancer's.
    #[must_use]
    pub fn machine(&self, front: &Front) -> Option<&NodeName> {
        match self.front(front)?.kind {
            FrontKind::NodePort | FrontKind::Host => self.node_at(&front.address.ip()),
            FrontKind::ClusterIp | FrontKind::LoadBalancer(_) => None,
        }
    }

    /// The endpoints that a front leads to, whoever asks. A node's own address leads to what that node chooses among: under
    /// policy Local its own endpoints, and where a pod listens in its network only that pod.
    #[must_use]
    pub fn entries(&self, front: &Front) -> Vec<&Endpoint> {
        let Some((info, service)) = self.behind(front) else {
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

    /// The nodes that have an entry of a front.
    pub(crate) fn holders(&self, front: &Front) -> BTreeSet<&NodeName> {
        let Some((info, service)) = self.behind(front) else {
            return BTreeSet::new();
        };
        match info.kind {
            FrontKind::ClusterIp | FrontKind::LoadBalancer(_) => service.holders(info.policy(service)),
            FrontKind::NodePort | FrontKind::Host => self
                .entries(front)
                .into_iter()
                .filter_map(|endpoint| endpoint.node.as_ref())
                .collect(),
        }
    }

    /// Whether the client's own node decides by policy Local where a connection goes.
    pub(crate) fn is_strict(&self, front: &Front) -> bool {
        self.machine(front).is_none()
            && self
                .behind(front)
                .is_some_and(|(info, service)| info.policy(service) == TrafficPolicy::Local)
    }

    pub(super) fn behind(&self, front: &Front) -> Option<(&FrontInfo, &Service)> {
        let info = self.front(front)?;
        Some((info, self.services.get(&info.service)?))
    }
}

impl FrontInfo {
    /// The policy that a front follows.
    pub(super) const fn policy(&self, service: &Service) -> TrafficPolicy {
        match self.kind {
            FrontKind::ClusterIp => service.internal_traffic_policy,
            FrontKind::LoadBalancer(_) | FrontKind::NodePort => service.external_traffic_policy,
            // No Service stands between.
            FrontKind::Host => TrafficPolicy::Cluster,
        }
    }
}

#[cfg(test)]
mod tests;
