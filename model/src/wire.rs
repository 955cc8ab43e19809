//! Framing of reports and recordings.

use serde::{Deserialize, Serialize};

use crate::{EventTime, HostFacts, Incarnation, Observation, Vantage};

/// Version of the wire format. Versions N and N−1 understand each other in both directions.
pub const WIRE_VERSION: u32 = 1;

/// First line of a `POST /v1/observations`; the observations follow, one per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportHeader {
    /// [`WIRE_VERSION`] of the sender.
    pub v: u32,
    /// Incarnation of the sending process.
    pub incarnation: Incarnation,
    /// The vantage that the sender probes from.
    pub vantage: Vantage,
    /// The sender's monotonic clock at the time of sending; ingest uses it to estimate the offset to its own
    /// clock.
    #[serde(rename = "sent_us")]
    pub sent_at: EventTime,
    /// Every probe that started before this time (sender's monotonic clock) is in this report or an earlier
    /// one, or was dropped. A round closes as soon as every reporting vantage is past its end, so a prober
    /// sends a report, possibly empty, at least once a second. Absent from older senders: their rounds close
    /// by time alone.
    #[serde(default, rename = "complete_us", skip_serializing_if = "Option::is_none")]
    pub complete_until: Option<EventTime>,
    /// Observations dropped since the incarnation began because the spool was full.
    #[serde(default)]
    pub dropped: u64,
    /// Number of assignments in the sender's plan; shows the aggregator a prober without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignments: Option<u64>,
    /// Start (sender's monotonic clock) of the oldest observation that the sender still holds and can resend.
    /// Absent from older senders, which hold none.
    #[serde(default, rename = "kept_us", skip_serializing_if = "Option::is_none")]
    pub oldest_held: Option<EventTime>,
    /// The receiver's incarnation for which the sender has queued its held observations, as a [`Resend`]
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "resent")]
    pub resent_for: Option<Incarnation>,
    /// The observations of this report were already delivered to a former incarnation of the receiver or to
    /// another receiver.
    #[serde(default, skip_serializing_if = "is_false")]
    #[serde(rename = "again")]
    pub is_resend: bool,
    /// The sender's view of its node, sent after a change and periodically. Absent from older senders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Box<HostFacts>>,
}

/// Part of the response to a report: a receiver that has just started requests what was reported before.
/// Older receivers do not send it, and older senders ignore it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resend {
    /// The receiver's own incarnation. A sender resends only once per incarnation.
    #[serde(rename = "life")]
    pub incarnation: Incarnation,
    /// Observations that started before this time (sender's monotonic clock) are not needed.
    #[serde(rename = "since_us")]
    pub since: EventTime,
}

/// The fields of a report's response that a sender reads; the others are for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAnswer {
    /// Set if the receiver requests what was reported before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resend: Option<Resend>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// An observation as recorded: in event time, with the authenticated vantage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Where the probe started.
    pub vantage: Vantage,
    /// Incarnation of the prober.
    pub incarnation: Incarnation,
    /// The observation.
    #[serde(flatten)]
    pub observation: Observation,
}
