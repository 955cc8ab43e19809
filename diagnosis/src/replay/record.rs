//! Replays Parallax's own recordings: the inputs of an engine, in their original order.

use std::sync::Arc;

use parallax_model::{EventTime, Micros, Recorded};
use serde_json::Value;

use super::{
    OutputLine, RecordCounts,
    lines::{
        AdvanceLine, GapLine, RecordBaselineReset, RecordClock, RecordImplausible, RecordProgress,
        RecordRestored, RecordSettings, RecordSettingsChanged, RecordTopology, RecordTopologyUnread,
    },
};
use crate::{engine::Engine, settings::Settings, topology::Topology, view::View};

/// A recording that is being read.
#[derive(Debug)]
pub(super) struct RecordingReader {
    settings: RecordSettings,
    engine: Option<(Engine, Arc<Topology>)>,
    now: EventTime,
    pub(super) counts: RecordCounts,
}

impl RecordingReader {
    pub(super) fn new(settings: RecordSettings, number: u64, malformed: u64) -> Self {
        Self {
            settings,
            engine: None,
            now: EventTime(0),
            counts: RecordCounts {
                trial: number,
                malformed,
                ..RecordCounts::default()
            },
        }
    }

    pub(super) fn parse_settings(value: Value) -> Result<RecordSettings, String> {
        let settings: RecordSettings = from_value(value)?;
        require_positive(settings.interval)?;
        Ok(settings)
    }

    /// Reports whether these settings begin the segment after the current one, which then continues this recording.
    pub(super) fn continues(&mut self, next: &RecordSettings) -> bool {
        let present = &self.settings;
        let follows = next.recording.is_some()
            && next.recording == present.recording
            && next.segment == present.segment + 1
            && (next.interval, next.timeout, next.clock)
                == (present.interval, present.timeout, present.clock);
        if follows {
            self.settings.segment = next.segment;
        }
        follows
    }

    pub(super) fn read_entry(
        &mut self,
        kind: &str,
        value: Value,
        out: &mut Vec<String>,
    ) -> Result<(), String> {
        match kind {
            "topology_spec" => self.topology(from_value(value)?, out),
            "settings_changed" => self.settings_changed(from_value(value)?, out),
            "gap" => {
                let GapLine { lines } = from_value(value)?;
                let line = OutputLine::Gap {
                    trial: self.counts.trial,
                    lines,
                };
                out.push(line.write());
                Ok(())
            }
            _ => {
                let Some((engine, _)) = &mut self.engine else {
                    return Err(format!("{kind:?} before any \"topology_spec\""));
                };
                let at = match kind {
                    "observation" => {
                        let recorded: Recorded = from_value(value)?;
                        engine.observe(&recorded);
                        self.counts.observations += 1;
                        recorded.observation.started
                    }
                    "topology_unread" => {
                        let line: RecordTopologyUnread = from_value(value)?;
                        engine.set_topology_unreadable(line.since);
                        line.at
                    }
                    "restored" => {
                        let line: RecordRestored<'_> = from_value(value)?;
                        engine.restore(&line.checkpoint, line.at);
                        line.at
                    }
                    "baseline_reset" => {
                        let line: RecordBaselineReset = from_value(value)?;
                        engine.reset_baseline(&line.target);
                        line.at
                    }
                    "implausible" => {
                        let line: RecordImplausible = from_value(value)?;
                        engine.discard_implausible(&line.vantage, line.observations);
                        line.at
                    }
                    "progress" => {
                        let line: RecordProgress = from_value(value)?;
                        engine.record_progress(&line.vantage, line.complete);
                        line.complete
                    }
                    _ => {
                        let AdvanceLine { at } = from_value(value)?;
                        self.advance(at, out);
                        return Ok(());
                    }
                };
                self.tick(at, out);
                Ok(())
            }
        }
    }

    fn settings_changed(&mut self, line: RecordSettingsChanged, out: &mut Vec<String>) -> Result<(), String> {
        require_positive(line.interval)?;
        self.tick(line.at, out);
        let RecordSettingsChanged {
            at,
            interval,
            timeout,
        } = line;
        (self.settings.interval, self.settings.timeout) = (interval, timeout);
        if let Some((engine, _)) = &mut self.engine {
            engine.replace_settings(Settings { interval, timeout }, at);
        }
        Ok(())
    }

    fn topology(&mut self, line: RecordTopology<'_>, out: &mut Vec<String>) -> Result<(), String> {
        let (at, again) = (line.at, line.repeated);
        let topology = match (line.build()?, &self.engine) {
            (Some(topology), _) => Arc::new(topology),
            (None, Some((_, last))) => Arc::clone(last),
            (None, None) => {
                return Err("spec: missing; the first topology of a recording needs it".to_owned());
            }
        };
        match &mut self.engine {
            Some(_) if again => {}
            Some((engine, last)) => {
                engine.replace_topology(Arc::clone(&topology), at);
                *last = topology;
            }
            none => {
                let settings = Settings {
                    interval: self.settings.interval,
                    timeout: self.settings.timeout,
                };
                *none = Some((Engine::new(settings, Arc::clone(&topology)), topology));
            }
        }
        self.tick(at, out);
        Ok(())
    }

    /// In a recording without its own clock, the times of its lines advance the clock.
    fn tick(&mut self, at: EventTime, out: &mut Vec<String>) {
        if self.settings.clock == RecordClock::Lines {
            self.advance(at, out);
        }
    }

    fn advance(&mut self, at: EventTime, out: &mut Vec<String>) {
        self.now = self.now.max(at);
        if let Some((engine, _)) = &mut self.engine {
            while engine.judge_next(self.now) {
                self.counts.write_events(engine, out);
                self.counts.write_requests(engine, &|name| name, out);
            }
        }
    }

    pub(super) fn view(&self, now: EventTime) -> Option<View> {
        self.engine.as_ref().map(|(engine, _)| engine.view(now))
    }

    /// Finishes the recording. If its `advance` lines close the rounds, the remaining rounds stay open.
    pub(super) fn finish(mut self, out: &mut Vec<String>) {
        self.tick(EventTime(i64::MAX), out);
        out.push(
            self.counts
                .summary(self.engine.as_ref().map(|(engine, _)| engine)),
        );
    }
}

fn require_positive(interval: Micros) -> Result<(), String> {
    if interval.0 == 0 {
        return Err("interval_us: expected a positive number of microseconds, got 0".to_owned());
    }
    Ok(())
}

fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| e.to_string())
}
