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
        RecordBaselineReset, RecordLine, RecordProgress, RecordRestored, RecordSettings,
        RecordSettingsChanged, RecordTopology, RecordTopologyUnread,
    },
    topology::Topology,
};
use parallax_model::EventTime;

use super::{
    Event, RecordEntry, RecordError, RecordOptions,
    metrics::{RecordMetrics, RecordResult},
    pseudonyms::Pseudonymizer,
    segments::SegmentFolder,
};

/// Maximum age of a line that is not visible to readers of the file yet.
const FLUSH: Duration = Duration::from_secs(1);

/// Time until the next attempt after a failed write.
const REST: Duration = Duration::from_secs(10);

/// The writing end of a recording.
#[derive(Debug)]
pub struct RecordWriter {
    entries: Receiver<RecordEntry>,
    segments: SegmentFolder,
    settings: RecordSettings,
    veil: Option<Pseudonymizer>,
    metrics: RecordMetrics,
    /// The topology last written.
    told: Arc<Topology>,
    /// The state of the topology's source last written.
    unread: Option<EventTime>,
    /// Number of lines dropped since the last written line.
    missing: u64,
    resting_until: Option<Instant>,
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
        let refused = |source| RecordError::Folder {
            dir: options.dir.clone(),
            source,
        };
        let veil = options.pseudonyms.then(Pseudonymizer::new).transpose()?;
        let name = settings.recording.clone().unwrap_or_default();
        let segments = SegmentFolder::open(&options.dir, name, options.max_bytes).map_err(refused)?;
        let mut writer = Self {
            entries,
            segments,
            settings,
            veil,
            metrics,
            told: topology,
            unread: None,
            missing: 0,
            resting_until: None,
            line: Vec::new(),
        };
        writer
            .begin(start)
            .and_then(|()| writer.segments.flush())
            .map_err(refused)?;
        Ok(writer)
    }

    /// Writes until the engine task ends. Blocks; runs on its own thread.
    pub fn run(mut self) {
        let mut flushed = Instant::now();
        loop {
            match self.entries.recv_timeout(FLUSH) {
                Ok(entry) => self.take(&entry),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if flushed.elapsed() >= FLUSH {
                if let Err(error) = self.segments.flush() {
                    self.fail(&error);
                }
                flushed = Instant::now();
            }
        }
        if let Err(error) = self.segments.finish() {
            self.fail(&error);
        }
    }

    fn take(&mut self, entry: &RecordEntry) {
        self.missing += entry.lost;
        let resting = self.resting_until.is_some_and(|until| Instant::now() < until);
        let written = if resting { None } else { Some(self.put(entry)) };
        match written {
            Some(Ok(())) => {
                if self.resting_until.take().is_some() {
                    tracing::info!("the recording continues");
                    self.metrics.fails(false);
                }
                self.metrics.recorded(RecordResult::Written, entry.lines());
                return;
            }
            Some(Err(error)) => self.fail(&error),
            None => {}
        }
        self.missing += entry.lines();
        self.metrics.recorded(RecordResult::Lost, entry.lines());
    }

    /// Abandons the segment, because its last lines may be incomplete. The next one is tried after `REST`.
    fn fail(&mut self, error: &io::Error) {
        if self.resting_until.is_none() {
            tracing::error!(%error, "cannot write the recording; probing and judging continue without it");
        }
        self.metrics.fails(true);
        self.resting_until = Some(Instant::now() + REST);
        // Closing it may fail for the same reason.
        drop(self.segments.finish());
    }

    fn put(&mut self, entry: &RecordEntry) -> io::Result<()> {
        if !self.segments.is_open() || self.segments.is_full() {
            self.begin(entry.at)?;
        }
        if self.missing > 0 {
            self.write(&RecordLine::Gap { lines: self.missing })?;
            self.missing = 0;
        }
        if let Some(at) = entry.advanced {
            self.write(&RecordLine::Advance { at })?;
        }
        let Settings { interval, timeout } = entry.settings;
        if (self.settings.interval, self.settings.timeout) != (interval, timeout) {
            let at = entry.at;
            self.write(&RecordLine::SettingsChanged(RecordSettingsChanged {
                at,
                interval,
                timeout,
            }))?;
            (self.settings.interval, self.settings.timeout) = (interval, timeout);
        }
        let known = Arc::ptr_eq(&self.told, &entry.topology);
        match &entry.event {
            Event::Topology if known => {
                let mut line = RecordTopology::of(&entry.topology, entry.at);
                line.spec = None;
                line.vantages = std::borrow::Cow::Borrowed(&[]);
                self.write(&RecordLine::TopologySpec(line))?;
            }
            _ if !known => {
                self.topology(&entry.topology, entry.at, false)?;
                self.told = Arc::clone(&entry.topology);
            }
            _ => {}
        }
        if self.unread != entry.unread {
            self.unread = entry.unread;
            self.source(entry.at)?;
        }
        if let Event::Restored(checkpoint) = &entry.event {
            // A checkpoint is full of names. Without them earlier incidents are unknown, but no round is judged twice.
            let veiled = Checkpoint {
                judged: checkpoint.judged,
                ..Checkpoint::default()
            };
            let checkpoint = if self.veil.is_some() {
                &veiled
            } else {
                &**checkpoint
            };
            self.write(&RecordLine::Restored(RecordRestored {
                at: entry.at,
                checkpoint: std::borrow::Cow::Borrowed(checkpoint),
            }))?;
        }
        if let Event::BaselineReset(target) = &entry.event {
            let line = RecordBaselineReset {
                at: entry.at,
                target: match &mut self.veil {
                    Some(veil) => veil.target(target),
                    None => target.clone(),
                },
            };
            self.write(&RecordLine::BaselineReset(&line))?;
        }
        if let Event::Report {
            observations,
            progress,
        } = &entry.event
        {
            for recorded in observations {
                match &mut self.veil {
                    Some(veil) => {
                        let recorded = veil.recorded(recorded);
                        self.write(&RecordLine::Observation(&recorded))?;
                    }
                    None => self.write(&RecordLine::Observation(recorded))?,
                }
            }
            if let Some(progress) = progress {
                let veiled = RecordProgress {
                    vantage: match &mut self.veil {
                        Some(veil) => veil.vantage(&progress.vantage),
                        None => progress.vantage.clone(),
                    },
                    complete: progress.complete,
                };
                self.write(&RecordLine::Progress(&veiled))?;
            }
        }
        Ok(())
    }

    /// Starts a new segment, which can be read without the previous ones.
    fn begin(&mut self, at: EventTime) -> io::Result<()> {
        self.settings.segment = self.segments.begin()?;
        let settings = self.settings.clone();
        self.write(&RecordLine::Settings(&settings))?;
        let topology = Arc::clone(&self.told);
        self.topology(&topology, at, settings.segment > 0)?;
        if self.unread.is_some() {
            self.source(at)?;
        }
        Ok(())
    }

    fn source(&mut self, at: EventTime) -> io::Result<()> {
        let since = self.unread;
        self.write(&RecordLine::TopologyUnread(RecordTopologyUnread { at, since }))
    }

    fn topology(&mut self, topology: &Topology, at: EventTime, again: bool) -> io::Result<()> {
        let mut line = RecordTopology::of(topology, at);
        line.again = again;
        if let Some(veil) = &mut self.veil {
            line.spec = Some(std::borrow::Cow::Owned(veil.spec(topology.spec())));
            line.vantages = topology
                .extra_vantages()
                .iter()
                .map(|vantage| veil.vantage(vantage))
                .collect();
        }
        self.write(&RecordLine::TopologySpec(line))
    }

    fn write(&mut self, line: &RecordLine<'_>) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.segments.write(&self.line)
    }
}
