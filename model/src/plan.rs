//! The plan that the aggregator sends to each prober.
//!
//! `GET /v1/plan` is one NDJSON response: a snapshot line, then changes and heartbeats. After a broken stream
//! the prober requests a new snapshot; there is no log to replay.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{AssignmentId, Channel, FactQuestions, Micros, NodeName, PodName, ProbeSpec, RunId, TargetId};

/// Revision of a plan: the epoch increases with each new planner, the number within the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PlanRevision {
    /// Epoch of the planner (in a cluster, the Lease's transitions).
    pub epoch: u64,
    /// Number within the epoch.
    #[serde(rename = "n")]
    pub number: u64,
}

impl AssignmentId {
    /// Prefix of the ids of probes that the diagnosis requests in addition to the base plan. The prober makes
    /// them immediately instead of at a scheduled offset in the interval, and they end once they are
    /// answered.
    pub const REQUESTED_PREFIX: &'static str = "ask|";

    /// Whether the diagnosis requested the probe.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.as_str().starts_with(Self::REQUESTED_PREFIX)
    }

    /// Prefix of the ids of the probes of a run: `run|RUN|…`. Their observations belong to the run only.
    pub const RUN_PREFIX: &'static str = "run|";

    /// The run that the probe belongs to, if any.
    #[must_use]
    pub fn run_id(&self) -> Option<&str> {
        let rest = self.as_str().strip_prefix(Self::RUN_PREFIX)?;
        rest.split_once('|').map(|(run, _)| run)
    }
}

/// The address that a probe connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialAddress {
    /// The address that the probe's name resolves to on this machine.
    Resolve,
    /// This address; Host and SNI stay those of the target.
    Address(SocketAddr),
}

/// An endpoint known by construction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryRef {
    /// The Pod.
    pub pod: PodName,
    /// Its node, if it is a Pod of this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
}

/// One probe of one node's plan, repeated every interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Stable identifier: a probe keeps it across revisions so that its schedule does not jump.
    pub id: AssignmentId,
    /// The target that is probed.
    pub target: TargetId,
    /// The channel.
    pub channel: Channel,
    /// What the probe does.
    pub probe: ProbeSpec,
    /// The address to connect to.
    pub dial: DialAddress,
    /// The endpoint that is dialled (`direct`).
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

/// Settings of the whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSettings {
    /// The nonce that this prober's own echo responds to.
    pub echo_nonce: String,
    /// Maximum time between two lines of the stream. A reader that receives nothing for three times as long
    /// reconnects.
    #[serde(rename = "heartbeat_us")]
    pub heartbeat: Micros,
}

/// Probes that start immediately and are repeated a fixed number of times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrder {
    /// The run. A prober ignores an order whose id it already knows.
    pub id: RunId,
    /// Number of repetitions of each probe; each starts `interval` after the previous start.
    pub rounds: u32,
    /// The probes; their ids begin with [`AssignmentId::RUN_PREFIX`] and the id of the run.
    pub assignments: Vec<Assignment>,
}

/// One line of the plan stream. Readers skip lines of an unknown type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "lines are written and read one at a time, never stored"
)]
pub enum PlanLine {
    /// The whole plan; replaces any earlier state.
    Snapshot {
        /// The revision.
        revision: PlanRevision,
        /// Settings of the whole plan.
        settings: PlanSettings,
        /// All assignments.
        assignments: Vec<Assignment>,
    },
    /// A new or changed assignment.
    Upsert {
        /// The revision after the change.
        revision: PlanRevision,
        /// The assignment.
        assignment: Assignment,
    },
    /// Removes an assignment.
    Remove {
        /// The revision after the change.
        revision: PlanRevision,
        /// The assignment to remove.
        id: AssignmentId,
    },
    /// Keeps the stream alive.
    Heartbeat {
        /// The current revision.
        revision: PlanRevision,
    },
    /// Facts to read from the prober's own node; replaces the previous request. Older probers ignore it.
    Facts {
        /// The requested facts.
        #[serde(rename = "questions")]
        request: FactQuestions,
    },
    /// Probes to start immediately. Older probers ignore it.
    Run {
        /// The order.
        order: RunOrder,
    },
    /// A line from a newer aggregator.
    #[serde(other)]
    Unknown,
}
