//! Faults as typed operations.

use std::net::IpAddr;

use parallax_model::{HostName, NodeName, ObjectName, PodName, ServiceKey};
use serde::{Deserialize, Serialize};

use super::{HealthChecks, IpMode, ServerSpec, TrafficPolicy};

/// A fault at a given time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TimedFault {
    /// What happens, for readers.
    pub name: String,
    /// Intervals between the start of probing (or the previous fault) and this one.
    pub after_rounds: u32,
    /// The changes.
    pub ops: Vec<FaultOperation>,
}

/// The end of the faults. With a repair, the expected verdict must be the only incident from the first fault on, and
/// close.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Repair {
    /// What happens, for readers.
    pub name: String,
    /// Intervals between the expected verdict and the repair.
    pub after_rounds: u32,
    /// The changes.
    pub ops: Vec<FaultOperation>,
    /// Deadline in seconds from the repair, until the incident is closed and every cell is ok.
    pub closed_within_seconds: u64,
}

impl Repair {
    /// Returns its changes as a step of the incident.
    #[must_use]
    pub fn step(&self) -> TimedFault {
        TimedFault {
            name: self.name.clone(),
            after_rounds: self.after_rounds,
            ops: self.ops.clone(),
        }
    }
}

/// One change. What the API server would know of it is published too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum FaultOperation {
    /// A Pod is removed: its process exits, and no Service selects it any more.
    RemoveEndpoint {
        /// Its Service.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// A new Pod starts behind a Service. A Pod that "moves" is removed and another one added.
    AddEndpoint {
        /// The Service.
        service: ServiceKey,
        /// The new pod.
        pod: PodName,
        /// Its node.
        node: NodeName,
    },
    /// A Pod of a Service is created: it has an address and is not ready, because its container is starting.
    StartPod {
        /// The Service.
        service: ServiceKey,
        /// The new pod.
        pod: PodName,
        /// Its node.
        node: NodeName,
    },
    /// A started Pod serves and becomes ready.
    ReadyPod {
        /// The Service.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// A Pod is deleted: during its grace period it is terminating and still serves. `remove-endpoint` ends it.
    TerminatePod {
        /// The Service.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// A Service that has been `absent` is created.
    CreateService {
        /// The Service.
        service: ServiceKey,
    },
    /// A Service is deleted. Its Pods must be removed first.
    DeleteService {
        /// The Service.
        service: ServiceKey,
    },
    /// A Service's external traffic policy changes.
    SetPolicy {
        /// The Service.
        service: ServiceKey,
        /// The new policy.
        external_traffic_policy: TrafficPolicy,
    },
    /// The cloud controller sets `ipMode` of the balancer's address in the Service's status.
    SetIpMode {
        /// The Service.
        service: ServiceKey,
        /// The new mode.
        ip_mode: IpMode,
    },
    /// A Service's internal traffic policy changes.
    SetInternalPolicy {
        /// The Service.
        service: ServiceKey,
        /// The new policy.
        internal_traffic_policy: TrafficPolicy,
    },
    /// The Pods of a Service, or one of them, are restarted with a different behaviour.
    SetServer {
        /// The Service.
        service: ServiceKey,
        /// Only this pod.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pod: Option<PodName>,
        /// The new behaviour.
        server: ServerSpec,
    },
    /// A Pod's process exits, and connections are still forwarded to it.
    CrashPod {
        /// The pod.
        pod: PodName,
    },
    /// An Ingress changes its class. Controllers follow, DNS does not.
    SetClass {
        /// The Ingress.
        ingress: ServiceKey,
        /// The new class.
        class: ObjectName,
    },
    /// Bridge ports of a node's Pods get hairpin mode on or off.
    Hairpin {
        /// The node.
        node: NodeName,
        /// Whether it is on.
        on: bool,
    },
    /// `net.bridge.bridge-nf-call-iptables` of a node.
    BridgeNf {
        /// The node.
        node: NodeName,
        /// Whether frames within its bridge pass its NAT.
        on: bool,
    },
    /// A node's kube-proxy stops: its rules stay as they are.
    FreezeNode {
        /// The node.
        node: NodeName,
    },
    /// Packets forwarded by a node to its Pods are dropped; egress works.
    BreakNode {
        /// The node.
        node: NodeName,
    },
    /// Packets from one node to the Pods of another are dropped.
    BreakPair {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
    },
    /// All packets between two nodes are lost, in both directions. Both still reach every other node and the router.
    CutLink {
        /// The two nodes.
        between: [NodeName; 2],
    },
    /// A cut link forwards again.
    RestoreLink {
        /// The two nodes.
        between: [NodeName; 2],
    },
    /// Random packet loss between a node and the others, in both directions.
    Loss {
        /// The node.
        node: NodeName,
        /// Loss in percent.
        percent: u8,
    },
    /// Packets beyond this size are dropped silently on a node's underlay.
    DropLargerThan {
        /// The node.
        node: NodeName,
        /// Size in bytes, with the IP header.
        bytes: u16,
    },
    /// The cloud drops packets from the cluster to a balancer.
    SecurityGroup {
        /// The Service of the balancer.
        service: ServiceKey,
        /// Whether it does.
        blocks: bool,
    },
    /// A `NetworkPolicy` selects the Pods of a Service and admits only Pods behind other Services.
    NetworkPolicy {
        /// The Service whose pods it selects.
        service: ServiceKey,
        /// Its name.
        name: ObjectName,
        /// The Services whose Pods it admits; empty admits none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        admits: Vec<ServiceKey>,
    },
    /// The source of the balancer's health checks changes.
    SetHealthChecks {
        /// The Service of the balancer.
        service: ServiceKey,
        /// The new source.
        health_checks: HealthChecks,
    },
    /// A resolver's answer changes. `public` is the one outside the cluster.
    SetRecord {
        /// The resolver's pod.
        resolver: PodName,
        /// The name.
        host: HostName,
        /// The address in its family; absent: the name does not exist.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<IpAddr>,
    },
    /// A node's prober restarts.
    RestartProber {
        /// The node.
        node: NodeName,
    },
    /// A node's prober is suspended, as on a starved machine.
    StallProber {
        /// The node.
        node: NodeName,
    },
    /// It resumes.
    ResumeProber {
        /// The node.
        node: NodeName,
    },
    /// The container of a node's prober exits; its Pod keeps its address and is not ready.
    StopProber {
        /// The node.
        node: NodeName,
    },
    /// The container of a node's prober starts in the existing Pod, which becomes ready.
    StartProber {
        /// The node.
        node: NodeName,
    },
    /// A node's prober Pod is deleted and terminates.
    DeleteProber {
        /// The node.
        node: NodeName,
    },
    /// A new prober Pod with a new name and address is created on a node. It is not ready before `start-prober`.
    CreateProber {
        /// The node.
        node: NodeName,
    },
    /// `spec.unschedulable` of a node, as `kubectl cordon` sets it.
    CordonNode {
        /// The node.
        node: NodeName,
        /// The value.
        on: bool,
    },
    /// A node is disconnected, as by a power failure. The API server shows it as ready until the node controller's
    /// grace period has passed.
    CrashNode {
        /// The node.
        node: NodeName,
    },
    /// It is connected again, and ready.
    RecoverNode {
        /// The node.
        node: NodeName,
    },
    /// A node joins the cluster.
    JoinNode {
        /// The node; `absent` until now.
        node: NodeName,
    },
    /// A node leaves the cluster with its prober. Its other Pods must be removed first.
    LeaveNode {
        /// The node.
        node: NodeName,
    },
    /// The wall clock of all nodes is stepped.
    StepClock {
        /// Seconds forward, or backward if negative.
        seconds: i64,
    },
    /// The aggregator restarts.
    RestartAggregator {
        /// Whether it is killed instead of terminated.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        killed: bool,
        /// Seconds between stop and start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        away_seconds: Option<u32>,
        /// Incidents open at its stop must be open under the same ids after its start, and stay so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keeps_incidents: bool,
    },
    /// The API server becomes unavailable to the aggregator.
    ApiServerAway {},
    /// The API server is available again.
    ApiServerBack {},
    /// Any other change: a command in a namespace (a node, a Pod, or `cloud`).
    Command {
        /// The namespace.
        namespace: String,
        /// The command for `sh -c`.
        run: String,
    },
}

impl FaultOperation {
    /// Returns the feature that requires the lab's own kernel, if any.
    #[must_use]
    pub const fn needs_own_kernel(&self) -> Option<&'static str> {
        match self {
            Self::Loss { .. } => Some("loss requires netem"),
            Self::StepClock { .. } => Some("step-clock sets the clock of the whole machine"),
            _ => None,
        }
    }
}
