//! Services with their ports, load balancers and endpoints.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{ExpectedStatus, Namespace, NodeName, ObjectName, PodName, ServiceKey, ZoneName};
use serde::{Deserialize, Serialize};

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
    /// `spec.selector`. Services of one namespace with the same selector are one workload, also without Pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
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
