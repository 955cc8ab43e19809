//! `--record`: every input of the engine, on disk, so that `parallax replay` reaches the same verdicts.
//!
//! ```text
//! engine task ─▶ Recorder (never blocks) ─▶ queue ─▶ RecordWriter (own thread) ─▶ [pseudonyms] ─▶ segments (gzip)
//! ```
//!
//! Each line is one call of the engine, in the order of the calls. Lines that cannot be written in time are dropped,
//! counted and marked by a `gap` line: probing and judging never wait for a disk.

mod metrics;
mod pseudonyms;
mod segments;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
};

use metrics::RecordResult;
use parallax_diagnosis::{
    Checkpoint, Settings,
    replay::{ENGINE_VERSION, RecordClock, RecordImplausible, RecordProgress, RecordSettings},
    topology::Topology,
};
use parallax_model::{EventTime, Recorded, TargetId};

pub use metrics::RecordMetrics;
pub use writer::RecordWriter;

/// Capacity of the queue, in entries; each is at most one report of a prober.
const QUEUE_CAPACITY: usize = 512;

/// Where and how to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// The folder; created if its parent exists.
    pub dir: PathBuf,
    /// Maximum total size of the recordings in the folder, in bytes; the oldest segments are deleted first.
    pub max_bytes: u64,
    /// Replace names and addresses by pseudonyms, and leave out free text.
    pub pseudonyms: bool,
}

impl RecordOptions {
    /// Default of `max_bytes`: hours of a small mesh.
    pub const DEFAULT_BYTES: u64 = 256 << 20;
    /// Minimum of `max_bytes`; less holds nothing worth reading.
    pub const MIN_BYTES: u64 = 1 << 20;
}

/// Why a recording cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The folder cannot be used.
    #[error("cannot record in {}: {source}; name a writable folder", dir.display())]
    UnusableFolder {
        /// The folder.
        dir: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Pseudonyms need a random key.
    #[error("cannot record with pseudonyms: the system supplies no random numbers")]
    NoRandomness,
}

/// An input of the engine.
#[derive(Debug)]
enum EngineInput {
    /// Only the closing of rounds.
    Advance,
    /// `replace_settings`.
    Settings,
    /// `replace_topology`.
    Topology,
    /// `topology_unread`.
    TopologyUnread,
    /// `restore`.
    Restore(Box<Checkpoint>),
    /// `reset_baseline`.
    ResetBaseline(TargetId),
    /// A report.
    Report(RecordedReport),
}

/// What the engine received from a report: `observe` for each observation, then `discard_implausible`, then
/// `record_progress`.
#[derive(Debug, Default)]
pub struct RecordedReport {
    /// The observations.
    pub observations: Vec<Recorded>,
    /// Those that were discarded.
    pub implausible: Option<RecordImplausible>,
    /// The progress of the vantage.
    pub progress: Option<RecordProgress>,
}

impl RecordedReport {
    fn line_count(&self) -> u64 {
        let single = [self.implausible.is_some(), self.progress.is_some()];
        self.observations.len() as u64 + single.map(u64::from).iter().sum::<u64>()
    }
}

/// A queue entry, with the context that the writer needs.
#[derive(Debug)]
struct RecordEntry {
    at: EventTime,
    /// Interval and timeout of rounds.
    settings: Settings,
    /// The current topology.
    topology: Arc<Topology>,
    /// Since when the source of the topology cannot be read, if so.
    topology_unread_since: Option<EventTime>,
    /// Number of lines dropped before this entry.
    dropped_lines: u64,
    /// The time of the last `advance` before the event, if there was one.
    advanced_to: Option<EventTime>,
    input: EngineInput,
}

impl RecordEntry {
    fn line_count(&self) -> u64 {
        let event = match &self.input {
            EngineInput::Advance => 0,
            EngineInput::Settings
            | EngineInput::Topology
            | EngineInput::TopologyUnread
            | EngineInput::Restore(_)
            | EngineInput::ResetBaseline(_) => 1,
            EngineInput::Report(report) => report.line_count(),
        };
        event + u64::from(self.advanced_to.is_some())
    }
}

/// The engine task's end of a recording.
#[derive(Debug)]
pub struct Recorder {
    queue: SyncSender<RecordEntry>,
    metrics: RecordMetrics,
    settings: Settings,
    topology_unread_since: Option<EventTime>,
    /// The engine's time since the last entry, if it advanced without closing a round.
    advanced_to: Option<EventTime>,
    dropped_lines: u64,
}

impl Recorder {
    /// Opens the folder and writes the first lines, so that an unusable folder is an error at once.
    pub fn open(
        options: &RecordOptions,
        settings: Settings,
        topology: &Arc<Topology>,
        start: EventTime,
        metrics: &RecordMetrics,
    ) -> Result<(Self, RecordWriter), RecordError> {
        let (queue, entries) = sync_channel(QUEUE_CAPACITY);
        let header = RecordSettings {
            interval: settings.interval,
            timeout: settings.timeout,
            clock: RecordClock::Advance,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            engine: Some(ENGINE_VERSION),
            recording: Some(segments::recording_name(start)),
            segment: 0,
            pseudonyms: options.pseudonyms,
        };
        let writer = RecordWriter::open(
            options,
            header,
            Arc::clone(topology),
            start,
            metrics.clone(),
            entries,
        )?;
        let recorder = Self {
            queue,
            metrics: metrics.clone(),
            settings,
            topology_unread_since: None,
            advanced_to: None,
            dropped_lines: 0,
        };
        Ok((recorder, writer))
    }

    /// After `engine.advance(now)`. A time at which no round was judged is kept for the next entry: it limits how far
    /// ahead an observation may be.
    pub fn record_advance(&mut self, now: EventTime, judged: bool, topology: &Arc<Topology>) {
        self.advanced_to = Some(now);
        if judged {
            self.enqueue(now, topology, EngineInput::Advance);
        }
    }

    /// After `engine.replace_settings(settings, at)`.
    pub fn record_settings(&mut self, at: EventTime, settings: Settings, topology: &Arc<Topology>) {
        self.settings = settings;
        self.enqueue(at, topology, EngineInput::Settings);
    }

    /// After `engine.replace_topology(topology, at)`.
    pub fn record_topology(&mut self, at: EventTime, topology: &Arc<Topology>) {
        self.enqueue(at, topology, EngineInput::Topology);
    }

    /// After `engine.topology_unread(since)`.
    pub fn record_topology_unread(
        &mut self,
        at: EventTime,
        since: Option<EventTime>,
        topology: &Arc<Topology>,
    ) {
        self.topology_unread_since = since;
        self.enqueue(at, topology, EngineInput::TopologyUnread);
    }

    /// After `engine.restore(checkpoint, at)`.
    pub fn record_restore(&mut self, at: EventTime, checkpoint: Checkpoint, topology: &Arc<Topology>) {
        self.enqueue(at, topology, EngineInput::Restore(Box::new(checkpoint)));
    }

    /// After `engine.reset_baseline(target)`.
    pub fn record_baseline_reset(&mut self, at: EventTime, target: TargetId, topology: &Arc<Topology>) {
        self.enqueue(at, topology, EngineInput::ResetBaseline(target));
    }

    /// After the observations of a report were recorded by the engine.
    pub fn record_report(&mut self, at: EventTime, topology: &Arc<Topology>, report: RecordedReport) {
        if report.line_count() > 0 {
            self.enqueue(at, topology, EngineInput::Report(report));
        }
    }

    fn enqueue(&mut self, at: EventTime, topology: &Arc<Topology>, event: EngineInput) {
        let entry = RecordEntry {
            at,
            settings: self.settings,
            topology: Arc::clone(topology),
            topology_unread_since: self.topology_unread_since,
            dropped_lines: self.dropped_lines,
            advanced_to: self.advanced_to.take(),
            input: event,
        };
        match self.queue.try_send(entry) {
            Ok(()) => self.dropped_lines = 0,
            Err(TrySendError::Full(entry) | TrySendError::Disconnected(entry)) => {
                if self.dropped_lines == 0 {
                    tracing::warn!(
                        "the recording falls behind; lines that do not fit in the queue are dropped and marked"
                    );
                }
                self.dropped_lines += entry.line_count();
                self.metrics.add_lines(RecordResult::Dropped, entry.line_count());
            }
        }
    }
}
