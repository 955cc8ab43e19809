//! The lines of the product's own record, as the recorder writes and the replay reads them.
//!
//! ```text
//! {"type":"settings", …}         first line of each segment
//! {"type":"topology_spec", …}    second line of each segment, and whenever the topology changes
//! {"type":"settings_changed", …} rounds are others from here on
//! {"type":"topology_unread", …}  the topology's source could not be read, or is read again
//! {"type":"restored", …}         the engine took up what another process left
//! {"type":"baseline_reset", …}   what a target answers while it works was forgotten
//! {"type":"observation", …}      one probe, in event time
//! {"type":"progress", …}         a vantage has reported everything up to a time
//! {"type":"advance", …}          rounds that were over at this time were closed and judged
//! {"type":"gap", …}              lines that are missing here
//! ```
//!
//! Each line is one call of the engine, in the order of the calls, so that a replay is exact.

use std::borrow::Cow;

use parallax_model::{EventTime, Micros, Recorded, TargetId, Vantage};
use serde::{Deserialize, Serialize};

use crate::{
    checkpoint::Checkpoint,
    topology::{Topology, TopologySpec},
};

/// What closes the rounds of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordClock {
    /// The times of its own lines.
    #[default]
    Lines,
    /// Its `advance` lines, and nothing else.
    Advance,
}

/// First line of a recording, and of each of its segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSettings {
    /// Length of a round; not zero.
    #[serde(rename = "interval_us")]
    pub interval: Micros,
    /// Longest timeout of any probe.
    #[serde(rename = "timeout_us")]
    pub timeout: Micros,
    /// What closes its rounds.
    #[serde(default)]
    pub clock: RecordClock,
    /// The version of the program that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What its segments have in common. A recording without a name is a segment of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Number of the segment, from 0.
    #[serde(default)]
    pub segment: u64,
    /// Names and addresses are pseudonyms.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pseudonyms: bool,
}

/// Rounds are others from here on, in the midst of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSettingsChanged {
    /// Since when.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// Length of a round; not zero.
    #[serde(rename = "interval_us")]
    pub interval: Micros,
    /// Longest timeout of any probe.
    #[serde(rename = "timeout_us")]
    pub timeout: Micros,
}

/// The topology that holds from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordTopology<'a> {
    /// Since when.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// As written; absent where the topology of before was put in again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Cow<'a, TopologySpec>>,
    /// Vantages that no node holds.
    #[serde(default, skip_serializing_if = "<[Vantage]>::is_empty")]
    pub vantages: Cow<'a, [Vantage]>,
    /// Said for readers that begin with this segment; nothing changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl<'a> RecordTopology<'a> {
    /// The line for a topology.
    #[must_use]
    pub fn of(topology: &'a Topology, at: EventTime) -> Self {
        Self {
            at,
            spec: Some(Cow::Borrowed(topology.spec())),
            vantages: Cow::Borrowed(topology.extra_vantages()),
            again: false,
        }
    }

    /// The topology, unless it is the one of before. The error lists every complaint.
    pub(super) fn build(self) -> Result<Option<Topology>, String> {
        let Some(spec) = self.spec else { return Ok(None) };
        let topology = Topology::try_from(spec.into_owned()).map_err(|problems| {
            problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        })?;
        let vantages = self.vantages.iter().cloned();
        Ok(Some(vantages.fold(topology, Topology::with_vantage)))
    }
}

/// Whether the topology's source can be read, from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordTopologyUnread {
    /// Since when this holds.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// When the source was last known to be good; absent where it is good again.
    #[serde(rename = "since_us", default, skip_serializing_if = "Option::is_none")]
    pub since: Option<EventTime>,
}

/// The engine took up what another process left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordRestored<'a> {
    /// When.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// What it took up.
    pub checkpoint: Cow<'a, Checkpoint>,
}

/// What a target answers while it works was forgotten, by [`Engine::reset_baseline`](crate::Engine::reset_baseline).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordBaselineReset {
    /// When.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// The target.
    pub target: TargetId,
}

/// A vantage has reported everything that it started before a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordProgress {
    /// The vantage.
    pub vantage: Vantage,
    /// The time.
    #[serde(rename = "t_us")]
    pub complete: EventTime,
}

/// A line for the recorder to write.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RecordLine<'a> {
    /// First line of a segment.
    Settings(&'a RecordSettings),
    /// Other rounds.
    SettingsChanged(RecordSettingsChanged),
    /// A topology.
    TopologySpec(RecordTopology<'a>),
    /// Whether the topology's source can be read.
    TopologyUnread(RecordTopologyUnread),
    /// What the engine started with.
    Restored(RecordRestored<'a>),
    /// A baseline was reset.
    BaselineReset(&'a RecordBaselineReset),
    /// An observation.
    Observation(&'a Recorded),
    /// The progress of a vantage.
    Progress(&'a RecordProgress),
    /// Rounds were closed.
    Advance {
        /// Those that were over at this time.
        #[serde(rename = "t_us")]
        at: EventTime,
    },
    /// Something is missing.
    Gap {
        /// So many lines.
        lines: u64,
    },
}

/// Fields of an `advance` line.
#[derive(Debug, Deserialize)]
pub(super) struct AdvanceLine {
    #[serde(rename = "t_us")]
    pub(super) at: EventTime,
}

/// Fields of a `gap` line.
#[derive(Debug, Deserialize)]
pub(super) struct GapLine {
    pub(super) lines: u64,
}
