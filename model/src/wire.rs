//! Framing of reports and recordings.

use serde::{Deserialize, Serialize};

use crate::{EventTime, HostFacts, Incarnation, Observation, Vantage};

/// Version of the wire format. N and N−1 understand each other both ways.
pub const WIRE_VERSION: u32 = 1;

/// First line of a `POST /v1/observations`; observations follow, one a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportHeader {
    /// [`WIRE_VERSION`] of the sender.
    pub v: u32,
    /// Life of the sending process.
    pub incarnation: Incarnation,
    /// Where it probes from.
    pub vantage: Vantage,
    /// The sender's monotonic clock when it sent; ingest estimates the offset to its own clock from it.
    #[serde(rename = "sent_us")]
    pub sent: EventTime,
    /// Every probe that started before this (sender's monotonic clock) is in this report or in an earlier one, or was
    /// given up. A round closes as soon as every speaking vantage is past its end, so a report is sent at least once a
    /// second, empty if need be. Absent from older senders: their rounds close by time alone.
    #[serde(default, rename = "complete_us", skip_serializing_if = "Option::is_none")]
    pub complete: Option<EventTime>,
    /// Observations given up since the incarnation began, because the spool was full.
    #[serde(default)]
    pub dropped: u64,
    /// The number of assignments in the plan it works from; lets the aggregator see a prober without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignments: Option<u64>,
    /// The start (sender's monotonic clock) of the oldest observation that the sender keeps and could send again. Absent
    /// from older senders, which keep none.
    #[serde(default, rename = "kept_us", skip_serializing_if = "Option::is_none")]
    pub kept: Option<EventTime>,
    /// The receiver's life for which the sender has queued what it keeps, as a [`Resend`] asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resent: Option<Incarnation>,
    /// The observations of this report were delivered to a former life of the receiver, or to another one in its place.
    #[serde(default, skip_serializing_if = "is_false")]
    pub again: bool,
    /// What the sender sees of its node, when that changed and now and then. Older senders know nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Box<HostFacts>>,
}

/// In the answer to a report: the receiver has just started, and asks for what was reported before. Older receivers do not
/// ask, and older senders do not read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resend {
    /// The receiver's own life; whoever has sent it again for that life need not do so twice.
    pub life: Incarnation,
    /// Nothing that was started before this (sender's monotonic clock) is wanted.
    #[serde(rename = "since_us")]
    pub since: EventTime,
}

/// What a sender reads of the answer to its report; the rest is for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAnswer {
    /// The receiver wants what was reported before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resend: Option<Resend>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// An observation as recorded: in event time, with the vantage that authentication gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Where the probe started.
    pub vantage: Vantage,
    /// Life of the prober.
    pub incarnation: Incarnation,
    /// The observation.
    #[serde(flatten)]
    pub observation: Observation,
}
