//! The topology spec, as written in YAML and as filled from the Kubernetes watches.
//!
//! Field names follow Kubernetes, in camelCase; unknown fields are rejected.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{
    ExpectedStatus, HostName, Namespace, NodeName, ObjectName, PodName, ServiceKey, TargetSpec, Vantage,
    ZoneName,
};
use serde::{Deserialize, Serialize};

/// Nodes, Services with their endpoints, Ingresses and further targets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TopologySpec {
    /// Platform that runs the workloads; determines the commands in remedies.
    #[serde(default, skip_serializing_if = "Platform::is_none")]
    pub platform: Platform,
    /// kube-proxy mode of the nodes.
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
    /// Further targets.
    #[serde(default)]
    pub targets: Vec<TargetSpec>,
    /// Targets with the Service that selects their entries: published by Ingresses, routes and Services of a
    /// cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedSpec>,
    /// Vantages without a node: `vpc:NAME`, `internet:NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vantages: Vec<Vantage>,
    /// Known resolvers.
    #[serde(default)]
    pub resolvers: ResolversSpec,
    /// Configured knowledge about load balancers, beyond the Service objects.
    #[serde(default)]
    pub balancers: Vec<BalancerSpec>,
}

/// Known resolvers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ResolversSpec {
    /// Resolvers with the internet's view of a name, on any port. In a watched cluster they are queried for every
    /// published host; otherwise name one as `resolver` of a dns target.
    #[serde(default)]
    pub public: Vec<IpAddr>,
    /// Whether the authoritative servers of a host's zone may be queried too. They can be at any address, so
    /// probers need egress to port 53 everywhere (our manifests allow it).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub authoritative: bool,
}

/// A load balancer shared by Services, with the provider's limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BalancerSpec {
    /// Name of the load balancer, for people.
    pub name: ObjectName,
    /// The Services on the load balancer.
    pub services: Vec<ServiceKey>,
    /// Maximum number of backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaSpec>,
    /// Whether endpoints see the client's address (no source NAT); absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserves_client_address: Option<bool>,
}

/// Quota of a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct QuotaSpec {
    /// Total number of backends: each port of each Service counts once for each node it is registered with.
    pub targets: u32,
}

/// Platform that runs the workloads of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// A Kubernetes cluster, managed with `kubectl`.
    Kubernetes,
    /// Unknown.
    #[default]
    None,
}

impl Platform {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// kube-proxy's mode (`:10249/proxyMode`), or that of its replacement. Used as a prior, never as proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// kube-proxy with iptables.
    Iptables,
    /// kube-proxy with IPVS.
    Ipvs,
    /// kube-proxy with nftables.
    Nftables,
    /// Unknown.
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
    /// The prober on the node; absent if none runs there (for example because of a taint).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prober: Option<ProberSpec>,
    /// The node's condition `Ready`.
    #[serde(default, skip_serializing_if = "NodeReadiness::is_unknown")]
    pub readiness: NodeReadiness,
    /// `spec.unschedulable`: the node is cordoned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// Network facts of the node.
    #[serde(default, skip_serializing_if = "NodeFacts::is_empty")]
    pub facts: NodeFacts,
}

/// The condition `Ready` of a node: whether its kubelet renews its Lease and reports itself healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum NodeReadiness {
    /// `True`.
    Ready,
    /// `False`, or `Unknown`: the node controller has had no status from the kubelet for the grace period (40 s by
    /// default).
    NotReady,
    /// Not known.
    #[default]
    Unknown,
}

impl NodeReadiness {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// Network facts of a node from a host vantage or the API. Absent means unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeFacts {
    /// Whether the bridge ports of the node's Pods are in hairpin mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hairpin: Option<bool>,
    /// `net.bridge.bridge-nf-call-iptables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge_nf_call_iptables: Option<bool>,
    /// `status.nodeInfo.kubeProxyVersion`, or the kubelet's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy_version: Option<ObjectName>,
    /// The mode that the node's kube-proxy reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_mode: Option<ProxyMode>,
    /// Balancer addresses of Services on the node's `kube-ipvs0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipvs_addresses: Option<BTreeSet<IpAddr>>,
    /// Whether an interface has strict reverse path filtering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_rp_filter: Option<bool>,
    /// Fill level of the conntrack table in percent, quantized if measured: every change creates a new topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack_percent: Option<u8>,
    /// Whether the node drops packets whose source is one of its own addresses (`in_martian_src` rises).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "dropsOwnSources")]
    pub drops_own_source_addresses: Option<bool>,
    /// Whether kube-proxy reports itself healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_healthy: Option<bool>,
    /// Number of endpoints on this node known to its kube-proxy, by Service with a health check port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub local_endpoints: BTreeMap<ServiceKey, u32>,
}

impl NodeFacts {
    /// Reports whether no fact is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Fills the unknown facts from another source. Facts present here take precedence.
    #[must_use]
    pub fn or_else_from(&self, other: &Self) -> Self {
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
            drops_own_source_addresses: self
                .drops_own_source_addresses
                .or(other.drops_own_source_addresses),
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
    /// Address of its echo.
    pub address: SocketAddr,
}

/// `spec.type` of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum ServiceType {
    /// Reachable only inside the cluster.
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
    /// All endpoints.
    #[default]
    Cluster,
    /// Only endpoints on the receiving node.
    Local,
}

/// `status.loadBalancer.ingress[].ipMode` (KEP-1860).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum IpMode {
    /// The node itself handles traffic to the address.
    #[default]
    #[serde(rename = "VIP")]
    Vip,
    /// Traffic goes through the load balancer.
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
    /// `spec.healthCheckNodePort`: kube-proxy reports there the number of endpoints on its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check_node_port: Option<u16>,
    /// `metadata.annotations` that configure the load balancer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The ingress class served by the controller behind this Service, if it is an ingress controller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class: Option<ObjectName>,
    /// `NetworkPolicies` that restrict ingress to the Pods, as far as the selector shows; absent if policies cannot
    /// be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "guardedBy")]
    pub network_policies: Option<BTreeSet<ObjectName>>,
    /// Whether the endpoints are the mesh's own probers: failures during their restarts are not reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
    /// Whether and how the cluster addresses are probed.
    #[serde(default, skip_serializing_if = "ServiceProbe::is_default")]
    pub probe: ServiceProbe,
}

/// Whether and how the cluster addresses of a Service are probed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServiceProbe {
    /// `true`: probes every port, with a TCP connect unless it speaks HTTP; `false`: no port. If absent, only
    /// ports with `http` in `appProtocol` or the port name are probed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "wanted")]
    pub enabled: Option<bool>,
    /// Path of HTTP probes; `/` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Status codes that count as success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_status: Option<ExpectedStatus>,
    /// Milliseconds between two probes from one vantage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Whether the Service is not in operation yet, so that targets without any success are expected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

impl ServiceProbe {
    /// Reports whether nothing is configured.
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

/// One address of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LoadBalancerSpec {
    /// The address.
    pub ip: IpAddr,
    /// The mode in which nodes treat the address.
    #[serde(default)]
    pub ip_mode: IpMode,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PortSpec {
    /// Name of the port; `http`, `https` and names that start with `http-` or `https-` set the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ObjectName>,
    /// `appProtocol`, if declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<ObjectName>,
    /// The Service's port.
    pub port: u16,
    /// The endpoints' port.
    pub target_port: u16,
    /// The node port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndpointSpec {
    /// The Pod (`targetRef.name`).
    pub pod: PodName,
    /// Address of the endpoint.
    pub address: IpAddr,
    /// Node of the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// `conditions.ready`; defaults to true.
    #[serde(default = "default_true")]
    pub ready: bool,
    /// `conditions.serving`; defaults to `ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// `conditions.terminating`.
    #[serde(default)]
    pub terminating: bool,
    /// `hints`: the clients the endpoint is meant for.
    #[serde(default, skip_serializing_if = "TopologyHints::is_empty")]
    pub hints: TopologyHints,
}

/// Topology hints of an endpoint. Empty: no restriction.
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
    /// Reports whether there are no hints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.for_zones.is_empty() && self.for_nodes.is_empty()
    }
}

const fn default_true() -> bool {
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
    /// The ingress controller's Service, which selects the entries.
    pub service: ServiceKey,
    /// `spec.rules[].host`.
    pub hosts: Vec<HostName>,
    /// Whether the hosts are also served over TLS.
    #[serde(default)]
    pub tls: bool,
    /// `spec.ingressClassName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
}

/// A target and the Service port that selects its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PublishedSpec {
    /// The target.
    pub target: TargetSpec,
    /// The Service whose endpoints are the entries.
    pub service: ServiceKey,
    /// The Service's port.
    pub port: u16,
    /// The ingress class or Gateway of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
    /// The Service of the origin Pods, if the entry forwards to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ServiceKey>,
}
