//! The cluster of an incident, healthy.

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
    /// How the aggregator learns of the cluster; from a file where absent.
    #[serde(default, skip_serializing_if = "PublishedBy::is_file")]
    pub published_by: PublishedBy,
    /// The address families of nodes, pods and Services; IPv4 alone where absent.
    #[serde(default, skip_serializing_if = "AddressFamilies::is_one")]
    pub families: AddressFamilies,
    /// Nodes, each with one prober pod. Their order gives them their addresses.
    pub nodes: Vec<Node>,
    /// Services and the pods behind them.
    pub services: Vec<Service>,
    /// Ingresses.
    #[serde(default)]
    pub ingresses: Vec<Ingress>,
    /// Targets besides the Ingresses' hosts, as in the product's own configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetSpec>,
    /// What the configuration says of balancers (quota, client addresses).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balancers: Vec<BalancerSpec>,
    /// The cluster's resolvers, the first one for every node that no other serves; one dnsmasq on the first node where
    /// none is listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<Resolver>,
    /// Names besides the Ingresses' hosts that every resolver knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<NameRecord>,
    /// Names that the cluster's resolvers, and only these, lead elsewhere.
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
    /// It reads a file.
    #[default]
    File,
    /// It watches an API server.
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
    /// IPv4 alone.
    #[default]
    V4,
    /// Both: every address has an IPv6 counterpart.
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
    /// It joins later (`join-node`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// A prober runs in its pod network; true where absent.
    #[serde(default = "yes")]
    pub prober: bool,
    /// A prober runs on its host network as well, and reports the node's facts.
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
    /// What runs there.
    #[serde(default)]
    pub software: ResolverSoftware,
    /// The nodes whose pods ask it by its own address, as with a resolver on the node.
    #[serde(default)]
    pub serves: Vec<NodeName>,
    /// Seconds for which it keeps an answer, and that there is none, as `CoreDNS` does with `cache 30`; dnsmasq only.
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

/// A name and where it leads.
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
    /// Its virtual address inside the cluster; `None`, as in its object, with a headless one.
    #[serde(rename = "clusterIP", with = "cluster_ip")]
    pub cluster_ip: Option<Ipv4Addr>,
    /// The balancer's address; present exactly with type `LoadBalancer`.
    #[serde(default, rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    pub load_balancer_ip: Option<Ipv4Addr>,
    /// Whether the nodes answer for the balancer's address themselves.
    #[serde(default)]
    pub ip_mode: IpMode,
    /// How the balancer passes connections on.
    #[serde(default)]
    pub balancing: BalancingMode,
    /// Where the balancer's health checks come from.
    #[serde(default)]
    pub health_checks: HealthChecks,
    /// Where traffic for the balancer's address and the nodePort may go.
    #[serde(default)]
    pub external_traffic_policy: TrafficPolicy,
    /// Where traffic for the cluster address may go.
    #[serde(default)]
    pub internal_traffic_policy: TrafficPolicy,
    /// The ingress class whose controller this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// What runs in its pods.
    #[serde(default)]
    pub server: ServerSpec,
    /// The pods behind it when the lab starts.
    #[serde(default)]
    pub endpoints: Vec<EndpointAt>,
    /// Pods behind it that are there anyway, besides `endpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<BackendPods>,
    /// It is created later (`create-service`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

/// `spec.clusterIP`: an address, or the word `None`.
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

/// Pods that are there anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendPods {
    /// Every prober's: each then is an endpoint of the Service it asks.
    Probers,
}

/// Type of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceType {
    /// A virtual address inside the cluster.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// That, a port on every node, and a balancer's address.
    LoadBalancer,
}

/// `status.loadBalancer.ingress[].ipMode` (KEP-1860).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum IpMode {
    /// The nodes answer for the address themselves.
    #[default]
    #[serde(rename = "VIP")]
    Vip,
    /// Traffic really goes to the balancer.
    Proxy,
}

/// How a balancer passes connections on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalancingMode {
    /// To a node's port with the client's own address, as the clouds' network balancers do.
    #[default]
    KeepsClient,
    /// With its own address and a PROXY header (`HAProxy`).
    ProxyProtocol,
    /// With its own address, and in the clear where clients speak TLS: port 443 has the certificate (`HAProxy`).
    EndsTls,
}

/// Where a balancer's health checks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealthChecks {
    /// From an address that is nobody else's.
    #[default]
    Reserved,
    /// From the address it balances.
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
    /// Its name. `https` and `tls` are served with a certificate, everything else in the clear.
    pub name: ObjectName,
    /// Port of the virtual addresses.
    pub port: u16,
    /// Port of the pods.
    pub target_port: u16,
    /// Port of the nodes; present exactly with type `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
}

impl ServicePort {
    /// Its pods answer with a certificate.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.name.as_str(), "https" | "tls")
    }
}

/// What runs in a pod behind a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServerSpec {
    /// The program.
    #[serde(default)]
    pub software: ServerSoftware,
    /// Which hosts it answers; the others get a 404.
    #[serde(default)]
    pub serves: ServedHosts,
    /// It insists on a PROXY header.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxy_protocol: bool,
    /// Plain HTTP is answered by a redirect (308) there, with the path and the query behind it; nginx's own variables may
    /// stand in it (`https://$host:8443`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,
    /// The status of every answer, instead of 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of every answer's body, where it is to be a large one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<usize>,
    /// Milliseconds before every answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}

/// A server's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerSoftware {
    /// The lab's own: small, and names the pod that answers.
    #[default]
    Lab,
    /// nginx.
    Nginx,
    /// `HAProxy`.
    Haproxy,
}

/// Which hosts a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServedHosts {
    /// Any.
    #[default]
    Everything,
    /// Those of Ingresses of its Service's class.
    OwnClass,
}

/// A pod behind a Service, and where it runs.
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
    /// Served over TLS as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// The statuses that count as success, where not anything below 500 will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_status: Option<ExpectedStatus>,
    /// The Service whose pods answer in the end: the controller (nginx) passes on to its cluster address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ServiceKey>,
    /// Its host names. All resolve to the Service's balancer address.
    pub hosts: IngressHosts,
}
