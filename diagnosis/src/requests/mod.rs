//! Follow-up probes: while a cause is undecided, requests the probes with the highest expected information gain.
//!
//! ```text
//! judgement ─▶ undecided explanations ─▶ candidates ─▶ gain in bits ─▶ choice within the budget ─▶ ProbeRequest
//! ProbeRequest ─▶ plan (an additional assignment) ─▶ prober ─▶ observation ─▶ the next judgement
//! ```
//!
//! The base plan stays cheap: the same few probes every round. Probes that discriminate (another client, another
//! endpoint, the reverse direction, a PROXY header, a large response, the node port, DNS over TCP) run only while
//! they are requested, and together stay within a tenth of the base plan.

mod budget;
mod candidates;
mod choice;
mod deciding_result;
mod follow_ups;
mod information_gain;
mod kind_rules;
mod outstanding_requests;

use std::fmt;

use parallax_model::{AssignmentId, Channel, EventTime, Front, NodeName, PodName, TargetId, Vantage};
use serde::{Deserialize, Serialize};

use crate::{
    regions::RegionKind,
    verdict::{RegionRef, Subject},
};

pub(crate) use candidates::{ProbeCapabilities, candidates, why_inseparable};
pub(crate) use choice::{ProbeRequests, WantedProbe, choose};
pub(crate) use deciding_result::deciding_result;
pub(crate) use follow_ups::pair_probes;
pub(crate) use information_gain::ExplanationWeights;
pub(crate) use kind_rules::suggested_by_kinds;
pub(crate) use outstanding_requests::{OutstandingRequests, ProbeRoute, SEPARATE_MARKER, is_separate};

/// A requested probe, valid until it is answered or expires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// Id of the assignment; unique within the vantage.
    pub id: AssignmentId,
    /// The subject whose failure is undecided.
    pub subject: Subject,
    /// The vantage that probes.
    pub vantage: Vantage,
    /// The channel of the probe.
    pub channel: Channel,
    /// The probed target (a host's URL, `echo://NODE`, `dns://NAME`).
    pub target: TargetId,
    /// The destination.
    #[serde(rename = "to")]
    pub destination: RequestDestination,
    /// The difference from an ordinary probe.
    #[serde(default, skip_serializing_if = "ProbeVariant::is_plain")]
    pub variant: ProbeVariant,
    /// The two most probable explanations that the result separates.
    #[serde(rename = "separates")]
    pub separated_regions: Vec<RegionRef>,
    /// The reason, for people.
    pub reason: String,
    /// Expected information gain in bits, rounded to four digits; 0 if a rule requested the probe.
    #[serde(rename = "bits")]
    pub gain_bits: f64,
    /// When the probe was requested.
    #[serde(rename = "since")]
    pub requested_at: EventTime,
}

/// Destination of a requested probe.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestDestination {
    /// A front, dialled by address without name resolution.
    Front(Front),
    /// One endpoint.
    Entry(PodName),
    /// The echo of a node's prober.
    Peer(NodeName),
    /// The resolver, for this name.
    Name(String),
    /// The node port on the vantage's own node.
    NodePort(Front),
}

/// The difference from an ordinary probe of the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVariant {
    /// None. The result is ordinary evidence.
    #[default]
    Plain,
    /// An echo of this many bytes. Its result is kept apart from the evidence, because small echoes on the same
    /// path pass.
    Size(u32),
    /// A DNS query over TCP. Its result is kept apart from the evidence.
    DnsOverTcp,
}

impl ProbeVariant {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }
}

impl fmt::Display for RequestDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Front(front) | Self::NodePort(front) => write!(f, "{front}"),
            Self::Entry(pod) => write!(f, "{pod}"),
            Self::Peer(node) => write!(f, "{node}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl ProbeRequest {
    /// Describes the probe and its purpose: "direct from n3/pod to web-1, would separate connections from node n3 from
    /// chance".
    #[must_use]
    pub fn purpose(&self) -> String {
        let healthy = RegionKind::Healthy.to_string();
        let (chance, broken): (Vec<_>, Vec<_>) = self
            .separated_regions
            .iter()
            .partition(|region| region.region == healthy);
        let mut explanations: Vec<String> = broken.into_iter().map(RegionRef::description).collect();
        explanations.extend(chance.first().map(|_| "chance".to_owned()));
        match explanations.as_slice() {
            [] => format!("{self}: {}", self.reason),
            [one] => format!("{self}, would confirm {one} or rule it out"),
            [one, rest @ ..] => format!("{self}, would separate {one} from {}", rest.join(" and ")),
        }
    }
}

impl fmt::Display for ProbeRequest {
    /// Formats the probe for a sentence: "direct from n3/pod to web-1".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} from {} to {}",
            self.channel, self.vantage, self.destination
        )?;
        match self.variant {
            ProbeVariant::Plain => Ok(()),
            ProbeVariant::Size(bytes) => write!(f, " with {bytes} bytes"),
            ProbeVariant::DnsOverTcp => f.write_str(" over TCP"),
        }
    }
}
