//! What the cluster publishes, checked once and indexed: address → Service → endpoints → nodes.
//!
//! A [`Topology`] is immutable; a change is a new one. Usable endpoints follow kube-proxy's own rules
//! (`usable_endpoints`).

mod address;
pub(crate) mod askers;
mod build;
mod cluster_addresses;
mod exposure;
mod facts;
pub(crate) mod former;
mod machines;
mod placement;
pub(crate) mod quota;
pub(crate) mod rings;
mod spec;
mod tls;
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
pub(crate) use askers::PlanIndex;
pub use build::TopologyProblem;
pub use exposure::Exposure;
pub(crate) use facts::{nodes_with, stale};
pub use spec::{
    BalancerSpec, EndpointSpec, IngressSpec, IpMode, LoadBalancerSpec, NodeFacts, NodeReadiness, NodeSpec,
    Platform, PortSpec, ProberSpec, ProxyMode, PublishedSpec, QuotaSpec, ResolversSpec, ServiceProbe,
    ServiceSpec, ServiceType, TopologyHints, TopologySpec, TrafficPolicy,
};
pub use usable_endpoints::HintPreference;
pub(crate) use usable_endpoints::entry_nodes;

use machines::NodeListeners;

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
    machines: NodeListeners,
    /// Hosts of one ingress class at the fronts of another.
    exposures: BTreeMap<TargetId, Exposure>,
    forbidden: BTreeMap<TargetId, Forbidden>,
    public_resolvers: BTreeSet<IpAddr>,
    authorities: bool,
    balancers: Vec<BalancerSpec>,
    /// Fronts that lead to a port of a Service's endpoints, in order.
    ways: BTreeMap<(ServiceKey, u16), Vec<Front>>,
    /// Probers that no node holds: the local prober of `parallax up`, outside vantages.
    extra_vantages: Vec<Vantage>,
    /// Who asks for which target.
    index: PlanIndex,
    written: SourceForm,
}

/// The written form a topology was built from, for recordings. Two forms that build the same are the same topology.
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
    /// Its name.
    pub name: NodeName,
    /// Its zone.
    pub zone: Option<ZoneName>,
    /// Its own addresses.
    pub addresses: Vec<IpAddr>,
    /// The prober on it.
    pub prober: Option<ProberSpec>,
    /// Its condition `Ready`.
    pub readiness: NodeReadiness,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// What is known of its network.
    pub facts: NodeFacts,
}

/// A Service with the endpoints that can answer for it.
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
    /// It has neither a cluster address nor a balancer's.
    pub headless: bool,
    /// Its endpoints are the mesh's own probers.
    pub echo: bool,
    /// `spec.ports`.
    pub ports: Vec<PortSpec>,
    /// All endpoints, sorted by pod.
    pub endpoints: Vec<Endpoint>,
    /// Where kube-proxy of each node says how many endpoints it knows there.
    pub health_check_node_port: Option<u16>,
    /// Annotations that speak of the balancer.
    pub annotations: BTreeMap<String, String>,
    /// The class whose controller stands behind it.
    pub ingress_class: Option<ObjectName>,
    /// `NetworkPolicies` that let only some in to its pods; absent where nobody knows.
    pub guarded_by: Option<BTreeSet<ObjectName>>,
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The Pod.
    pub pod: PodName,
    /// Its address.
    pub address: IpAddr,
    /// Its node, where it is a node of this cluster.
    pub node: Option<NodeName>,
    /// Whether new connections are sent to it.
    pub condition: EndpointCondition,
    /// Whose clients it is meant for.
    pub hints: TopologyHints,
}

/// What EndpointSlices say of an endpoint, reduced to what decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointCondition {
    /// Ready.
    Ready,
    /// On its way out and still serving: used only while nothing is ready.
    Draining,
    /// Never used.
    Unready,
}

/// How a front comes to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontKind {
    /// A Service's cluster address.
    ClusterIp,
    /// An address of a balancer, and who answers for it.
    LoadBalancer(IpMode),
    /// A port that every node hands on, at the address of one of them.
    NodePort,
    /// A pod that listens in the network of its node (`hostNetwork`), at that node's address.
    Host,
}

/// What stands behind a front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontInfo {
    /// The Service whose endpoints are the entries.
    pub service: ServiceKey,
    /// How it comes to be.
    pub kind: FrontKind,
    /// The Service's port.
    pub port: u16,
    /// The entries' port.
    pub target_port: u16,
}

/// A target and the Service it enters through, where known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedTarget {
    /// The target.
    pub target: Target,
    /// The Service that selects the entry endpoints, and the endpoints' port.
    pub entry: Option<(ServiceKey, u16)>,
    /// Where to connect when it is not what the name resolves to.
    pub dial: Option<SocketAddr>,
    /// The Service whose pods answer in the end, where the entry only passes on to them.
    pub origin: Option<ServiceKey>,
    /// Its host is a route of the controller behind the entry (an Ingress, an `HTTPRoute`), and not an address or name of
    /// the Service itself.
    pub routed: bool,
}

impl Topology {
    /// What runs the workloads, and so which commands can be given.
    #[must_use]
    pub const fn platform(&self) -> Platform {
        self.platform
    }

    /// How Services are implemented on the nodes.
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

    /// All fronts that the cluster publishes. Addresses of nodes are fronts only where somebody went to one:
    /// [`Self::front`] knows these too.
    #[must_use]
    pub const fn fronts(&self) -> &BTreeMap<Front, FrontInfo> {
        &self.fronts
    }

    /// All Services, by name.
    #[must_use]
    pub const fn services(&self) -> &BTreeMap<ServiceKey, Service> {
        &self.services
    }

    /// Hosts of one ingress class at the fronts of another, and each of these hosts at its own; by the id under which
    /// they are probed.
    #[must_use]
    pub const fn exposures(&self) -> &BTreeMap<TargetId, Exposure> {
        &self.exposures
    }

    /// Questions that must stay without an answer, as targets say.
    #[must_use]
    pub const fn forbidden(&self) -> &BTreeMap<TargetId, Forbidden> {
        &self.forbidden
    }

    /// Whether a question is asked apart: what comes of it is no evidence of what users meet.
    #[must_use]
    pub fn is_apart(&self, target: &TargetId) -> bool {
        self.exposures.contains_key(target) || self.forbidden.contains_key(target)
    }

    /// Resolvers that answer as the internet sees a name.
    #[must_use]
    pub const fn public_resolvers(&self) -> &BTreeSet<IpAddr> {
        &self.public_resolvers
    }

    /// Whether the servers of a host's own zone may be asked.
    #[must_use]
    pub const fn asks_authorities(&self) -> bool {
        self.authorities
    }

    /// What is known of balancers beyond what Services say.
    #[must_use]
    pub fn balancers(&self) -> &[BalancerSpec] {
        &self.balancers
    }

    /// The front through which users reach a port of a Service: its balancer's where it has one.
    #[must_use]
    pub fn usual_front(&self, entry: &(ServiceKey, u16)) -> Option<Front> {
        let balancer = |front: &&Front| {
            let info = self.fronts.get(front);
            matches!(info.map(|i| i.kind), Some(FrontKind::LoadBalancer(_)))
        };
        self.fronts_to(entry).iter().max_by_key(balancer).copied()
    }

    /// Every front that leads to a port of a Service's endpoints.
    #[must_use]
    pub fn fronts_to(&self, entry: &(ServiceKey, u16)) -> &[Front] {
        self.ways.get(entry).map_or(&[], Vec::as_slice)
    }

    /// One Service.
    #[must_use]
    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.get(key)
    }

    /// The Service behind a front.
    #[must_use]
    pub fn service_of(&self, front: &Front) -> Option<&Service> {
        self.behind(front).map(|(_, service)| service)
    }

    /// Every vantage that should report, in order.
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
        &self.index
    }

    /// What it was built from; together with [`Self::extra_vantages`] enough to build it again.
    #[must_use]
    pub fn spec(&self) -> &TopologySpec {
        &self.written.0
    }

    /// The vantages that no node holds.
    #[must_use]
    pub fn extra_vantages(&self) -> &[Vantage] {
        &self.extra_vantages
    }

    /// The same topology with a vantage that no node holds.
    #[must_use]
    pub fn with_vantage(mut self, vantage: Vantage) -> Self {
        self.extra_vantages.push(vantage);
        self
    }
}

#[cfg(test)]
mod tests;
