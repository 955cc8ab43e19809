//! What goes wrong, as typed steps.

use std::net::IpAddr;

use parallax_model::{HostName, NodeName, ObjectName, PodName, ServiceKey};
use serde::{Deserialize, Serialize};

use super::{HealthChecks, IpMode, ServerSpec, TrafficPolicy};

/// Something that happens at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TimedFault {
    /// What happens, for people.
    pub name: String,
    /// Intervals between the start of probing (or the fault before) and this one.
    pub after_rounds: u32,
    /// What changes.
    pub ops: Vec<FaultOperation>,
}

/// One change. What an API server would know of it is published as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum FaultOperation {
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
    /// A pod of a Service is created: it has an address and is not ready, as its container starts.
    StartPod {
        /// The Service.
        service: ServiceKey,
        /// The new pod.
        pod: PodName,
        /// Where it runs.
        node: NodeName,
    },
    /// A pod that was started serves and becomes ready.
    ReadyPod {
        /// The Service.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// A pod is deleted: for its grace period it is terminating and serves on. It ends with `remove-endpoint`.
    TerminatePod {
        /// The Service.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// A Service that is `absent` until now is created.
    CreateService {
        /// The Service.
        service: ServiceKey,
    },
    /// A Service is deleted. Its pods must have gone before.
    DeleteService {
        /// The Service.
        service: ServiceKey,
    },
    /// The Service's policy is changed.
    SetPolicy {
        /// The Service.
        service: ServiceKey,
        /// The new policy.
        external_traffic_policy: TrafficPolicy,
    },
    /// The cloud controller says in the Service's status who answers for the balancer's address.
    SetIpMode {
        /// The Service.
        service: ServiceKey,
        /// Who does from now on.
        ip_mode: IpMode,
    },
    /// The Service's policy inside is changed.
    SetInternalPolicy {
        /// The Service.
        service: ServiceKey,
        /// The new policy.
        internal_traffic_policy: TrafficPolicy,
    },
    /// The pods of a Service, or one of them, start again and behave in another way.
    SetServer {
        /// The Service.
        service: ServiceKey,
        /// Only this pod.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pod: Option<PodName>,
        /// How they behave from now on.
        server: ServerSpec,
    },
    /// A pod's process ends; everybody goes on sending there.
    CrashPod {
        /// The pod.
        pod: PodName,
    },
    /// An Ingress is given to another class. Controllers follow, DNS does not.
    SetClass {
        /// The Ingress.
        ingress: ServiceKey,
        /// The new class.
        class: ObjectName,
    },
    /// Bridge ports of a node's pods reflect, or not.
    Hairpin {
        /// The node.
        node: NodeName,
        /// Whether they do.
        on: bool,
    },
    /// `net.bridge.bridge-nf-call-iptables` of a node.
    BridgeNf {
        /// The node.
        node: NodeName,
        /// Whether frames within its bridge meet its translation.
        on: bool,
    },
    /// kube-proxy of a node stands still: its rules stay as they are.
    FreezeNode {
        /// The node.
        node: NodeName,
    },
    /// What a node forwards to its pods from elsewhere is dropped; its own way out works.
    BreakNode {
        /// The node.
        node: NodeName,
    },
    /// What one node sends to the pods of another is dropped.
    BreakPair {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
    },
    /// Packets between a node and the others are lost at random, in both directions.
    Loss {
        /// The node.
        node: NodeName,
        /// How many of a hundred.
        percent: u8,
    },
    /// Packets of a node's underlay beyond this size are dropped without a word.
    DropLargerThan {
        /// The node.
        node: NodeName,
        /// Bytes, with the IP header.
        bytes: u16,
    },
    /// The cloud drops what the cluster sends to a balancer.
    SecurityGroup {
        /// The Service of the balancer.
        service: ServiceKey,
        /// Whether it does.
        blocks: bool,
    },
    /// A `NetworkPolicy` selects the pods of a Service and lets only pods behind other Services in.
    NetworkPolicy {
        /// The Service whose pods it selects.
        service: ServiceKey,
        /// Its name.
        name: ObjectName,
        /// The Services whose pods it lets in; nobody where empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        admits: Vec<ServiceKey>,
    },
    /// The balancer checks from elsewhere.
    SetHealthChecks {
        /// The Service of the balancer.
        service: ServiceKey,
        /// From where.
        health_checks: HealthChecks,
    },
    /// A resolver's answer changes. `public` is the one outside the cluster.
    SetRecord {
        /// The resolver's pod.
        resolver: PodName,
        /// The name.
        host: HostName,
        /// Where it leads in that address's family; absent: nowhere, the name does not exist.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<IpAddr>,
    },
    /// The prober of a node ends and starts again.
    RestartProber {
        /// The node.
        node: NodeName,
    },
    /// The prober of a node stands still, as on a starved machine.
    StallProber {
        /// The node.
        node: NodeName,
    },
    /// It goes on.
    ResumeProber {
        /// The node.
        node: NodeName,
    },
    /// The container of a node's prober ends; its pod stays, with its address, and is not ready.
    StopProber {
        /// The node.
        node: NodeName,
    },
    /// The container of a node's prober starts, in the pod that is there, which becomes ready.
    StartProber {
        /// The node.
        node: NodeName,
    },
    /// The prober pod of a node is deleted and ends.
    DeleteProber {
        /// The node.
        node: NodeName,
    },
    /// A new prober pod is created on a node, with a new name and a new address. It is not ready before `start-prober`.
    CreateProber {
        /// The node.
        node: NodeName,
    },
    /// `spec.unschedulable` of a node, as `kubectl cordon` sets it.
    CordonNode {
        /// The node.
        node: NodeName,
        /// Whether it is.
        on: bool,
    },
    /// A node is cut off, as by a power failure. The API server goes on showing it as ready until the node controller has
    /// not heard of it for its grace period.
    CrashNode {
        /// The node.
        node: NodeName,
    },
    /// It is back, and ready.
    RecoverNode {
        /// The node.
        node: NodeName,
    },
    /// A node joins the cluster.
    JoinNode {
        /// The node; `absent` until now.
        node: NodeName,
    },
    /// A node leaves the cluster, with its prober. Its other pods must have gone before.
    LeaveNode {
        /// The node.
        node: NodeName,
    },
    /// The wall clock of all nodes is set.
    StepClock {
        /// Seconds forward, or backward.
        seconds: i64,
    },
    /// The aggregator ends and starts again.
    RestartAggregator {
        /// It is killed instead of being asked to end.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        killed: bool,
        /// Seconds between its end and its start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        away_seconds: Option<u32>,
        /// Incidents that are open at its end must be open under the same ids once it answers again, and stay so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keeps_incidents: bool,
    },
    /// The API server refuses the aggregator.
    ApiServerAway {},
    /// It can be reached again.
    ApiServerBack {},
    /// Anything else: a command in a namespace (a node, a pod, or `cloud`).
    Command {
        /// The namespace.
        namespace: String,
        /// What `sh -c` runs there.
        run: String,
    },
}

impl FaultOperation {
    /// What it takes that only a kernel of the lab's own gives.
    #[must_use]
    pub const fn needs_own_kernel(&self) -> Option<&'static str> {
        match self {
            Self::Loss { .. } => Some("loss takes netem"),
            Self::StepClock { .. } => Some("step-clock sets the clock of the whole machine"),
            _ => None,
        }
    }
}
