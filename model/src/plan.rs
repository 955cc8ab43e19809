//! What the aggregator tells each prober to do.
//!
//! `GET /v1/plan` is one NDJSON response: a snapshot line, then changes and heartbeats. A broken stream means a new
//! snapshot; there is no log and no gap to mend.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{AssignmentId, Channel, FactQuestions, Micros, NodeName, PodName, ProbeSpec, RunId, TargetId};

/// Which plan this is: the epoch grows with each new planner, the number within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PlanRevision {
    /// Epoch of the planner (the Lease's transitions in a cluster).
    pub epoch: u64,
    /// Number within the epoch.
    pub n: u64,
}

impl AssignmentId {
    /// How ids begin of probes that are asked for to settle a question, beyond the base plan. They are made at once
    /// when they arrive, not at a place of their own in the interval, and end when they are answered.
    pub const ASKED: &'static str = "ask|";

    /// Whether the probe was asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.as_str().starts_with(Self::ASKED)
    }

    /// How ids begin of the probes of a run: `run|RUN|…`. What they see belongs to the run alone.
    pub const RUN: &'static str = "run|";

    /// The run that the probe belongs to, if it does to one.
    #[must_use]
    pub fn run(&self) -> Option<&str> {
        let rest = self.as_str().strip_prefix(Self::RUN)?;
        rest.split_once('|').map(|(run, _)| run)
    }
}

/// Where the connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialAddress {
    /// To what the probe's name resolves to on this machine.
    Resolve,
    /// To this address, with Host and SNI kept.
    Address(SocketAddr),
}

/// An endpoint known by construction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryRef {
    /// The pod.
    pub pod: PodName,
    /// Its node, where it is a pod of this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
}

/// One probe of one node's plan, repeated each interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Stable name: the same probe keeps it across revisions, so that its schedule does not jump.
    pub id: AssignmentId,
    /// What it is for.
    pub target: TargetId,
    /// How the target is approached.
    pub channel: Channel,
    /// What to do.
    pub probe: ProbeSpec,
    /// Where to connect to.
    pub dial: DialAddress,
    /// The endpoint dialled (`direct`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryRef>,
    /// The peer's node (`mesh`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<NodeName>,
    /// Time between two starts.
    #[serde(rename = "interval_us")]
    pub interval: Micros,
    /// Deadline of the whole probe.
    #[serde(rename = "timeout_us")]
    pub timeout: Micros,
}

/// What holds for the whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSettings {
    /// The nonce this prober's own echo answers to.
    pub echo_nonce: String,
    /// Longest time between two lines of the stream; a reader that waits three times as long starts over.
    #[serde(rename = "heartbeat_us")]
    pub heartbeat: Micros,
}

/// Probes that are made at once, a few times, and then never again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrder {
    /// Which run. A prober that hears of the same one again does nothing.
    pub id: RunId,
    /// How often each is made, `interval` after the last start.
    pub rounds: u32,
    /// The probes, by ids that begin with [`AssignmentId::RUN`] and the run's own.
    pub assignments: Vec<Assignment>,
}

/// One line of the plan stream. Lines of unknown type are skipped by a reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "lines are written and read one at a time, never kept"
)]
pub enum PlanLine {
    /// The whole plan; replaces whatever was known.
    Snapshot {
        /// The revision.
        revision: PlanRevision,
        /// What holds for all assignments.
        settings: PlanSettings,
        /// All assignments.
        assignments: Vec<Assignment>,
    },
    /// A new or changed assignment.
    Upsert {
        /// The revision after it.
        revision: PlanRevision,
        /// The assignment.
        assignment: Assignment,
    },
    /// An assignment is over.
    Remove {
        /// The revision after it.
        revision: PlanRevision,
        /// Which.
        id: AssignmentId,
    },
    /// The stream lives.
    Heartbeat {
        /// The current revision.
        revision: PlanRevision,
    },
    /// What is to be asked of the prober's own node; replaces what was. Older probers pass over it.
    Facts {
        /// The questions.
        questions: FactQuestions,
    },
    /// Probes to be made at once. Older probers pass over it.
    Run {
        /// What to do.
        order: RunOrder,
    },
    /// A line of a newer aggregator.
    #[serde(other)]
    Unknown,
}
