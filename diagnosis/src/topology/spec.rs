//! The topology spec, as written in YAML and as filled from the Kubernetes watches.
//!
//! Field names follow Kubernetes, in camelCase; unknown fields are rejected.

mod node;
mod service;

use std::net::IpAddr;

pub use node::{NodeFacts, NodeReadiness, NodeSpec, ProberSpec};
use parallax_model::{HostName, Namespace, NodeName, ObjectName, ServiceKey, TargetSpec, Vantage};
use serde::{Deserialize, Serialize};
pub use service::{
    EndpointSpec, IpMode, LoadBalancerSpec, PortSpec, ServiceProbe, ServiceSpec, ServiceType, TopologyHints,
    TrafficPolicy,
};

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
    /// Node of the aggregator that judges. Reports of vantages on other nodes cross the network to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregator: Option<NodeName>,
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
