//! The cluster as it is at one moment: names, addresses, who is behind which Service.
//!
//! Pure. Both sides of the lab hold one and apply the same changes: the guest to forward packets, the host to
//! publish the topology.

pub mod addresses;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use parallax_model::{HostName, NodeName, PodName, ServiceKey, ZoneName};

use crate::incident::{Dataplane, Incident, Ingress, Op, Service as Written, ServicePort, TrafficPolicy};

/// The cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Who forwards.
    pub dataplane: Dataplane,
    /// Nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// Services, in the order of the file.
    pub services: Vec<Service>,
    /// Ingresses.
    pub ingresses: Vec<Ingress>,
    /// The cluster's resolver; runs on the first node.
    pub dns: Pod,
    /// The number the next workload pod of a node gets. An address is never given twice: a probe to a pod that is
    /// gone must not reach its successor.
    next_pod: BTreeMap<NodeName, u8>,
    /// Pods that are no more; their namespaces keep their names.
    gone: BTreeSet<PodName>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name, also of its network namespace.
    pub name: NodeName,
    /// Its zone.
    pub zone: ZoneName,
    /// Its place in the file, from 1; all its addresses follow from it.
    pub number: u8,
    /// Its prober.
    pub prober: Pod,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its name, also of its network namespace.
    pub name: PodName,
    /// Its node.
    pub node: NodeName,
    /// Its address in the pod network.
    pub address: Ipv4Addr,
}

/// A Service and the pods behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `namespace/name`.
    pub key: ServiceKey,
    /// Its virtual address inside the cluster.
    pub cluster_ip: Ipv4Addr,
    /// The balancer's address.
    pub load_balancer_ip: Option<Ipv4Addr>,
    /// Where traffic for the balancer's address and the nodePorts may go.
    pub policy: TrafficPolicy,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// The pods behind it.
    pub endpoints: Vec<Pod>,
}

/// A change does not fit the cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// A cluster of nothing.
    #[error("a cluster needs at least one node")]
    NoNodes,
    /// Unknown Service.
    #[error("there is no Service {0}")]
    NoService(ServiceKey),
    /// Unknown pod.
    #[error("the Service {service} has no pod {pod}")]
    NoPod {
        /// The Service.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// Unknown node.
    #[error("there is no node {0}")]
    NoNode(NodeName),
    /// A pod's name names its namespace, for ever.
    #[error("the name {0} is or was taken; a new pod needs a new name")]
    Taken(PodName),
    /// All addresses are used.
    #[error("the node {0} has no free pod address left")]
    Full(NodeName),
}

/// What a change means for the processes of the lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A pod starts.
    Started(Pod, Vec<ServicePort>),
    /// A pod is gone.
    Stopped(Pod),
    /// Only the forwarding changes.
    Rules,
}

impl Cluster {
    /// The cluster of an incident, healthy.
    pub fn derive(incident: &Incident) -> Result<Self, OpError> {
        let nodes: Vec<Node> = (1..)
            .zip(&incident.topology.nodes)
            .map(|(number, node)| Node {
                name: node.name.clone(),
                zone: node.zone.clone(),
                number,
                prober: Pod {
                    name: pod_name(addresses::prober_pod(&node.name)),
                    node: node.name.clone(),
                    address: addresses::pod(number, addresses::PROBER),
                },
            })
            .collect();
        let dns = Pod {
            name: pod_name(addresses::DNS_POD.to_owned()),
            node: nodes.first().ok_or(OpError::NoNodes)?.name.clone(),
            address: addresses::pod(1, addresses::DNS),
        };
        let mut cluster = Self {
            dataplane: incident.dataplane,
            nodes,
            services: Vec::new(),
            ingresses: incident.topology.ingresses.clone(),
            dns,
            next_pod: BTreeMap::new(),
            gone: BTreeSet::new(),
        };
        for written in &incident.topology.services {
            let service = cluster.service_of(written)?;
            cluster.services.push(service);
        }
        Ok(cluster)
    }

    fn service_of(&mut self, written: &Written) -> Result<Service, OpError> {
        let endpoints = written
            .endpoints
            .iter()
            .map(|endpoint| self.new_pod(&endpoint.pod, &endpoint.node))
            .collect::<Result<_, _>>()?;
        Ok(Service {
            key: written.service.clone(),
            cluster_ip: written.cluster_ip,
            load_balancer_ip: written.load_balancer_ip,
            policy: written.external_traffic_policy,
            ports: written.ports.clone(),
            endpoints,
        })
    }

    fn new_pod(&mut self, name: &PodName, node: &NodeName) -> Result<Pod, OpError> {
        let number = self
            .node(node)
            .ok_or_else(|| OpError::NoNode(node.clone()))?
            .number;
        let next = self
            .next_pod
            .entry(node.clone())
            .or_insert(addresses::FIRST_WORKLOAD);
        let last = *next;
        *next = last.checked_add(1).ok_or_else(|| OpError::Full(node.clone()))?;
        Ok(Pod {
            name: name.clone(),
            node: node.clone(),
            address: addresses::pod(number, last),
        })
    }

    /// Applies one change. On an error nothing has changed.
    pub fn apply(&mut self, op: &Op) -> Result<Effect, OpError> {
        match op {
            Op::RemoveEndpoint { service, pod } => {
                let endpoints = &mut self.service_mut(service)?.endpoints;
                let at = endpoints
                    .iter()
                    .position(|e| e.name == *pod)
                    .ok_or_else(|| OpError::NoPod {
                        service: service.clone(),
                        pod: pod.clone(),
                    })?;
                let pod = endpoints.remove(at);
                self.gone.insert(pod.name.clone());
                Ok(Effect::Stopped(pod))
            }
            Op::AddEndpoint { service, pod, node } => {
                self.service_mut(service)?;
                if self.gone.contains(pod) || self.pods().any(|known| known.name == *pod) {
                    return Err(OpError::Taken(pod.clone()));
                }
                let pod = self.new_pod(pod, node)?;
                let service = self.service_mut(service)?;
                service.endpoints.push(pod.clone());
                Ok(Effect::Started(pod, service.ports.clone()))
            }
            Op::SetPolicy {
                service,
                external_traffic_policy,
            } => {
                self.service_mut(service)?.policy = *external_traffic_policy;
                Ok(Effect::Rules)
            }
        }
    }

    fn service_mut(&mut self, key: &ServiceKey) -> Result<&mut Service, OpError> {
        self.services
            .iter_mut()
            .find(|service| service.key == *key)
            .ok_or_else(|| OpError::NoService(key.clone()))
    }

    /// A Service by its name.
    #[must_use]
    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.iter().find(|service| service.key == *key)
    }

    /// A node by its name.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == *name)
    }

    /// Every pod: the resolver, probers, endpoints.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        std::iter::once(&self.dns)
            .chain(self.nodes.iter().map(|node| &node.prober))
            .chain(self.services.iter().flat_map(|service| &service.endpoints))
    }

    /// Every pod behind a Service, with the Service's ports.
    pub fn workloads(&self) -> impl Iterator<Item = (&Pod, &[ServicePort])> {
        self.services.iter().flat_map(|service| {
            service
                .endpoints
                .iter()
                .map(|pod| (pod, service.ports.as_slice()))
        })
    }

    /// What the cluster's resolver answers: every host of an Ingress has its balancer's address.
    pub fn names(&self) -> impl Iterator<Item = (&HostName, Ipv4Addr)> {
        self.ingresses.iter().flat_map(|ingress| {
            let address = self
                .service(&ingress.service)
                .and_then(|service| service.load_balancer_ip);
            ingress
                .hosts
                .names()
                .iter()
                .filter_map(move |host| Some((host, address?)))
        })
    }
}

fn pod_name(name: String) -> PodName {
    #[expect(clippy::expect_used, reason = "made from a checked node name and letters")]
    PodName::new(name).expect("a name of letters")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn cluster() -> Cluster {
        let text = include_str!("../incidents/i1.yaml");
        Cluster::derive(&crate::incident::parse(Path::new("i1.yaml"), text).unwrap()).unwrap()
    }

    fn ingress() -> ServiceKey {
        "ingress/ingress-nginx".parse().unwrap()
    }

    fn add(pod: &str, node: &str) -> Op {
        Op::AddEndpoint {
            service: ingress(),
            pod: pod.parse().unwrap(),
            node: node.parse().unwrap(),
        }
    }

    fn remove(pod: &str) -> Op {
        Op::RemoveEndpoint {
            service: ingress(),
            pod: pod.parse().unwrap(),
        }
    }

    #[test]
    fn addresses_follow_from_the_order_of_nodes_and_pods() {
        let cluster = cluster();
        let all: Vec<String> = cluster
            .pods()
            .map(|pod| format!("{} {}", pod.name, pod.address))
            .collect();
        assert_eq!(
            all,
            [
                "dns 10.244.1.3",
                "prober-n1 10.244.1.5",
                "prober-n2 10.244.2.5",
                "prober-n3 10.244.3.5",
                "prober-n4 10.244.4.5",
                "ingress-1 10.244.1.10",
                "ingress-2 10.244.2.10",
                "ingress-3 10.244.3.10",
                "ingress-4 10.244.4.10",
            ]
        );
    }

    #[test]
    fn a_pod_that_comes_back_has_a_new_address() {
        let mut cluster = cluster();
        cluster.apply(&remove("ingress-3")).unwrap();
        assert!(matches!(
            cluster.apply(&add("ingress-3", "n3")),
            Err(OpError::Taken(_))
        ));
        let Effect::Started(pod, _) = cluster.apply(&add("ingress-5", "n3")).unwrap() else {
            panic!("a pod starts")
        };
        assert_eq!(pod.address, Ipv4Addr::new(10, 244, 3, 11));
    }

    #[test]
    fn a_change_that_does_not_fit_changes_nothing() {
        let mut cluster = cluster();
        let before = cluster.clone();
        assert!(matches!(
            cluster.apply(&remove("nobody")),
            Err(OpError::NoPod { .. })
        ));
        assert!(matches!(
            cluster.apply(&add("ingress-1", "n1")),
            Err(OpError::Taken(_))
        ));
        assert!(matches!(
            cluster.apply(&add("ingress-5", "n9")),
            Err(OpError::NoNode(_))
        ));
        assert_eq!(cluster, before);
    }

    #[test]
    fn every_ingress_host_resolves_to_its_balancer() {
        let names: Vec<_> = cluster()
            .names()
            .map(|(host, ip)| (host.to_string(), ip))
            .collect();
        assert_eq!(
            names,
            [("shop.example.test".to_owned(), Ipv4Addr::new(203, 0, 113, 10))]
        );
    }
}
