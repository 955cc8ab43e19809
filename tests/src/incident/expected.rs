//! What must be seen: by Parallax, and by an ordinary client.

use std::net::SocketAddr;

use parallax_model::{HostName, NodeName, ServiceKey};
use serde::{Deserialize, Serialize};

/// What must be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedOutcome {
    /// What Parallax must say.
    pub outcome: Outcome,
    /// Findings that must be shown besides; any other is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ExpectedNotice>,
    /// Hazards that must be shown besides; others may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hazards: Vec<ExpectedNotice>,
    /// Alerts that rightly fire though the outcome is quiet; any other would be a false alarm. Looked at where a Prometheus is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<String>,
    /// What an ordinary client must see.
    pub packets: ExpectedPackets,
}

/// What Parallax must say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Outcome {
    /// This verdict, and only after the last fault.
    Verdict(Box<ExpectedVerdict>),
    /// No verdict; the findings and hazards listed beside it.
    Shown {
        /// Latest time, in seconds from the last fault, or from when all was seen to be well.
        #[serde(rename = "withinSeconds")]
        within_seconds: u64,
        /// Regions that may be named besides: what is shown may also break something.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        besides: Vec<String>,
    },
    /// Nothing at all, during the faults and for a while after the last.
    Quiet {
        /// Seconds of probing without any verdict.
        seconds: u64,
    },
}

/// A finding or a hazard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedNotice {
    /// Its kind.
    pub kind: String,
    /// What its sentence, evidence or remedies must contain.
    #[serde(default)]
    pub says: Vec<String>,
    /// It may be shown, and need not be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// The verdict that must be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedVerdict {
    /// The region's label.
    pub region: String,
    /// Regions that may stand in its place: they cover the same probes as long as nothing else is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_region: Vec<String>,
    /// Members of the region (a pod, a node, client and node), exactly these.
    #[serde(default)]
    pub on: Vec<String>,
    /// The cause's id, which must be the most probable one.
    pub cause: String,
    /// Causes that may stand in its place: the same packets under another provider's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_cause: Vec<String>,
    /// The front it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<SocketAddr>,
    /// The Service whose front it is about, whichever of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceKey>,
    /// What it is about, where that is no front: a target, a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// How many of the incident's host names the verdict must cover. One finding, whatever the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<usize>,
    /// Targets that the verdict must cover besides, as the product names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub covers: Vec<String>,
    /// What the sentence must contain.
    #[serde(default)]
    pub sentence: Vec<String>,
    /// Regions that must not be named at any time.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Regions that the evidence cannot separate from it, exactly these; nothing is demanded where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<Vec<String>>,
    /// What the evidence table must show.
    #[serde(default)]
    pub evidence: Vec<ExpectedEvidence>,
    /// What must be said of who answers for the address: each text is part of one line.
    #[serde(default)]
    pub locality: Vec<String>,
    /// What must be said of ways out and their price: each text is part of one of them.
    #[serde(default)]
    pub remedies: Vec<String>,
    /// Latest time, in seconds from the last fault.
    pub within_seconds: u64,
}

/// Lines of the evidence table: at least one begins with these words, and all that do show the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedEvidence {
    /// How the line begins.
    pub who: String,
    /// Or so: which of several fronts speaks for a fault is not foretold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_who: Vec<String>,
    /// How its probes ended.
    pub fails: ProbeShare,
}

impl ExpectedEvidence {
    /// Whether it is about this line of the table.
    #[must_use]
    pub fn begins(&self, line: &str) -> bool {
        std::iter::once(&self.who)
            .chain(&self.or_who)
            .any(|words| line.starts_with(words.as_str()))
    }
}

/// A share of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProbeShare {
    /// All of at least two but one in twenty: the round in which the fault came had begun before it.
    Always,
    /// More than one in twenty, and that many do not.
    Sometimes,
    /// At most one in twenty. A connection to an endpoint from a source port that another one through the balancer used
    /// within the last two minutes, to the same endpoint, meets what connection tracking remembers of that one, and
    /// times out: with fifty hosts on one front that is about one direct probe in a hundred.
    Rarely,
    /// None of at least two.
    Never,
}

/// What an ordinary client must see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedPackets {
    /// Before the first fault.
    pub healthy: Vec<PacketLine>,
    /// After the last one.
    #[serde(default)]
    pub faulty: Vec<PacketLine>,
}

/// One line of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PacketLine {
    /// The nodes the client sits on, or the names of clients outside.
    pub from: Vec<NodeName>,
    /// How it approaches the Service.
    pub to: ServiceApproach,
    /// The Service.
    pub service: ServiceKey,
    /// The host it asks for; the first one of the Service where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostName>,
    /// The only port of the Service it asks; every port that speaks in the clear where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The address family it takes.
    #[serde(default, skip_serializing_if = "ClientFamily::is_v4")]
    pub family: ClientFamily,
    /// What it sees, on every port of the Service that speaks in the clear (and at every endpoint, for `direct`).
    pub sees: ClientSight,
}

/// The family a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientFamily {
    /// IPv4.
    #[default]
    V4,
    /// IPv6, in a cluster of both.
    V6,
}

impl ClientFamily {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_v4(&self) -> bool {
        *self == Self::V4
    }
}

/// How a client approaches a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceApproach {
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
pub enum ClientSight {
    /// A 200 from a pod of the Service.
    Answered,
    /// The connection is refused.
    Refused,
    /// Nothing comes back.
    TimedOut,
    /// Refused, or not even told so: a node says no more than one refusal a second aloud (`net.ipv4.icmp_ratelimit`), and
    /// probes of many hosts on one front use that up.
    NotConnected,
    /// An echo reply whose TTL no router has touched: the client's own node answered.
    OwnNode,
    /// Of several connections some are answered and some are not.
    Mixed,
    /// The connection ends without an answer, or with a 400 that is none.
    CutOff,
    /// A 404.
    NotFound,
    /// A 503.
    Unavailable,
    /// A 504: who answers waits in vain for somebody behind it.
    #[serde(rename = "gateway-timeout")]
    GatewayTimeout,
}
