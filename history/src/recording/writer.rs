//! Writes queue entries as lines, on a thread that may block on the disk.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use parallax_diagnosis::{
    Checkpoint, Settings,
    replay::{
        RecordBaselineReset, RecordImplausible, RecordLine, RecordProgress, RecordRestored, RecordSettings,
        RecordSettingsChanged, RecordTopology, RecordTopologyUnread,
    },
    topology::Topology,
};
use parallax_model::{EventTime, Vantage};

use super::{
    EngineInput, RecordEntry, RecordError, RecordOptions, RecordedReport,
    metrics::{RecordMetrics, RecordResult},
    pseudonyms::Pseudonymizer,
    segments::SegmentFolder,
};

/// Maximum age of a line that is not visible to readers of the file yet.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Time until the next attempt after a failed write.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The writing end of a recording.
#[derive(Debug)]
pub struct RecordWriter {
    entries: Receiver<RecordEntry>,
    segments: SegmentFolder,
    settings: RecordSettings,
    pseudonymizer: Option<Pseudonymizer>,
    metrics: RecordMetrics,
    /// The topology last written.
    written_topology: Arc<Topology>,
    /// The state of the topology's source last written.
    written_unread: Option<EventTime>,
    /// Number of lines dropped since the last written line.
    dropped_lines: u64,
    retry_at: Option<Instant>,
    line: Vec<u8>,
}

impl RecordWriter {
    pub(super) fn open(
        options: &RecordOptions,
        settings: RecordSettings,
        topology: Arc<Topology>,
        start: EventTime,
        metrics: RecordMetrics,
        entries: Receiver<RecordEntry>,
    ) -> Result<Self, RecordError> {
        let refused = |source| RecordError::UnusableFolder {
            dir: options.dir.clone(),
            source,
        };
        let pseudonymizer = options.pseudonyms.then(Pseudonymizer::new).transpose()?;
        let name = settings.recording.clone().unwrap_or_default();
        let segments = SegmentFolder::open(&options.dir, name, options.max_bytes).map_err(refused)?;
        let mut writer = Self {
            entries,
            segments,
            settings,
            pseudonymizer,
            metrics,
            written_topology: topology,
            written_unread: None,
            dropped_lines: 0,
            retry_at: None,
            line: Vec::new(),
        };
        writer
            .begin_segment(start)
            .and_then(|()| writer.segments.flush())
            .map_err(refused)?;
        Ok(writer)
    }

    /// Writes until the engine task ends. Blocks; runs on its own thread.
    pub fn run(mut self) {
        let mut flushed = Instant::now();
        loop {
            match self.entries.recv_timeout(FLUSH_INTERVAL) {
                Ok(entry) => self.handle(&entry),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if flushed.elapsed() >= FLUSH_INTERVAL {
                if let Err(error) = self.segments.flush() {
                    self.abandon_segment(&error);
                }
                flushed = Instant::now();
            }
        }
        if let Err(error) = self.segments.finish() {
            self.abandon_segment(&error);
        }
    }

    fn handle(&mut self, entry: &RecordEntry) {
        self.dropped_lines += entry.dropped_lines;
        let resting = self.retry_at.is_some_and(|until| Instant::now() < until);
        let written = if resting {
            None
        } else {
            Some(self.write_entry(entry))
        };
        match written {
            Some(Ok(())) => {
                if self.retry_at.take().is_some() {
                    tracing::info!("the recording continues");
                    self.metrics.set_failing(false);
                }
                self.metrics.add_lines(RecordResult::Written, entry.line_count());
                return;
            }
            Some(Err(error)) => self.abandon_segment(&error),
            None => {}
        }
        self.dropped_lines += entry.line_count();
        self.metrics.add_lines(RecordResult::Dropped, entry.line_count());
    }

    /// Abandons the segment, because its last lines may be incomplete. The next one is tried after `REST`.
    fn abandon_segment(&mut self, error: &io::Error) {
        if self.retry_at.is_none() {
            tracing::error!(%error, "cannot write the recording; probing and judging continue without it");
        }
        self.metrics.set_failing(true);
        self.retry_at = Some(Instant::now() + RETRY_DELAY);
        // Closing it may fail for the same reason.
        drop(self.segments.finish());
    }

    fn write_entry(&mut self, entry: &RecordEntry) -> io::Result<()> {
        if !self.segments.is_open() || self.segments.is_full() {
            self.begin_segment(entry.at)?;
        }
        if self.dropped_lines > 0 {
            self.write_line(&RecordLine::Gap {
                lines: self.dropped_lines,
            })?;
            self.dropped_lines = 0;
        }
        if let Some(at) = entry.advanced_to {
            self.write_line(&RecordLine::Advance { at })?;
        }
        let Settings { interval, timeout } = entry.settings;
        if (self.settings.interval, self.settings.timeout) != (interval, timeout) {
            let at = entry.at;
            self.write_line(&RecordLine::SettingsChanged(RecordSettingsChanged {
                at,
                interval,
                timeout,
            }))?;
            (self.settings.interval, self.settings.timeout) = (interval, timeout);
        }
        let known = Arc::ptr_eq(&self.written_topology, &entry.topology);
        match &entry.input {
            EngineInput::Topology if known => {
                let mut line = RecordTopology::of(&entry.topology, entry.at);
                line.spec = None;
                line.vantages = std::borrow::Cow::Borrowed(&[]);
                self.write_line(&RecordLine::TopologySpec(line))?;
            }
            _ if !known => {
                self.write_topology(&entry.topology, entry.at, false)?;
                self.written_topology = Arc::clone(&entry.topology);
            }
            _ => {}
        }
        if self.written_unread != entry.topology_unread_since {
            self.written_unread = entry.topology_unread_since;
            self.write_topology_unread(entry.at)?;
        }
        if let EngineInput::Restore(checkpoint) = &entry.input {
            // A checkpoint is full of names. Without them earlier incidents are unknown, but no round is judged twice.
            let veiled = Checkpoint {
                judged_until: checkpoint.judged_until,
                ..Checkpoint::default()
            };
            let checkpoint = if self.pseudonymizer.is_some() {
                &veiled
            } else {
                &**checkpoint
            };
            self.write_line(&RecordLine::Restored(RecordRestored {
                at: entry.at,
                checkpoint: std::borrow::Cow::Borrowed(checkpoint),
            }))?;
        }
        if let EngineInput::ResetBaseline(target) = &entry.input {
            let line = RecordBaselineReset {
                at: entry.at,
                target: match &mut self.pseudonymizer {
                    Some(pseudonymizer) => pseudonymizer.target(target),
                    None => target.clone(),
                },
            };
            self.write_line(&RecordLine::BaselineReset(&line))?;
        }
        if let EngineInput::Report(report) = &entry.input {
            self.write_report(report)?;
        }
        Ok(())
    }

    fn write_report(&mut self, report: &RecordedReport) -> io::Result<()> {
        for recorded in &report.observations {
            match &mut self.pseudonymizer {
                Some(pseudonymizer) => {
                    let recorded = pseudonymizer.recorded_observation(recorded);
                    self.write_line(&RecordLine::Observation(&recorded))?;
                }
                None => self.write_line(&RecordLine::Observation(recorded))?,
            }
        }
        if let Some(implausible) = &report.implausible {
            let line = RecordImplausible {
                vantage: self.recorded_vantage(&implausible.vantage),
                ..*implausible
            };
            self.write_line(&RecordLine::Implausible(&line))?;
        }
        if let Some(progress) = &report.progress {
            let line = RecordProgress {
                vantage: self.recorded_vantage(&progress.vantage),
                ..*progress
            };
            self.write_line(&RecordLine::Progress(&line))?;
        }
        Ok(())
    }

    /// Returns the name of a vantage, or its pseudonym.
    fn recorded_vantage(&mut self, vantage: &Vantage) -> Vantage {
        match &mut self.pseudonymizer {
            Some(pseudonymizer) => pseudonymizer.vantage(vantage),
            None => vantage.clone(),
        }
    }

    /// Starts a new segment, which can be read without the previous ones.
    fn begin_segment(&mut self, at: EventTime) -> io::Result<()> {
        self.settings.segment = self.segments.begin()?;
        let settings = self.settings.clone();
        self.write_line(&RecordLine::Settings(&settings))?;
        let topology = Arc::clone(&self.written_topology);
        self.write_topology(&topology, at, settings.segment > 0)?;
        if self.written_unread.is_some() {
            self.write_topology_unread(at)?;
        }
        Ok(())
    }

    fn write_topology_unread(&mut self, at: EventTime) -> io::Result<()> {
        let since = self.written_unread;
        self.write_line(&RecordLine::TopologyUnread(RecordTopologyUnread { at, since }))
    }

    fn write_topology(&mut self, topology: &Topology, at: EventTime, again: bool) -> io::Result<()> {
        let mut line = RecordTopology::of(topology, at);
        line.repeated = again;
        if let Some(pseudonymizer) = &mut self.pseudonymizer {
            line.spec = Some(std::borrow::Cow::Owned(
                pseudonymizer.topology_spec(topology.spec()),
            ));
            line.vantages = topology
                .extra_vantages()
                .iter()
                .map(|vantage| pseudonymizer.vantage(vantage))
                .collect();
        }
        self.write_line(&RecordLine::TopologySpec(line))
    }

    fn write_line(&mut self, line: &RecordLine<'_>) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.segments.write(&self.line)
    }
}
