//! An incident as data: a cluster, what goes wrong in it, and what Parallax must say.
//!
//! The files live in `tests/incidents/`; `docs/lab.md` explains how to add one. Unknown fields are refused, since a
//! misspelt expectation would otherwise hold for ever.

mod check;
mod hosts;
mod load;

use std::net::{Ipv4Addr, SocketAddrV4};

use parallax_model::{NodeName, ObjectName, PodName, ServiceKey, ZoneName};
use serde::{Deserialize, Serialize};

pub use check::InvalidIncident;
pub use hosts::Hosts;
pub use load::{LoadError, list, load, parse};

/// One incident file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Incident {
    /// Name on the command line; equals the file's name without `.yaml`.
    pub id: String,
    /// One line for lists.
    pub title: String,
    /// What happens, for people.
    pub description: String,
    /// Who forwards Service traffic on the nodes.
    pub dataplane: Dataplane,
    /// Time between two probes of one assignment, in milliseconds.
    pub interval_ms: u64,
    /// Deadline of one probe, in milliseconds.
    pub timeout_ms: u64,
    /// The cluster, healthy.
    pub topology: Topology,
    /// What happens to it, in order.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What must be seen.
    pub expected: Expected,
}

/// Who forwards Service traffic on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dataplane {
    /// kube-proxy in IPVS mode before kubernetes#97081: with policy Local and no local endpoint, the load balancer
    /// address has no destination.
    IpvsOld,
    /// A current kube-proxy in IPVS mode: without a local endpoint it takes the cluster's.
    Ipvs,
}

/// The cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Topology {
    /// Nodes, each with one prober pod. Their order gives them their addresses.
    pub nodes: Vec<Node>,
    /// Services and the pods behind them.
    pub services: Vec<Service>,
    /// Ingresses.
    #[serde(default)]
    pub ingresses: Vec<Ingress>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Node {
    /// Its name, also of its network namespace.
    pub name: NodeName,
    /// Its zone.
    pub zone: ZoneName,
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
    /// Its virtual address inside the cluster.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Ipv4Addr,
    /// The balancer's address; present exactly with type `LoadBalancer`.
    #[serde(default, rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    pub load_balancer_ip: Option<Ipv4Addr>,
    /// Where traffic for the balancer's address and the nodePort may go.
    #[serde(default)]
    pub external_traffic_policy: TrafficPolicy,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// The pods behind it when the lab starts.
    pub endpoints: Vec<EndpointAt>,
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

/// `externalTrafficPolicy`.
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
    /// Its name.
    pub name: ObjectName,
    /// Port of the virtual addresses.
    pub port: u16,
    /// Port of the pods.
    pub target_port: u16,
    /// Port of the nodes; present exactly with type `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
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
    /// Its host names. All resolve to the Service's balancer address.
    pub hosts: Hosts,
}

/// Something that happens at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fault {
    /// What happens, for people.
    pub name: String,
    /// Intervals between the start of probing (or the fault before) and this one.
    pub after_rounds: u32,
    /// What changes, on the data plane and in the published topology alike.
    pub ops: Vec<Op>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Op {
    /// A pod goes away: its process ends, no Service leads to it any more.
    RemoveEndpoint {
        /// The Service it was behind.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// A new pod starts behind a Service. A pod that "moves" is one removed and another added.
    AddEndpoint {
        /// The Service.
        service: ServiceKey,
        /// The new pod.
        pod: PodName,
        /// Where it runs.
        node: NodeName,
    },
    /// The Service's policy is changed.
    SetPolicy {
        /// The Service.
        service: ServiceKey,
        /// The new policy.
        external_traffic_policy: TrafficPolicy,
    },
}

/// What must be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Expected {
    /// What Parallax must say.
    pub outcome: Outcome,
    /// What an ordinary client must see.
    pub packets: Packets,
}

/// What Parallax must say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Outcome {
    /// This verdict, and only after the last fault.
    Verdict(ExpectedVerdict),
    /// Nothing at all.
    Quiet {
        /// Seconds of probing without any verdict.
        seconds: u64,
    },
}

/// The verdict that must be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedVerdict {
    /// The region's label.
    pub region: String,
    /// The cause's id, which must be the most probable one.
    pub cause: String,
    /// The front it is about.
    pub front: SocketAddrV4,
    /// How many of the incident's host names the verdict must cover. One finding, whatever the number.
    pub members: usize,
    /// What the sentence must contain.
    #[serde(default)]
    pub sentence: Vec<String>,
    /// Regions that must not be named beside it.
    #[serde(default)]
    pub absent: Vec<String>,
    /// What the evidence table must show.
    #[serde(default)]
    pub evidence: Vec<ExpectedEvidence>,
    /// What must be said of who answers for the address: each text is part of one line.
    #[serde(default)]
    pub locality: Vec<String>,
    /// Latest time, in seconds from the start of the lab.
    pub within_seconds: u64,
}

/// Lines of the evidence table: at least one begins with these words, and all that do show the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedEvidence {
    /// How the line begins.
    pub who: String,
    /// How its probes ended.
    pub fails: Share,
}

/// A share of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Share {
    /// All of at least two.
    Always,
    /// At most one in twenty. A connection to an endpoint from a source port that another one through the balancer used
    /// within the last two minutes, to the same endpoint, meets what connection tracking remembers of that one, and
    /// times out: with fifty hosts on one front that is about one direct probe in a hundred.
    Rarely,
    /// None of at least two.
    Never,
}

/// What an ordinary client in a node's pod network must see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Packets {
    /// Before the first fault.
    pub healthy: Vec<Look>,
    /// After the last one.
    #[serde(default)]
    pub faulty: Vec<Look>,
}

/// One line of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Look {
    /// The nodes the client sits on.
    pub from: Vec<NodeName>,
    /// How it approaches the Service.
    pub to: Way,
    /// The Service.
    pub service: ServiceKey,
    /// What it sees, on every port of the Service (and at every endpoint, for `direct`).
    pub sees: Sight,
}

/// How a client approaches a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// HTTP to the balancer's address.
    Vip,
    /// HTTP to the `ClusterIP`.
    #[serde(rename = "clusterIP")]
    ClusterIp,
    /// HTTP to every present endpoint's own address.
    Direct,
    /// ICMP echo to the balancer's address.
    Ping,
}

/// What a client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sight {
    /// A 200 from a pod of the Service.
    Answered,
    /// The connection is refused.
    Refused,
    /// Nothing comes back.
    TimedOut,
    /// An echo reply whose TTL no router has touched: the client's own node answered.
    OwnNode,
}
