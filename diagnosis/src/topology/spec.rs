//! The topology as written in YAML. The Kubernetes watch fills the same types.
//!
//! Kubernetes' own words in camelCase; unknown fields are refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{
    ExpectedStatus, HostName, Namespace, NodeName, ObjectName, PodName, ServiceKey, TargetSpec, Vantage,
    ZoneName,
};
use serde::{Deserialize, Serialize};

/// Nodes, Services with their endpoints, Ingresses and what else should be reachable.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TopologySpec {
    /// What runs the workloads. Commands of remedies are given for it.
    #[serde(default, skip_serializing_if = "Platform::is_none")]
    pub platform: Platform,
    /// How Services are implemented on the nodes.
    #[serde(default)]
    pub proxy_mode: ProxyMode,
    /// The nodes.
    #[serde(default)]
    pub nodes: Vec<NodeSpec>,
    /// The Services.
    #[serde(default)]
    pub services: Vec<ServiceSpec>,
    /// The Ingresses.
    #[serde(default)]
    pub ingresses: Vec<IngressSpec>,
    /// Anything else that should be reachable.
    #[serde(default)]
    pub targets: Vec<TargetSpec>,
    /// Targets that enter through a Service: what a cluster's own Ingresses, routes and Services publish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedSpec>,
    /// Vantages that no node holds: `vpc:NAME`, `internet:NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vantages: Vec<Vantage>,
    /// What is known of resolvers.
    #[serde(default)]
    pub resolvers: ResolversSpec,
    /// What is known of balancers beyond what Services say.
    #[serde(default)]
    pub balancers: Vec<BalancerSpec>,
}

/// What is known of resolvers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ResolversSpec {
    /// Resolvers that answer as the internet sees a name, on whatever port. Of a cluster that is watched they are asked for
    /// every published host; otherwise name one as `resolver` of a dns target.
    #[serde(default)]
    pub public: Vec<IpAddr>,
    /// Whether the servers of a host's own zone may be asked too. They are where whoever owns the zone says, so probers
    /// must get out to port 53 anywhere (our manifests let them).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub authoritative: bool,
}

/// A balancer that Services share, and what its provider allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BalancerSpec {
    /// How people call it.
    pub name: ObjectName,
    /// The Services whose ports it carries.
    pub services: Vec<ServiceKey>,
    /// What it can hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaSpec>,
    /// Whether endpoints see the client's own address (no source translation); absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserves_client_address: Option<bool>,
}

/// What a balancer can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct QuotaSpec {
    /// Backends in all: each port of each Service counts once for each node it is registered with.
    pub targets: u32,
}

/// What runs the workloads of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// A Kubernetes cluster: `kubectl` reaches it.
    Kubernetes,
    /// Nothing that is known.
    #[default]
    None,
}

impl Platform {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// kube-proxy's mode (`:10249/proxyMode`), or that of its replacement. A prior, never proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// kube-proxy with iptables.
    Iptables,
    /// kube-proxy with IPVS.
    Ipvs,
    /// kube-proxy with nftables.
    Nftables,
    /// Not known.
    #[default]
    Unknown,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeSpec {
    /// `metadata.name`.
    pub name: NodeName,
    /// `topology.kubernetes.io/zone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneName>,
    /// Addresses of the node itself.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The prober that runs on it; absent where none does (a taint, say).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prober: Option<ProberSpec>,
    /// Its condition `Ready`.
    #[serde(default, skip_serializing_if = "NodeReadiness::is_unknown")]
    pub readiness: NodeReadiness,
    /// `spec.unschedulable`: somebody takes it out of service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// What is known of its network.
    #[serde(default, skip_serializing_if = "NodeFacts::is_empty")]
    pub facts: NodeFacts,
}

/// The condition `Ready` of a node: whether its kubelet renews its Lease, and says that it is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum NodeReadiness {
    /// `True`.
    Ready,
    /// `False`, or `Unknown`: the node controller has not heard of its kubelet for the grace period (40 s by default).
    NotReady,
    /// No source says.
    #[default]
    Unknown,
}

impl NodeReadiness {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// What a host vantage or the API says of a node's network. Absent is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeFacts {
    /// The bridge ports of its pods reflect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hairpin: Option<bool>,
    /// `net.bridge.bridge-nf-call-iptables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge_nf_call_iptables: Option<bool>,
    /// `status.nodeInfo.kubeProxyVersion`, or that of the kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy_version: Option<ObjectName>,
    /// What kube-proxy of this node says its mode is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_mode: Option<ProxyMode>,
    /// Balancer addresses of Services that are on its `kube-ipvs0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipvs_addresses: Option<BTreeSet<IpAddr>>,
    /// Some interface filters strictly by reverse path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_rp_filter: Option<bool>,
    /// How full the conntrack table is, in percent. In steps where it is measured: each step is a new topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack_percent: Option<u8>,
    /// It drops packets whose source is an address of its own (`in_martian_src` rises).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops_own_sources: Option<bool>,
    /// Its kube-proxy says that it is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_healthy: Option<bool>,
    /// Endpoints on this node that its kube-proxy knows, by Service, where one has a health check port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub local_endpoints: BTreeMap<ServiceKey, u32>,
}

impl NodeFacts {
    /// Nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, and what another source says where these say nothing: whoever wrote a fact down meant it.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut local_endpoints = other.local_endpoints.clone();
        local_endpoints.extend(self.local_endpoints.clone());
        Self {
            hairpin: self.hairpin.or(other.hairpin),
            bridge_nf_call_iptables: self.bridge_nf_call_iptables.or(other.bridge_nf_call_iptables),
            kube_proxy_version: self
                .kube_proxy_version
                .clone()
                .or_else(|| other.kube_proxy_version.clone()),
            proxy_mode: self.proxy_mode.or(other.proxy_mode),
            ipvs_addresses: self
                .ipvs_addresses
                .clone()
                .or_else(|| other.ipvs_addresses.clone()),
            strict_rp_filter: self.strict_rp_filter.or(other.strict_rp_filter),
            conntrack_percent: self.conntrack_percent.or(other.conntrack_percent),
            drops_own_sources: self.drops_own_sources.or(other.drops_own_sources),
            proxy_healthy: self.proxy_healthy.or(other.proxy_healthy),
            local_endpoints,
        }
    }
}

/// A prober Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ProberSpec {
    /// The Pod.
    pub pod: PodName,
    /// Where its echo listens.
    pub address: SocketAddr,
}

/// `spec.type` of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum ServiceType {
    /// Reachable inside only.
    #[default]
    ClusterIP,
    /// On a port of every node.
    NodePort,
    /// Behind a load balancer.
    LoadBalancer,
}

/// `externalTrafficPolicy` and `internalTrafficPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum TrafficPolicy {
    /// Every endpoint.
    #[default]
    Cluster,
    /// Endpoints of the receiving node only.
    Local,
}

/// `status.loadBalancer.ingress[].ipMode` (KEP-1860).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum IpMode {
    /// The node answers for the address itself.
    #[default]
    #[serde(rename = "VIP")]
    Vip,
    /// Traffic really goes to the balancer.
    Proxy,
}

/// A Service with its endpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: ObjectName,
    /// `spec.type`.
    #[serde(rename = "type", default)]
    pub service_type: ServiceType,
    /// `spec.clusterIPs`; empty for a headless Service.
    #[serde(rename = "clusterIPs", default)]
    pub cluster_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress`.
    #[serde(default)]
    pub load_balancer: Vec<LoadBalancerSpec>,
    /// `spec.externalTrafficPolicy`.
    #[serde(default)]
    pub external_traffic_policy: TrafficPolicy,
    /// `spec.internalTrafficPolicy`.
    #[serde(default)]
    pub internal_traffic_policy: TrafficPolicy,
    /// `spec.ports`.
    pub ports: Vec<PortSpec>,
    /// Endpoints of its EndpointSlices.
    #[serde(default)]
    pub endpoints: Vec<EndpointSpec>,
    /// `spec.healthCheckNodePort`: where kube-proxy of each node says how many endpoints it knows there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check_node_port: Option<u16>,
    /// `metadata.annotations`, as far as they speak of the balancer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The class whose controller stands behind this Service, where it is an ingress controller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class: Option<ObjectName>,
    /// `NetworkPolicies` that let only some in to its pods, as far as its selector tells; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarded_by: Option<BTreeSet<ObjectName>>,
    /// Its endpoints are the mesh's own probers: what fails while they restart is our own doing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
    /// Whether and how its cluster addresses are asked.
    #[serde(default, skip_serializing_if = "ServiceProbe::is_default")]
    pub probe: ServiceProbe,
}

/// Whether and how the cluster addresses of a Service are asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServiceProbe {
    /// `true`: every port, by a bare connect where it does not say HTTP; `false`: none. Where absent the ports are asked
    /// whose name or `appProtocol` says `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<bool>,
    /// What is asked for by HTTP; `/` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Statuses that count as success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_status: Option<ExpectedStatus>,
    /// Milliseconds between two probes of one vantage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// The Service is not in service yet: that its targets have never worked is expected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

impl ServiceProbe {
    /// Nothing was said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl ServiceSpec {
    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> ServiceKey {
        ServiceKey {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// One address of a balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LoadBalancerSpec {
    /// The address.
    pub ip: IpAddr,
    /// Who answers for it.
    #[serde(default)]
    pub ip_mode: IpMode,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PortSpec {
    /// Its name; `http`, `https` and names that start with `http-` say what it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ObjectName>,
    /// What it speaks, where declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<ObjectName>,
    /// The Service's port.
    pub port: u16,
    /// The endpoints' port.
    pub target_port: u16,
    /// The nodes' port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndpointSpec {
    /// The Pod (`targetRef.name`).
    pub pod: PodName,
    /// Its address.
    pub address: IpAddr,
    /// Its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// `conditions.ready`; absent means true.
    #[serde(default = "yes")]
    pub ready: bool,
    /// `conditions.serving`; absent means as ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// `conditions.terminating`.
    #[serde(default)]
    pub terminating: bool,
    /// `hints`: whose clients it is meant for.
    #[serde(default, skip_serializing_if = "TopologyHints::is_empty")]
    pub hints: TopologyHints,
}

/// Whose clients an endpoint is meant for. Empty: everybody's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TopologyHints {
    /// `forZones`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub for_zones: BTreeSet<ZoneName>,
    /// `forNodes`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub for_nodes: BTreeSet<NodeName>,
}

impl TopologyHints {
    /// It is everybody's.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.for_zones.is_empty() && self.for_nodes.is_empty()
    }
}

const fn yes() -> bool {
    true
}

/// An Ingress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IngressSpec {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: ObjectName,
    /// The controller's Service: the entry.
    pub service: ServiceKey,
    /// `spec.rules[].host`.
    pub hosts: Vec<HostName>,
    /// The hosts are also served over TLS.
    #[serde(default)]
    pub tls: bool,
    /// `spec.ingressClassName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
}

/// A target and the Service port it enters through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PublishedSpec {
    /// What is asked.
    pub target: TargetSpec,
    /// The Service whose endpoints are the entries.
    pub service: ServiceKey,
    /// Its port.
    pub port: u16,
    /// The ingress class or Gateway that the host belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
    /// The Service whose pods answer in the end, where the entry only passes on to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ServiceKey>,
}
