//! State of the cluster at one moment: names, addresses, and the endpoints of each Service.
//!
//! Pure. Both sides of the lab keep a copy and apply the same changes: the guest to forward packets, the host to
//! publish the topology.

pub mod addresses;
mod change;
mod conditions;
mod derive;
mod lifecycle;
mod links;
mod names;
mod op_error;
mod solver;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use parallax_diagnosis::topology::BalancerSpec;
use parallax_model::{HostName, NodeName, ObjectName, PodName, ServiceKey, TargetSpec, Vantage, ZoneName};

use crate::incident::{
    AddressFamilies, BackendPods, BalancingMode, Dataplane, HealthChecks, Ingress, IpMode, NameRecord,
    ResolverSoftware, ServerSpec, ServicePort, TrafficPolicy,
};

pub use change::{ChangeEffect, ProberChange};
pub use conditions::{PodConditions, PodState};
pub use names::NameAddresses;
pub use op_error::OpError;
pub use solver::{ChallengeRoute, PORT as SOLVER_PORT, SolverPod};

/// The cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Implementation of Service forwarding.
    pub dataplane: Dataplane,
    /// Address families of everything below.
    pub families: AddressFamilies,
    /// Nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// Services, in the order of the file.
    pub services: Vec<Service>,
    /// Services that are created later.
    absent: Vec<Service>,
    /// Ingresses.
    pub ingresses: Vec<Ingress>,
    /// Additional targets.
    pub targets: Vec<TargetSpec>,
    /// Balancers in the aggregator's configuration.
    pub balancers: Vec<BalancerSpec>,
    /// The cluster's resolvers.
    pub resolvers: Vec<Resolver>,
    /// The Service of the resolvers that serve no node by their own address. Its port is open for UDP too.
    pub resolver_service: Service,
    /// The Pod through which reports reach the aggregator, if they cross the network of the nodes.
    pub aggregator: Option<Pod>,
    /// Clients outside the cluster.
    pub outside: Vec<OutsideClient>,
    /// DNS records in addition to the Ingress hosts.
    records: Vec<NameRecord>,
    /// Records that the cluster's resolvers answer differently.
    overrides: Vec<NameRecord>,
    /// Deviating answers, by resolver.
    deviations: BTreeMap<(PodName, HostName), Option<IpAddr>>,
    /// Pairs of nodes between which all packets are lost, each in the order of the file.
    cut_links: BTreeSet<(NodeName, NodeName)>,
    /// Nodes whose rules are no longer updated.
    frozen_nodes: BTreeSet<NodeName>,
    /// Number of the next workload Pod of a node. Addresses are never reused: a probe to a deleted Pod must not reach
    /// its successor.
    next_pod: BTreeMap<NodeName, u8>,
    /// Deleted Pods; their network namespaces keep the names.
    deleted_pods: BTreeSet<PodName>,
    /// Pods that answer challenges now.
    pub solvers: Vec<SolverPod>,
    /// Challenge routes of the ingress controllers.
    pub routes: Vec<ChallengeRoute>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each changes by itself")]
pub struct Node {
    /// Its name, also of its network namespace.
    pub name: NodeName,
    /// Its zone.
    pub zone: ZoneName,
    /// Its position in the file, from 1; all its addresses derive from it.
    pub number: u8,
    /// Its prober.
    pub prober: Pod,
    /// Whether it is part of the cluster now.
    pub present: bool,
    /// Whether a prober runs in its Pod network. (The Pod exists in any case, for an ordinary client.)
    pub probes: bool,
    /// Whether a prober runs in its host network too.
    pub host_prober: bool,
    /// Whether the container of its prober Pod runs.
    pub prober_ready: bool,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Its condition `Ready`.
    pub ready: bool,
    /// Whether it is connected to the others.
    pub connected: bool,
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

/// A resolver of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolver {
    /// The Pod that it runs in.
    pub pod: Pod,
    /// The resolver software.
    pub software: ResolverSoftware,
    /// Nodes whose Pods query it by its own address.
    pub serves: Vec<NodeName>,
    /// How many seconds it caches answers.
    pub cache_seconds: Option<u32>,
}

/// A client outside the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideClient {
    /// Its name, also of its network namespace.
    pub name: NodeName,
    /// Its vantage.
    pub vantage: Vantage,
    /// Its position in the file, from 1.
    pub number: u8,
}

/// A Service and the pods behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `namespace/name`.
    pub key: ServiceKey,
    /// ClusterIP; absent for a headless Service.
    pub cluster_ip: Option<Ipv4Addr>,
    /// The balancer's address.
    pub load_balancer_ip: Option<Ipv4Addr>,
    /// `ipMode` of the load balancer address.
    pub ip_mode: IpMode,
    /// How the balancer forwards connections.
    pub balancing: BalancingMode,
    /// Source of its health checks.
    pub health_checks: HealthChecks,
    /// Policy for traffic to the balancer's address and the nodePorts.
    pub policy: TrafficPolicy,
    /// Policy for traffic to the ClusterIP.
    pub internal_policy: TrafficPolicy,
    /// The class whose controller this is.
    pub class: Option<ObjectName>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// Server in its Pods.
    pub server: ServerSpec,
    /// Pods with a different server.
    pub other_servers: BTreeMap<PodName, ServerSpec>,
    /// Its endpoints.
    pub endpoints: Vec<Pod>,
    /// Endpoints that are not ready.
    pub states: BTreeMap<PodName, PodState>,
    /// Additional Pods that are selected in any case.
    pub backend_pods: Option<BackendPods>,
    /// The `NetworkPolicy` that selects its Pods, and the Services whose Pods it admits.
    pub network_policy: Option<(ObjectName, Vec<ServiceKey>)>,
}

impl Service {
    /// Returns the server in one of its Pods.
    #[must_use]
    pub fn server_of(&self, pod: &PodName) -> &ServerSpec {
        self.other_servers.get(pod).unwrap_or(&self.server)
    }
}

impl Cluster {
    fn service_mut(&mut self, key: &ServiceKey) -> Result<&mut Service, OpError> {
        self.services
            .iter_mut()
            .find(|service| service.key == *key)
            .ok_or_else(|| OpError::NoService(key.clone()))
    }

    /// Looks up a Service by key.
    #[must_use]
    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.iter().find(|service| service.key == *key)
    }

    /// Looks up a node by name.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == *name)
    }

    /// Reports whether everything has an IPv6 address too.
    #[must_use]
    pub fn is_dual_stack(&self) -> bool {
        self.families == AddressFamilies::DualStack
    }

    /// Returns the nodes that are part of the cluster now.
    pub fn present_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.present)
    }

    /// Returns the network namespace of a client: a node's prober Pod, or a client outside.
    #[must_use]
    pub fn client_namespace(&self, name: &NodeName) -> Option<String> {
        let node = self.node(name).map(|node| node.prober.name.to_string());
        let outside = || self.outside.iter().find(|outside| outside.name == *name);
        node.or_else(|| Some(outside()?.name.to_string()))
    }

    /// Returns the resolver that a node's Pods query.
    #[must_use]
    pub fn resolver_address(&self, node: &NodeName) -> Ipv4Addr {
        self.resolvers
            .iter()
            .find(|resolver| resolver.serves.contains(node))
            .map_or(addresses::DNS_SERVICE, |resolver| resolver.pod.address)
    }

    /// Reports whether a node's kube-proxy is stopped.
    #[must_use]
    pub fn is_kube_proxy_stopped(&self, node: &NodeName) -> bool {
        self.frozen_nodes.contains(node)
    }

    /// Reports whether there is a balancer outside the nodes.
    #[must_use]
    pub fn has_balancers(&self) -> bool {
        self.services
            .iter()
            .any(|service| service.load_balancer_ip.is_some())
    }

    /// Returns the Services that the API server shows.
    pub fn published_services(&self) -> impl Iterator<Item = &Service> {
        self.services.iter().chain([&self.resolver_service])
    }

    /// Returns the address at which the probers of the cluster reach the aggregator.
    #[must_use]
    pub fn aggregator_address(&self) -> Ipv4Addr {
        self.aggregator
            .as_ref()
            .map_or(addresses::HOST, |pod| pod.address)
    }

    /// Returns every Pod: resolvers, the aggregator's, probers, endpoints.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.resolvers
            .iter()
            .map(|resolver| &resolver.pod)
            .chain(&self.aggregator)
            .chain(self.nodes.iter().map(|node| &node.prober))
            .chain(self.workloads().map(|(_, pod)| pod))
    }

    /// Returns every Pod with its own server, with its Service.
    pub fn workloads(&self) -> impl Iterator<Item = (&Service, &Pod)> {
        self.services.iter().flat_map(|service| {
            let own = |pod: &&Pod| !self.nodes.iter().any(|node| node.prober.name == pod.name);
            service
                .endpoints
                .iter()
                .filter(own)
                .map(move |pod| (service, pod))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::incident::FaultOperation;

    fn cluster() -> Cluster {
        let text = include_str!("../incidents/i1.yaml");
        Cluster::derive(&crate::incident_file::parse(Path::new("i1.yaml"), text).unwrap()).unwrap()
    }

    fn ingress() -> ServiceKey {
        "ingress/ingress-nginx".parse().unwrap()
    }

    fn add(pod: &str, node: &str) -> FaultOperation {
        FaultOperation::AddEndpoint {
            service: ingress(),
            pod: pod.parse().unwrap(),
            node: node.parse().unwrap(),
        }
    }

    fn remove(pod: &str) -> FaultOperation {
        FaultOperation::RemoveEndpoint {
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
        let ChangeEffect::Started(pod) = cluster.apply(&add("ingress-5", "n3")).unwrap() else {
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
            [("shop.example.test".to_owned(), IpAddr::from([203, 0, 113, 10]))]
        );
    }
}
