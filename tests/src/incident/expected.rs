//! Expectations: Parallax's result, and that of an ordinary client.

use std::net::SocketAddr;

use parallax_model::{HostName, NodeName, ServiceKey};
use serde::{Deserialize, Serialize};

/// The expected result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedOutcome {
    /// Expected outcome of Parallax.
    pub outcome: Outcome,
    /// Additional findings that must be shown; any other is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ExpectedNotice>,
    /// Additional hazards that must be shown; others may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hazards: Vec<ExpectedNotice>,
    /// Alerts that may fire although the outcome is quiet; any other is a false alarm. Checked only with a Prometheus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<String>,
    /// Expected results of an ordinary client.
    pub packets: ExpectedPackets,
}

/// Expected outcome of Parallax.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Outcome {
    /// This verdict, and only after the last fault.
    Verdict(Box<ExpectedVerdict>),
    /// No verdict; only the listed findings and hazards.
    Shown {
        /// Deadline in seconds from the last fault, or from the time when everything was ok.
        #[serde(rename = "withinSeconds")]
        within_seconds: u64,
        /// Regions that may also be named, because the deviation may also break something.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        besides: Vec<String>,
    },
    /// No verdict during the faults and for a while after the last one.
    Quiet {
        /// Duration of probing without any verdict, in seconds.
        seconds: u64,
    },
}

/// A finding or a hazard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedNotice {
    /// Its kind.
    pub kind: String,
    /// Texts that its sentence, evidence or remedies must contain.
    #[serde(default)]
    pub says: Vec<String>,
    /// Whether it may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// The verdict that must be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedVerdict {
    /// The region's label.
    pub region: String,
    /// Alternative regions: they cover the same probes unless further probes are requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_region: Vec<String>,
    /// Members of the region (a Pod, a node, client and node), exactly these.
    #[serde(default)]
    pub on: Vec<String>,
    /// Id of the most probable cause.
    pub cause: String,
    /// Alternative causes: the same packets under another provider's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_cause: Vec<String>,
    /// The front that is the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<SocketAddr>,
    /// The Service one of whose fronts is the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceKey>,
    /// The subject, if it is not a front: a target, a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Number of the incident's host names that the verdict must cover; one incident whatever the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<usize>,
    /// Further targets that the verdict must cover, as the product names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub covers: Vec<String>,
    /// Texts that the sentence must contain.
    #[serde(default)]
    pub sentence: Vec<String>,
    /// Regions that must never be named.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Vantages whose silence it must show as a consequence, as the product names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silences: Vec<String>,
    /// Regions tied with it, exactly these; not checked if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<Vec<String>>,
    /// Required contents of the evidence table.
    #[serde(default)]
    pub evidence: Vec<ExpectedEvidence>,
    /// Texts about which machine answers for the address; each must be part of one line.
    #[serde(default)]
    pub locality: Vec<String>,
    /// Texts about remedies and their trade-offs; each must be part of one of them.
    #[serde(default)]
    pub remedies: Vec<String>,
    /// Deadline in seconds from the last fault.
    pub within_seconds: u64,
}

/// Rows of the evidence table: at least one starts with these words, and all that do must agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedEvidence {
    /// Prefix of the row.
    pub who: String,
    /// Alternative prefixes: which of several fronts represents a fault is not predictable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_who: Vec<String>,
    /// The expected failure share.
    pub fails: ProbeShare,
}

impl ExpectedEvidence {
    /// Reports whether the expectation applies to this row.
    #[must_use]
    pub fn matches_row(&self, line: &str) -> bool {
        std::iter::once(&self.who)
            .chain(&self.or_who)
            .any(|words| line.starts_with(words.as_str()))
    }
}

/// A share of failed probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProbeShare {
    /// All of at least two, except one in twenty: the round of the fault had begun before it.
    Always,
    /// More than one in twenty fail, and more than one in twenty succeed.
    Sometimes,
    /// At most one in twenty. A connection to an endpoint from a source port that another connection through the
    /// balancer to the same endpoint used within the last two minutes meets its connection tracking entry and times
    /// out: with fifty hosts on one front, about one direct probe in a hundred.
    Rarely,
    /// None of at least two.
    Never,
}

/// Expected results of an ordinary client.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedPackets {
    /// Before the first fault.
    pub healthy: Vec<PacketLine>,
    /// After the last fault.
    #[serde(default)]
    pub faulty: Vec<PacketLine>,
}

/// One expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PacketLine {
    /// Nodes of the client, or names of clients outside.
    pub from: Vec<NodeName>,
    /// Destination address.
    pub to: ServiceApproach,
    /// The Service.
    pub service: ServiceKey,
    /// Requested host [default: the first one of the Service].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostName>,
    /// Requested port [default: every port without TLS].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Address family.
    #[serde(default, skip_serializing_if = "ClientFamily::is_v4")]
    pub family: ClientFamily,
    /// Expected result, on every port of the Service without TLS (and at every endpoint for `direct`).
    pub sees: ClientSight,
}

/// Address family of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientFamily {
    /// IPv4.
    #[default]
    V4,
    /// IPv6, in a dual-stack cluster.
    V6,
}

impl ClientFamily {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_v4(&self) -> bool {
        *self == Self::V4
    }
}

/// How a client connects to a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceApproach {
    /// HTTP to the balancer's address.
    Vip,
    /// HTTP to the `ClusterIP`.
    #[serde(rename = "clusterIP")]
    ClusterIp,
    /// HTTP to the own address of every present endpoint.
    Direct,
    /// ICMP echo to the balancer's address.
    Ping,
}

/// Result of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientSight {
    /// A 200 from a pod of the Service.
    Answered,
    /// The connection is refused.
    Refused,
    /// No response.
    TimedOut,
    /// Refused, or not even that: a node sends at most one refusal per second (`net.ipv4.icmp_ratelimit`), and probes
    /// of many hosts on one front exhaust that.
    NotConnected,
    /// An echo reply whose TTL no router has decremented: the client's own node replied.
    OwnNode,
    /// Of several connections, some succeed and some fail.
    Mixed,
    /// The connection ends without a response, or with a 400 that is not the application's.
    CutOff,
    /// A 404.
    NotFound,
    /// A 503.
    Unavailable,
    /// A 504: the server times out waiting for its backend.
    #[serde(rename = "gateway-timeout")]
    GatewayTimeout,
}
