//! Asking: which probe to make next, because its answer tells most.
//!
//! ```text
//! judgement ─▶ question (what is still open) ─▶ candidates ─▶ gain in bits ─▶ choice within the budget ─▶ Ask
//! Ask ─▶ plan (an assignment of its own) ─▶ prober ─▶ observation ─▶ the next judgement
//! ```
//!
//! Base probes stay cheap: they are the same few every round. What discriminates (another client, another endpoint,
//! the reverse direction, a PROXY header, a large answer, the node's own port, DNS over TCP) runs only while it is
//! asked for, and all of it together stays within a tenth of the base probes.

mod budget;
mod candidates;
mod choice;
mod decision;
mod follow_ups;
mod gain;
mod outstanding;
mod rules;

use std::fmt;

use parallax_model::{AssignmentId, Channel, EventTime, Front, NodeName, PodName, TargetId, Vantage};
use serde::{Deserialize, Serialize};

use crate::verdict::{RegionRef, Subject};

pub(crate) use candidates::{ProbeCapabilities, candidates, why_not};
pub(crate) use choice::{ProbeRequests, WantedProbe, choose};
pub(crate) use decision::decided_by;
pub(crate) use follow_ups::follow_ups;
pub(crate) use gain::ExplanationWeights;
pub(crate) use outstanding::{ASIDE, OutstandingRequests, ProbeRoute, is_aside};
pub(crate) use rules::by_kinds;

/// One probe that is asked for, until it is answered or given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// Id of the assignment that answers it; unique within the vantage.
    pub id: AssignmentId,
    /// Whose failure is in question.
    pub subject: Subject,
    /// Who is to probe.
    pub vantage: Vantage,
    /// How.
    pub channel: Channel,
    /// What is asked for (a host's URL, `echo://NODE`, `dns://NAME`).
    pub target: TargetId,
    /// Where to.
    pub to: RequestDestination,
    /// What is otherwise than in an ordinary probe.
    #[serde(default, skip_serializing_if = "ProbeVariant::is_plain")]
    pub variant: ProbeVariant,
    /// The two likeliest explanations that its answer tells apart.
    pub separates: Vec<RegionRef>,
    /// Why, in words.
    pub reason: String,
    /// Expected information of the answer in bits, rounded to four digits; 0 where a rule asks and not the posterior.
    pub bits: f64,
    /// When it was asked for.
    pub since: EventTime,
}

/// Where an asked probe goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestDestination {
    /// Through a front, with its address forced: no name has to be resolved.
    Front(Front),
    /// To one endpoint.
    Entry(PodName),
    /// To the echo of the prober on a node.
    Peer(NodeName),
    /// To the resolver, for this name.
    Name(String),
    /// To the nodePort of the vantage's own node.
    NodePort(Front),
}

/// What is otherwise than in an ordinary probe of the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVariant {
    /// Nothing. The answer is evidence like any other.
    #[default]
    Plain,
    /// An echo of this many bytes. The answer stands beside the evidence: small echoes of the same path pass.
    Size(u32),
    /// The question travels over TCP. The answer stands beside the evidence.
    DnsOverTcp,
}

impl ProbeVariant {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
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
    /// The probe and what it is good for: "direct from n3/pod to web-1, would separate vip from target".
    #[must_use]
    pub fn purpose(&self) -> String {
        match self.separates.as_slice() {
            [] => format!("{self}: {}", self.reason),
            [one] => format!("{self}, would confirm {one} or rule it out"),
            [one, rest @ ..] => {
                let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
                format!("{self}, would separate {one} from {}", rest.join(" and "))
            }
        }
    }
}

impl fmt::Display for ProbeRequest {
    /// As it is said in a sentence: "direct from n3/pod to web-1".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} to {}", self.channel, self.vantage, self.to)?;
        match self.variant {
            ProbeVariant::Plain => Ok(()),
            ProbeVariant::Size(bytes) => write!(f, " with {bytes} bytes"),
            ProbeVariant::DnsOverTcp => f.write_str(" over TCP"),
        }
    }
}
