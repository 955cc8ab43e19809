//! The published objects of the cluster, validated and indexed: address → Service → endpoints → nodes.
//!
//! A [`Topology`] is immutable; every change creates a new one. Usable endpoints follow kube-proxy's rules
//! (`usable_endpoints`).

mod address;
pub(crate) mod balancer_quota;
mod build;
mod cluster_addresses;
mod exposure;
pub(crate) mod former_pods;
mod node_facts;
mod node_listeners;
mod placement;
pub(crate) mod rings;
pub(crate) mod sampling;
mod spec;
mod tls_termination;
mod usable_endpoints;
mod withdrawals;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use parallax_model::{
    Forbidden, Front, NodeName, ObjectName, PodName, ServiceKey, Target, TargetId, Vantage, ZoneName,
};

pub(crate) use self::withdrawals::EndpointWithdrawals;
pub(crate) use address::is_private;
pub use build::TopologyProblem;
pub use exposure::Exposure;
pub(crate) use node_facts::{nodes_matching, stale_kube_proxies};
pub(crate) use sampling::PlanIndex;
pub use spec::{
    BalancerSpec, EndpointSpec, IngressSpec, IpMode, LoadBalancerSpec, NodeFacts, NodeReadiness, NodeSpec,
    Platform, PortSpec, ProberSpec, ProxyMode, PublishedSpec, QuotaSpec, ResolversSpec, ServiceProbe,
    ServiceSpec, ServiceType, TopologyHints, TopologySpec, TrafficPolicy,
};
pub use usable_endpoints::HintPreference;
pub(crate) use usable_endpoints::entry_nodes;

use node_listeners::NodeListeners;

/// The cluster as the diagnosis sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Topology {
    platform: Platform,
    proxy_mode: ProxyMode,
    nodes: BTreeMap<NodeName, Node>,
    services: BTreeMap<ServiceKey, Service>,
    targets: BTreeMap<TargetId, PlacedTarget>,
    fronts: BTreeMap<Front, FrontInfo>,
    /// What nodes serve at their own addresses.
    node_listeners: NodeListeners,
    /// Hosts of one ingress class at the fronts of another.
    exposures: BTreeMap<TargetId, Exposure>,
    forbidden: BTreeMap<TargetId, Forbidden>,
    public_resolvers: BTreeSet<IpAddr>,
    query_authoritative: bool,
    balancers: Vec<BalancerSpec>,
    /// Fronts by Service and endpoint port, in order.
    fronts_by_entry: BTreeMap<(ServiceKey, u16), Vec<Front>>,
    /// Probers without a node: the local prober of `parallax up`, and outside vantages.
    extra_vantages: Vec<Vantage>,
    /// Node of the aggregator, if it is a node of this cluster.
    aggregator: Option<NodeName>,
    /// Sampling of vantages per target.
    plan_index: PlanIndex,
    source: SourceForm,
}

/// The spec a topology was built from, for recordings. Ignored in comparisons: different specs may build equal
/// topologies.
#[derive(Debug, Clone, Default)]
struct SourceForm(Arc<TopologySpec>);

impl PartialEq for SourceForm {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name of the node.
    pub name: NodeName,
    /// Zone of the node.
    pub zone: Option<ZoneName>,
    /// The node's own addresses.
    pub addresses: Vec<IpAddr>,
    /// The prober on the node.
    pub prober: Option<ProberSpec>,
    /// The node's condition `Ready`.
    pub readiness: NodeReadiness,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Network facts of the node.
    pub facts: NodeFacts,
}

/// A Service with its endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `namespace/name`.
    pub key: ServiceKey,
    /// `spec.type`.
    pub service_type: ServiceType,
    /// `spec.externalTrafficPolicy`.
    pub external_traffic_policy: TrafficPolicy,
    /// `spec.internalTrafficPolicy`.
    pub internal_traffic_policy: TrafficPolicy,
    /// The Service has neither a cluster address nor a balancer address.
    pub headless: bool,
    /// The endpoints are the mesh's own probers.
    pub echo: bool,
    /// `spec.ports`.
    pub ports: Vec<PortSpec>,
    /// All endpoints, sorted by Pod.
    pub endpoints: Vec<Endpoint>,
    /// `spec.healthCheckNodePort`: kube-proxy reports there the number of endpoints on its node.
    pub health_check_node_port: Option<u16>,
    /// Annotations that configure the load balancer.
    pub annotations: BTreeMap<String, String>,
    /// The ingress class served by the controller behind the Service.
    pub ingress_class: Option<ObjectName>,
    /// `NetworkPolicies` that restrict ingress to the Service's Pods; `None` if policies cannot be read.
    pub guarded_by: Option<BTreeSet<ObjectName>>,
    /// `spec.selector`; empty if it has none or is not known.
    pub selector: BTreeMap<String, String>,
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The Pod.
    pub pod: PodName,
    /// Address of the endpoint.
    pub address: IpAddr,
    /// Node of the endpoint, if it is a node of this cluster.
    pub node: Option<NodeName>,
    /// Whether new connections are sent to the endpoint.
    pub condition: EndpointCondition,
    /// Topology hints: the clients the endpoint is meant for.
    pub hints: TopologyHints,
}

/// Conditions of an endpoint in its EndpointSlice, reduced to what matters for routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointCondition {
    /// Ready.
    Ready,
    /// Terminating and still serving: used only while no endpoint is ready.
    Draining,
    /// Never used.
    Unready,
}

/// The kind of address of a front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontKind {
    /// A Service's cluster address.
    ClusterIp,
    /// A load balancer address, with the mode in which nodes treat it.
    LoadBalancer(IpMode),
    /// A node port, at the address of one node.
    NodePort,
    /// A Pod with `hostNetwork`, at its node's address.
    Host,
}

/// The Service behind a front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontInfo {
    /// The Service whose endpoints are the entries.
    pub service: ServiceKey,
    /// The kind of address.
    pub kind: FrontKind,
    /// The Service's port.
    pub port: u16,
    /// The entries' port.
    pub target_port: u16,
}

/// A target and the Service that selects its entries, if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedTarget {
    /// The target.
    pub target: Target,
    /// The Service that selects the entry endpoints, and the endpoints' port.
    pub entry: Option<(ServiceKey, u16)>,
    /// The address to connect to, if it is not the one that the name resolves to.
    pub dial_address: Option<SocketAddr>,
    /// The Service of the origin Pods, if the entry forwards to them.
    pub origin: Option<ServiceKey>,
    /// Whether the host is a route of the controller behind the entry (an Ingress or `HTTPRoute`), not an address
    /// or name of the Service itself.
    pub routed: bool,
}

impl Topology {
    /// Platform that runs the workloads; determines the commands in remedies.
    #[must_use]
    pub const fn platform(&self) -> Platform {
        self.platform
    }

    /// The kube-proxy mode of the nodes.
    #[must_use]
    pub const fn proxy_mode(&self) -> ProxyMode {
        self.proxy_mode
    }

    /// All nodes, by name.
    #[must_use]
    pub const fn nodes(&self) -> &BTreeMap<NodeName, Node> {
        &self.nodes
    }

    /// All targets, by id.
    #[must_use]
    pub const fn targets(&self) -> &BTreeMap<TargetId, PlacedTarget> {
        &self.targets
    }

    /// All fronts that the cluster publishes. Node addresses are not listed; [`Self::front`] resolves them on
    /// demand.
    #[must_use]
    pub const fn fronts(&self) -> &BTreeMap<Front, FrontInfo> {
        &self.fronts
    }

    /// All Services, by name.
    #[must_use]
    pub const fn services(&self) -> &BTreeMap<ServiceKey, Service> {
        &self.services
    }

    /// Hosts of one ingress class at the fronts of another, and each of these hosts at its own front, by the id of
    /// the probe.
    #[must_use]
    pub const fn exposures(&self) -> &BTreeMap<TargetId, Exposure> {
        &self.exposures
    }

    /// Probes that must not succeed, as configured by targets.
    #[must_use]
    pub const fn forbidden(&self) -> &BTreeMap<TargetId, Forbidden> {
        &self.forbidden
    }

    /// Reports whether the target's probes are kept apart: their results are no evidence of what users experience.
    #[must_use]
    pub fn is_separate(&self, target: &TargetId) -> bool {
        self.exposures.contains_key(target) || self.forbidden.contains_key(target)
    }

    /// Resolvers with the internet's view of a name.
    #[must_use]
    pub const fn public_resolvers(&self) -> &BTreeSet<IpAddr> {
        &self.public_resolvers
    }

    /// Reports whether the authoritative servers of a host's zone may be queried.
    #[must_use]
    pub const fn queries_authoritative(&self) -> bool {
        self.query_authoritative
    }

    /// Configured knowledge about load balancers, beyond the Service objects.
    #[must_use]
    pub fn balancers(&self) -> &[BalancerSpec] {
        &self.balancers
    }

    /// Returns the front through which users reach a port of a Service: its load balancer, if it has one.
    #[must_use]
    pub fn usual_front(&self, entry: &(ServiceKey, u16)) -> Option<Front> {
        let balancer = |front: &&Front| {
            let info = self.fronts.get(front);
            matches!(info.map(|i| i.kind), Some(FrontKind::LoadBalancer(_)))
        };
        self.fronts_to(entry).iter().max_by_key(balancer).copied()
    }

    /// Returns all fronts that lead to a port of a Service's endpoints.
    #[must_use]
    pub fn fronts_to(&self, entry: &(ServiceKey, u16)) -> &[Front] {
        self.fronts_by_entry.get(entry).map_or(&[], Vec::as_slice)
    }

    /// Returns a Service by key.
    #[must_use]
    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.get(key)
    }

    /// Returns the Service behind a front.
    #[must_use]
    pub fn service_of(&self, front: &Front) -> Option<&Service> {
        self.front_and_service(front).map(|(_, service)| service)
    }

    /// Returns all vantages that should report, sorted.
    #[must_use]
    pub fn vantages(&self) -> Vec<Vantage> {
        let mut vantages: Vec<_> = self
            .nodes
            .values()
            .filter(|node| node.prober.is_some())
            .map(|node| Vantage::pod(node.name.clone()))
            .chain(self.extra_vantages.iter().cloned())
            .collect();
        vantages.sort();
        vantages.dedup();
        vantages
    }

    pub(crate) const fn plan_index(&self) -> &PlanIndex {
        &self.plan_index
    }

    /// The spec this topology was built from; with [`Self::extra_vantages`] sufficient to rebuild it.
    #[must_use]
    pub fn spec(&self) -> &TopologySpec {
        &self.source.0
    }

    /// Vantages without a node.
    #[must_use]
    pub fn extra_vantages(&self) -> &[Vantage] {
        &self.extra_vantages
    }

    /// Node of the aggregator that judges, if it is known.
    #[must_use]
    pub const fn aggregator_node(&self) -> Option<&NodeName> {
        self.aggregator.as_ref()
    }

    /// Returns the topology with an additional vantage without a node.
    #[must_use]
    pub fn with_vantage(mut self, vantage: Vantage) -> Self {
        self.extra_vantages.push(vantage);
        self
    }
}

#[cfg(test)]
mod tests;
