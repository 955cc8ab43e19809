//! The result of a diagnosis: one sentence, the table that proves it, what was ruled out, and remedies.

use std::fmt;

use parallax_model::{
    Channel, EventTime, Front, NodeName, Placement, Probability, ServiceKey, TargetId, Vantage,
};
use serde::{Deserialize, Serialize};

use crate::topology::{Platform, Topology};

/// What a verdict is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "type", content = "name", rename_all = "snake_case")]
pub enum Subject {
    /// An address and port that clients connect to.
    Front(Front),
    /// The endpoints of a Service.
    Service(ServiceKey),
    /// One host and path behind a front.
    Target(TargetId),
    /// A DNS name, over all resolvers.
    Name(String),
    /// A node: all probes from it and to it.
    Node(NodeName),
    /// The network between nodes.
    Network,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Front(front) => write!(f, "{front}"),
            Self::Service(service) => write!(f, "Service {service}"),
            Self::Target(target) => write!(f, "{target}"),
            Self::Name(name) => write!(f, "{name}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Network => f.write_str("the network between nodes"),
        }
    }
}

/// A region of cells that fails together, with its members: `client [n3]`, `nolocal []`, `pair [n1, n2]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RegionRef {
    /// The region's name (`nolocal`, `client-vip`, …).
    pub region: String,
    /// Backend Pods, node names, `[client, backend node]` for a pair; empty if the region has no member.
    pub members: Vec<String>,
}

impl RegionRef {
    /// Describes the probes that fail together.
    #[must_use]
    pub fn description(&self) -> String {
        match (self.region.as_str(), self.members.as_slice()) {
            ("healthy", _) => "nothing fails".to_owned(),
            ("target", _) => "every probe of the target".to_owned(),
            ("vip", _) => "every connection through the address".to_owned(),
            ("proto-vip", _) => "connections from inside the cluster through the address".to_owned(),
            ("backend", [pod]) => format!("connections to endpoint {pod}"),
            ("bnode", [node]) => format!("connections to node {node}"),
            ("bnode-remote", [node]) => format!("connections from other nodes to node {node}"),
            ("client", [node]) => format!("connections from node {node}"),
            ("link", [a, b]) => format!("connections between nodes {a} and {b}"),
            ("node-link", [node]) => format!("connections between node {node} and other nodes"),
            ("zone-link", [a, b]) => format!("connections between zones {a} and {b}"),
            ("zone-vip", [zone]) => format!("connections through the address from zone {zone}"),
            ("client-vip", [node]) => format!("connections through the address from node {node}"),
            ("pair", [from, to]) => format!("connections from node {from} to node {to}"),
            ("zone", [from, to]) => format!("connections from zone {from} to zone {to}"),
            ("nolocal", _) => "clients on nodes without a local endpoint".to_owned(),
            ("cross", _) => "connections between nodes".to_owned(),
            ("same", _) => "connections within a node".to_owned(),
            ("same-vip", _) => {
                "connections through the address to an endpoint on the client's node".to_owned()
            }
            ("self", _) => "connections of a pod to itself".to_owned(),
            ("self-vip", _) => "connections of a pod to itself through the address".to_owned(),
            ("dns-client", [node]) => format!("lookups from node {node}"),
            ("dns-all", _) => "lookups from every node".to_owned(),
            ("dns-name", [name]) => format!("lookups of {name}"),
            ("outside-all", _) => "clients outside the cluster".to_owned(),
            ("lb-own-node", _) => "clients that the load balancer sends back to their own node".to_owned(),
            ("outside-front-node", _) => {
                "clients outside the cluster that the load balancer sends to a node without an endpoint"
                    .to_owned()
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for RegionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.region)?;
        if !self.members.is_empty() {
            write!(f, " {}", self.members.join(" → "))?;
        }
        Ok(())
    }
}

/// A named cause of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCause {
    /// Id in the catalogue (`F1`), or of an incident (`I8.1`).
    pub id: String,
    /// A short title.
    pub title: String,
    /// Its share of the region's probability, given failure kinds and facts.
    pub probability: Probability,
}

/// One line of the contingency table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRow {
    /// Clients and path in words: "through 203.0.113.10:80 from nodes without an endpoint".
    #[serde(rename = "who")]
    pub clients: String,
    /// The channel of these probes.
    pub channel: Channel,
    /// Placement of these probes, if the row is about one placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Counted probes. A front counts once per client and round, however many hosts share it.
    pub probes: u64,
    /// Failures among them.
    pub failures: u64,
    /// Failures by kind, most frequent first.
    pub kinds: Vec<(String, u64)>,
    /// Whether the named region predicts failure here.
    pub predicted: bool,
}

/// A region that could have explained the failures, and the evidence against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuledOut {
    /// The region.
    pub region: RegionRef,
    /// The counts that rule the region out, in words.
    #[serde(rename = "because")]
    pub reason: String,
}

/// A static fact that changed the prior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// The fact and the object it is about.
    pub text: String,
    /// Factor applied to the prior of the region, or of one cause of the region.
    pub multiplier: f64,
    /// The cause, if the fact changed the prior of one cause only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A remedy with its trade-off in this cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// The action to take.
    pub action: String,
    /// The exact command, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Trade-off of the remedy.
    #[serde(rename = "price")]
    pub trade_off: String,
    /// When the remedy won't help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "not_when")]
    pub ineffective_when: Option<String>,
}

impl Remedy {
    pub(crate) fn new(action: impl Into<String>, command: Option<String>, price: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            command,
            trade_off: price.into(),
            ineffective_when: None,
        }
    }

    /// Removes commands that the platform does not support: `kubectl` works on Kubernetes only.
    pub(crate) fn remove_unsupported_commands(remedies: &mut [Self], topology: &Topology) {
        if topology.platform() == Platform::Kubernetes {
            return;
        }
        for remedy in remedies {
            remedy.command = remedy
                .command
                .take()
                .filter(|command| !command.contains("kubectl"));
        }
    }

    /// Adds when the remedy won't help.
    #[must_use]
    pub(crate) fn with_ineffective_when(mut self, when: impl Into<String>) -> Self {
        self.ineffective_when = Some(when.into());
        self
    }
}

/// A cause that the vantages of this mesh cannot observe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotExcluded {
    /// Id in the catalogue.
    pub id: String,
    /// A short title.
    pub title: String,
    /// The vantage or data needed to observe it.
    #[serde(rename = "needed")]
    pub requirement: String,
}

/// A named cause, or a tie of several that the evidence cannot separate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The subject.
    pub subject: Subject,
    /// The named region: the member of the class with the largest prior.
    pub region: RegionRef,
    /// Every region that the evidence cannot separate from the named one, itself included.
    pub class: Vec<RegionRef>,
    /// Probability of the whole class.
    pub probability: Probability,
    /// Catalogue causes that produce this region, likeliest first.
    pub causes: Vec<NamedCause>,
    /// The verdict in one sentence.
    pub sentence: String,
    /// The contingency table.
    pub evidence: Vec<EvidenceRow>,
    /// Who answered at the address, according to TTL evidence.
    pub locality: Vec<String>,
    /// Regions that were ruled out, each with the counts against it.
    pub ruled_out: Vec<RuledOut>,
    /// Probes that would break the tie, or why they cannot be made; empty without a tie.
    #[serde(rename = "separating")]
    pub separating_probes: Vec<String>,
    /// The follow-up probe that decided the verdict, if it would not have been named without that probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "decided_by")]
    pub deciding_probe: Option<String>,
    /// Results of follow-up probes outside the table: larger echoes, names over TCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "answers")]
    pub follow_up_results: Vec<String>,
    /// Facts that changed the prior.
    pub facts: Vec<Fact>,
    /// Remedies, each with its trade-off.
    pub remedies: Vec<Remedy>,
    /// Causes that these probes cannot rule out, each with what would be needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_excluded: Vec<NotExcluded>,
    /// All targets that the verdict explains.
    pub targets: Vec<TargetId>,
}

/// The probability from which a cause is taken for that of an earlier fault of the same region.
const LIKELY_CAUSE: f64 = 0.1;

impl Verdict {
    /// Returns the id of the likeliest cause.
    pub(crate) fn cause(&self) -> Option<&str> {
        self.causes.first().map(|cause| cause.id.as_str())
    }

    /// Reports whether two verdicts may have the same cause: the likeliest of each is likely in the other, or neither lists
    /// any. A cause that is only possible is listed by most verdicts of a region.
    pub(crate) fn shares_cause(&self, other: &Self) -> bool {
        match (self.causes.first(), other.causes.first()) {
            (Some(own), Some(others)) => self.is_likely(&others.id) && other.is_likely(&own.id),
            (None, None) => true,
            _ => false,
        }
    }

    fn is_likely(&self, id: &str) -> bool {
        let mut causes = self.causes.iter();
        causes.any(|cause| cause.id == id && cause.probability.get() >= LIKELY_CAUSE)
    }
}

/// A verdict over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// Derived from subject, region and opening round, so that replicas and replays agree on it.
    pub id: String,
    /// The state.
    #[serde(flatten)]
    pub state: IncidentState,
    /// First failing round of the evidence.
    pub since: EventTime,
    /// When the verdict was named.
    pub opened: EventTime,
    /// How often the same cause recurred while the incident was kept.
    pub occurrences: u32,
    /// Share of the time in which probes fail, from the first to the last failure, if the cause recurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duty_cycle: Option<Probability>,
    /// Why it ended, if its subject is gone; absent if probes succeed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "departed")]
    pub departure_reason: Option<String>,
    /// What follows from its cause beside failures of targets, while it is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
    /// The latest verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What follows from the cause of an incident without being a failure of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Consequence {
    /// A vantage does not report: its way to the aggregator crosses what fails.
    SilentVantage {
        /// The vantage.
        vantage: Vantage,
    },
    /// A hazard exists because of the cause, or says the same.
    Hazard {
        /// Id of the hazard.
        id: String,
        /// The hazard in one sentence.
        sentence: String,
    },
}

impl fmt::Display for Consequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SilentVantage { vantage } => {
                write!(
                    f,
                    "{vantage} does not report: its way to the aggregator crosses what fails"
                )
            }
            Self::Hazard { sentence, .. } => f.write_str(sentence),
        }
    }
}

/// State of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum IncidentState {
    /// Probes fail.
    Open,
    /// Probes succeed again, but not yet often enough to close the incident.
    Recovering,
    /// The incident is over.
    Closed {
        /// When it was closed.
        closed: EventTime,
    },
}
