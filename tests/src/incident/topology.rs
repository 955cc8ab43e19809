//! The healthy cluster of an incident.

use std::net::{IpAddr, Ipv4Addr};

use parallax_diagnosis::topology::BalancerSpec;
use parallax_model::{
    ExpectedStatus, HostName, NodeName, ObjectName, PodName, ServiceKey, TargetSpec, Vantage, ZoneName,
};
use serde::{Deserialize, Serialize};

use super::IngressHosts;

/// The cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Topology {
    /// How the aggregator learns of the cluster [default: from a file].
    #[serde(default, skip_serializing_if = "PublishedBy::is_file")]
    pub published_by: PublishedBy,
    /// Address families of nodes, Pods and Services [default: IPv4 only].
    #[serde(default, skip_serializing_if = "AddressFamilies::is_one")]
    pub families: AddressFamilies,
    /// Nodes, each with one prober Pod. Their order determines their addresses.
    pub nodes: Vec<Node>,
    /// Services and their Pods.
    pub services: Vec<Service>,
    /// Ingresses.
    #[serde(default)]
    pub ingresses: Vec<Ingress>,
    /// Targets in addition to the Ingress hosts, as in the product's own configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetSpec>,
    /// Balancers in the aggregator's configuration (quota, client addresses).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balancers: Vec<BalancerSpec>,
    /// Node that runs the aggregator: reports cross the network to it [default: they do not cross the network of the
    /// nodes].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregator: Option<NodeName>,
    /// The cluster's resolvers. Those without `serves` are behind the resolver's Service, which all other nodes query
    /// [default: one dnsmasq on the first node].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<Resolver>,
    /// Names in addition to the Ingress hosts, known to every resolver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<NameRecord>,
    /// Names that only the cluster's resolvers answer differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<NameRecord>,
    /// Clients outside the cluster, each with a prober: `internet:NAME`, `vpc:NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vantages: Vec<Vantage>,
}

/// How the aggregator learns of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedBy {
    /// From a file.
    #[default]
    File,
    /// From an API server.
    ApiServer,
}

impl PublishedBy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_file(&self) -> bool {
        *self == Self::File
    }
}

/// Address families of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressFamilies {
    /// IPv4 only.
    #[default]
    V4,
    /// Dual stack: every address has an IPv6 counterpart.
    DualStack,
}

impl AddressFamilies {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_one(&self) -> bool {
        *self == Self::V4
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Node {
    /// Its name, also of its network namespace.
    pub name: NodeName,
    /// Its zone.
    pub zone: ZoneName,
    /// Whether it joins later (`join-node`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// Whether a prober runs in its Pod network [default: true].
    #[serde(default = "yes")]
    pub prober: bool,
    /// Whether a prober also runs in its host network, and reports the node's facts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_prober: bool,
}

const fn yes() -> bool {
    true
}

/// A resolver of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Resolver {
    /// Its pod, also the name of its network namespace.
    pub pod: PodName,
    /// Its node.
    pub node: NodeName,
    /// The resolver software.
    #[serde(default)]
    pub software: ResolverSoftware,
    /// Nodes whose Pods query it by its own address, as with a resolver per node.
    #[serde(default)]
    pub serves: Vec<NodeName>,
    /// Seconds for which it caches positive and negative answers, as CoreDNS does with `cache 30`; dnsmasq only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_seconds: Option<u32>,
}

/// A resolver's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResolverSoftware {
    /// dnsmasq.
    #[default]
    Dnsmasq,
    /// unbound.
    Unbound,
}

/// A name and its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NameRecord {
    /// The name.
    pub host: HostName,
    /// Its address, of either family.
    pub address: IpAddr,
}

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Service {
    /// `namespace/name`.
    pub service: ServiceKey,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ServiceType,
    /// ClusterIP; `None`, as in the object, for a headless Service.
    #[serde(rename = "clusterIP", with = "cluster_ip")]
    pub cluster_ip: Option<Ipv4Addr>,
    /// The balancer's address; present exactly for type `LoadBalancer`.
    #[serde(default, rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    pub load_balancer_ip: Option<Ipv4Addr>,
    /// Whether the nodes themselves answer for the balancer's address.
    #[serde(default)]
    pub ip_mode: IpMode,
    /// How the balancer forwards connections.
    #[serde(default)]
    pub balancing: BalancingMode,
    /// Source of the balancer's health checks.
    #[serde(default)]
    pub health_checks: HealthChecks,
    /// Policy for traffic to the balancer's address and the nodePort.
    #[serde(default)]
    pub external_traffic_policy: TrafficPolicy,
    /// Policy for traffic to the ClusterIP.
    #[serde(default)]
    pub internal_traffic_policy: TrafficPolicy,
    /// The ingress class whose controller this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// Server in its Pods.
    #[serde(default)]
    pub server: ServerSpec,
    /// Its endpoints when the lab starts.
    #[serde(default)]
    pub endpoints: Vec<EndpointAt>,
    /// Pods that it selects in any case, in addition to `endpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<BackendPods>,
    /// Whether it is created later (`create-service`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

/// `spec.clusterIP`: an address, or the literal `None`.
mod cluster_ip {
    use std::net::Ipv4Addr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    const HEADLESS: &str = "None";

    #[allow(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "serde asks for it"
    )]
    pub(super) fn serialize<S: Serializer>(ip: &Option<Ipv4Addr>, to: S) -> Result<S::Ok, S::Error> {
        match ip {
            Some(ip) => to.collect_str(ip),
            None => to.serialize_str(HEADLESS),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ipv4Addr>, D::Error> {
        let text = String::deserialize(from)?;
        if text == HEADLESS {
            return Ok(None);
        }
        let ip = text.parse().map(Some);
        ip.map_err(|_| D::Error::custom(format!("expected an IPv4 address or {HEADLESS}, got {text:?}")))
    }
}

/// Pods that exist in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendPods {
    /// The Pods of all probers: each is an endpoint of the Service that it probes.
    Probers,
}

/// Type of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceType {
    /// ClusterIP only.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// ClusterIP, nodePort and balancer address.
    LoadBalancer,
}

/// `status.loadBalancer.ingress[].ipMode` (KEP-1860).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum IpMode {
    /// The nodes themselves answer for the address.
    #[default]
    #[serde(rename = "VIP")]
    Vip,
    /// Traffic goes to the balancer.
    Proxy,
}

/// How a balancer forwards connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalancingMode {
    /// To a node port with the client's own address, as network balancers of clouds do.
    #[default]
    KeepsClient,
    /// With its own address and a PROXY header (HAProxy).
    ProxyProtocol,
    /// With its own address, terminating TLS: port 443 has the certificate, and nodes get plain HTTP (HAProxy).
    EndsTls,
}

/// Source of a balancer's health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealthChecks {
    /// From a dedicated address.
    #[default]
    Reserved,
    /// From the address that it balances.
    OwnAddress,
}

/// `externalTrafficPolicy`, `internalTrafficPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TrafficPolicy {
    /// Any endpoint.
    #[default]
    Cluster,
    /// Only endpoints on the receiving node.
    Local,
}

/// One port of a Service; TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServicePort {
    /// Its name. `https` and `tls` use TLS, all others do not.
    pub name: ObjectName,
    /// Port of ClusterIP and balancer.
    pub port: u16,
    /// Port of the Pods.
    pub target_port: u16,
    /// Port of the nodes; present exactly for type `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
}

impl ServicePort {
    /// Reports whether its Pods use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.name.as_str(), "https" | "tls")
    }
}

/// Server in a Pod behind a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServerSpec {
    /// The software.
    #[serde(default)]
    pub software: ServerSoftware,
    /// Hosts that it serves; others get a 404.
    #[serde(default)]
    pub serves: ServedHosts,
    /// Whether it requires a PROXY header.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxy_protocol: bool,
    /// Redirects (308) plain HTTP to this URL followed by path and query; it may contain variables of nginx
    /// (`https://$host:8443`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,
    /// Status of every response instead of 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Size of every response's body, if it is to be large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<usize>,
    /// Delay of every response in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}

/// Server software.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerSoftware {
    /// The lab's own: small, and names the Pod that answers.
    #[default]
    Lab,
    /// nginx.
    Nginx,
    /// `HAProxy`.
    Haproxy,
}

/// Hosts that a server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServedHosts {
    /// All.
    #[default]
    Everything,
    /// Those of the Ingresses of its Service's class.
    OwnClass,
}

/// An endpoint and its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndpointAt {
    /// Its name, also of its network namespace.
    pub pod: PodName,
    /// Its node.
    pub node: NodeName,
}

/// An Ingress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Ingress {
    /// `namespace/name`.
    pub ingress: ServiceKey,
    /// The entry: the Service of the controller that serves it.
    pub service: ServiceKey,
    /// Its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
    /// Whether it uses TLS too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Statuses that count as success, if not all below 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_status: Option<ExpectedStatus>,
    /// The Service of the application: the controller (nginx) forwards to its ClusterIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ServiceKey>,
    /// Its host names, which all resolve to the Service's balancer address.
    pub hosts: IngressHosts,
}
