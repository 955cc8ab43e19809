//! The cluster as it is at one moment: names, addresses, who is behind which Service.
//!
//! Pure. Both sides of the lab hold one and apply the same changes: the guest to forward packets, the host to
//! publish the topology.

pub mod addresses;
mod change;
mod conditions;
mod derive;
mod lifecycle;
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
    /// Who forwards.
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
    /// Targets besides.
    pub targets: Vec<TargetSpec>,
    /// What the configuration says of balancers.
    pub balancers: Vec<BalancerSpec>,
    /// The cluster's resolvers; the first one is behind the resolver's Service.
    pub resolvers: Vec<Resolver>,
    /// Clients outside.
    pub outside: Vec<OutsideClient>,
    /// Names besides the Ingresses' hosts.
    records: Vec<NameRecord>,
    /// What resolvers of the cluster answer instead.
    overrides: Vec<NameRecord>,
    /// Answers that deviate, by resolver.
    deviations: BTreeMap<(PodName, HostName), Option<IpAddr>>,
    /// Nodes whose rules stay as they are.
    frozen: BTreeSet<NodeName>,
    /// The number the next workload pod of a node gets. An address is never given twice: a probe to a pod that is
    /// gone must not reach its successor.
    next_pod: BTreeMap<NodeName, u8>,
    /// Pods that are no more; their namespaces keep their names.
    gone: BTreeSet<PodName>,
    /// Who answers challenges now.
    pub solvers: Vec<SolverPod>,
    /// Which of them controllers pass challenges on to.
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
    /// Its place in the file, from 1; all its addresses follow from it.
    pub number: u8,
    /// Its prober.
    pub prober: Pod,
    /// It is part of the cluster now.
    pub present: bool,
    /// A prober runs in its pod network. (Its pod is there anyway, for an ordinary client.)
    pub probes: bool,
    /// A prober runs on its host network as well.
    pub host_prober: bool,
    /// The container of its prober pod runs.
    pub prober_ready: bool,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Its condition `Ready`.
    pub ready: bool,
    /// It is connected to the others.
    pub wired: bool,
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
    /// Where it runs.
    pub pod: Pod,
    /// What runs there.
    pub software: ResolverSoftware,
    /// The nodes whose pods ask it by its own address.
    pub serves: Vec<NodeName>,
    /// Seconds for which it keeps what it has heard.
    pub cache_seconds: Option<u32>,
}

/// A client outside the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideClient {
    /// Its name, also of its network namespace.
    pub name: NodeName,
    /// What it is for the product.
    pub vantage: Vantage,
    /// Its place in the file, from 1.
    pub number: u8,
}

/// A Service and the pods behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `namespace/name`.
    pub key: ServiceKey,
    /// Its virtual address inside the cluster; a headless one has none.
    pub cluster_ip: Option<Ipv4Addr>,
    /// The balancer's address.
    pub load_balancer_ip: Option<Ipv4Addr>,
    /// Who answers for it.
    pub ip_mode: IpMode,
    /// How the balancer passes connections on.
    pub balancing: BalancingMode,
    /// Where its health checks come from.
    pub health_checks: HealthChecks,
    /// Where traffic for the balancer's address and the nodePorts may go.
    pub policy: TrafficPolicy,
    /// Where traffic for the cluster address may go.
    pub internal_policy: TrafficPolicy,
    /// The class whose controller this is.
    pub class: Option<ObjectName>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// What runs in its pods.
    pub server: ServerSpec,
    /// What runs in some of them instead.
    pub other_servers: BTreeMap<PodName, ServerSpec>,
    /// The pods behind it.
    pub endpoints: Vec<Pod>,
    /// Those that are not ready.
    pub states: BTreeMap<PodName, PodState>,
    /// Pods behind it that are there anyway, besides.
    pub behind: Option<BackendPods>,
    /// The `NetworkPolicy` that selects its pods, with the Services whose pods it lets in.
    pub policed: Option<(ObjectName, Vec<ServiceKey>)>,
}

impl Service {
    /// What runs in a pod of it.
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

    /// Whether everything has an IPv6 address, too.
    #[must_use]
    pub fn is_dual_stack(&self) -> bool {
        self.families == AddressFamilies::DualStack
    }

    /// The nodes that are part of the cluster now.
    pub fn present(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.present)
    }

    /// The namespace a client of this name sits in: a node's prober pod, or a client outside.
    #[must_use]
    pub fn client(&self, name: &NodeName) -> Option<String> {
        let node = self.node(name).map(|node| node.prober.name.to_string());
        let outside = || self.outside.iter().find(|outside| outside.name == *name);
        node.or_else(|| Some(outside()?.name.to_string()))
    }

    /// The resolver that pods of a node ask.
    #[must_use]
    pub fn resolver_address(&self, node: &NodeName) -> Ipv4Addr {
        self.resolvers
            .iter()
            .find(|resolver| resolver.serves.contains(node))
            .map_or(addresses::DNS_SERVICE, |resolver| resolver.pod.address)
    }

    /// Whether kube-proxy of a node stands still.
    #[must_use]
    pub fn is_frozen(&self, node: &NodeName) -> bool {
        self.frozen.contains(node)
    }

    /// Whether there is a balancer outside the nodes.
    #[must_use]
    pub fn has_balancers(&self) -> bool {
        self.services
            .iter()
            .any(|service| service.load_balancer_ip.is_some())
    }

    /// Every pod: resolvers, probers, endpoints.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.resolvers
            .iter()
            .map(|resolver| &resolver.pod)
            .chain(self.nodes.iter().map(|node| &node.prober))
            .chain(self.workloads().map(|(_, pod)| pod))
    }

    /// Every pod behind a Service that runs a server of its own, with the Service.
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
        Cluster::derive(&crate::incident::parse(Path::new("i1.yaml"), text).unwrap()).unwrap()
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
