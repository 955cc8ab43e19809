//! Lines of Parallax's own recordings, as the recorder writes and the replay reads them.
//!
//! ```text
//! {"type":"settings", …}         first line of each segment
//! {"type":"topology_spec", …}    second line of each segment, and whenever the topology changes
//! {"type":"settings_changed", …} new round length or timeout from here on
//! {"type":"topology_unread", …}  the topology's source became unreadable or readable
//! {"type":"restored", …}         the engine restored the checkpoint of another process
//! {"type":"baseline_reset", …}   the baseline of a target was reset
//! {"type":"observation", …}      one probe, in event time
//! {"type":"implausible", …}      observations that the aggregator discarded because they start in the future
//! {"type":"progress", …}         a vantage has reported everything up to a time
//! {"type":"advance", …}          rounds that were over at this time were closed and judged
//! {"type":"gap", …}              lines are missing here
//! ```
//!
//! Each line is one call of the engine, in the order of the calls, so a replay is exact.

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
    /// The times of its lines.
    #[default]
    Lines,
    /// Its `advance` lines only.
    Advance,
}

/// First line of a recording and of each of its segments.
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
    /// Version of the program that wrote the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Version of the engine that judged the stream while it was recorded, see [`super::ENGINE_VERSION`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<u32>,
    /// Id shared by all segments. A recording without one has a single segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Number of the segment, from 0.
    #[serde(default)]
    pub segment: u64,
    /// Whether names and addresses are pseudonyms.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pseudonyms: bool,
}

/// New settings in the middle of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSettingsChanged {
    /// Time of the change.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// Length of a round; not zero.
    #[serde(rename = "interval_us")]
    pub interval: Micros,
    /// Longest timeout of any probe.
    #[serde(rename = "timeout_us")]
    pub timeout: Micros,
}

/// The topology from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordTopology<'a> {
    /// Time of the change.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// The topology; absent if the previous topology was applied again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Cow<'a, TopologySpec>>,
    /// Vantages that belong to no node.
    #[serde(default, skip_serializing_if = "<[Vantage]>::is_empty")]
    pub vantages: Cow<'a, [Vantage]>,
    /// Repeated for readers that start with this segment; nothing changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "again")]
    pub repeated: bool,
}

impl<'a> RecordTopology<'a> {
    /// Returns the line for a topology.
    #[must_use]
    pub fn of(topology: &'a Topology, at: EventTime) -> Self {
        Self {
            at,
            spec: Some(Cow::Borrowed(topology.spec())),
            vantages: Cow::Borrowed(topology.extra_vantages()),
            repeated: false,
        }
    }

    /// Builds the topology; `None` means the previous one. The error lists all problems.
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

/// Whether the topology's source can be read from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordTopologyUnread {
    /// Time of the change.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// When the source was last readable; absent if it is readable again.
    #[serde(rename = "since_us", default, skip_serializing_if = "Option::is_none")]
    pub since: Option<EventTime>,
}

/// The engine restored the checkpoint of another process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordRestored<'a> {
    /// Time of the restore.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// The restored checkpoint.
    pub checkpoint: Cow<'a, Checkpoint>,
}

/// The baseline of a target was reset by [`Engine::reset_baseline`](crate::Engine::reset_baseline).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordBaselineReset {
    /// Time of the reset.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// The target.
    pub target: TargetId,
}

/// Observations of a report that were discarded by
/// [`Engine::discard_implausible`](crate::Engine::discard_implausible).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordImplausible {
    /// The vantage that reported them.
    pub vantage: Vantage,
    /// When the report arrived.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// How many they are.
    pub observations: u64,
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
    /// New settings.
    SettingsChanged(RecordSettingsChanged),
    /// A topology.
    TopologySpec(RecordTopology<'a>),
    /// Whether the topology's source can be read.
    TopologyUnread(RecordTopologyUnread),
    /// The checkpoint that the engine started with.
    Restored(RecordRestored<'a>),
    /// A baseline reset.
    BaselineReset(&'a RecordBaselineReset),
    /// An observation.
    Observation(&'a Recorded),
    /// Discarded observations.
    Implausible(&'a RecordImplausible),
    /// Progress of a vantage.
    Progress(&'a RecordProgress),
    /// Closed rounds.
    Advance {
        /// Rounds that were over at this time were closed.
        #[serde(rename = "t_us")]
        at: EventTime,
    },
    /// Missing lines.
    Gap {
        /// Number of missing lines.
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
