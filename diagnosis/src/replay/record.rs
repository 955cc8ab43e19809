//! The product's own record: what the engine was told, in the order it was told.

use std::sync::Arc;

use parallax_model::{EventTime, Micros, Recorded, Vantage};
use serde::Deserialize;
use serde_json::Value;

use super::Count;
use crate::{
    engine::{Engine, Settings},
    topology::{Topology, TopologySpec},
};

#[derive(Debug, Deserialize)]
struct SettingsLine {
    interval_us: u64,
    timeout_us: u64,
}

#[derive(Debug, Deserialize)]
struct TopologyLine {
    t_us: i64,
    spec: TopologySpec,
}

#[derive(Debug, Deserialize)]
struct ProgressLine {
    vantage: Vantage,
    t_us: i64,
}

/// A record that is being read.
#[derive(Debug)]
pub(super) struct Recording {
    settings: Settings,
    engine: Option<Engine>,
    now: EventTime,
    pub(super) count: Count,
}

impl Recording {
    pub(super) fn new(value: Value, number: u64, malformed: u64) -> Result<Self, String> {
        let line: SettingsLine = read(value)?;
        if line.interval_us == 0 {
            return Err("interval_us: expected a positive number of microseconds, got 0".to_owned());
        }
        Ok(Self {
            settings: Settings {
                interval: Micros(line.interval_us),
                timeout: Micros(line.timeout_us),
            },
            engine: None,
            now: EventTime(0),
            count: Count {
                trial: number,
                malformed,
                ..Count::default()
            },
        })
    }

    pub(super) fn take(&mut self, kind: &str, value: Value, out: &mut Vec<String>) -> Result<(), String> {
        match kind {
            "topology_spec" => {
                let line: TopologyLine = read(value)?;
                let topology = Topology::try_from(line.spec).map_err(|problems| {
                    problems
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join("; ")
                })?;
                let topology = Arc::new(topology);
                let at = EventTime(line.t_us);
                match &mut self.engine {
                    Some(engine) => engine.replace_topology(topology, at),
                    none => *none = Some(Engine::new(self.settings, topology)),
                }
                self.pass(at, out);
            }
            "observation" => {
                let recorded: Recorded = read(value)?;
                let Some(engine) = &mut self.engine else {
                    return Err("\"observation\" before any \"topology_spec\"".to_owned());
                };
                engine.observe(&recorded);
                self.count.observations += 1;
                self.pass(recorded.observation.at, out);
            }
            _ => {
                let line: ProgressLine = read(value)?;
                let Some(engine) = &mut self.engine else {
                    return Err("\"progress\" before any \"topology_spec\"".to_owned());
                };
                engine.progress(&line.vantage, EventTime(line.t_us));
                self.pass(EventTime(line.t_us), out);
            }
        }
        Ok(())
    }

    /// The record's own time is its clock.
    fn pass(&mut self, at: EventTime, out: &mut Vec<String>) {
        self.now = self.now.max(at);
        if let Some(engine) = &mut self.engine {
            while engine.judge_next(self.now) {
                self.count.events(engine, out);
                self.count.asks(engine, &|name| name, out);
            }
        }
    }

    pub(super) fn finish(mut self, out: &mut Vec<String>) {
        self.pass(EventTime(i64::MAX), out);
        out.push(self.count.total());
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| e.to_string())
}
