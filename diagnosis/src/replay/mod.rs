//! Replays a recorded stream line by line: the same engine, the same bytes, on any machine.
//!
//! The `type` of a line tells the two formats apart:
//! * trials, `topology` / `obs` / `end`: independent recordings of one target, any number per file;
//! * Parallax's own recordings, `settings` / `settings_changed` / `topology_spec` / `topology_unread` / `baseline_reset` /
//!   `restored` / `observation` / `progress` / `advance` / `gap` ([`RecordLine`]), in one file or in several segments.
//!
//! Output is one JSON object per line: `verdict`, `unexplained`, `next_probe`, `malformed`, `gap`, and `trial` at the
//! end of each recording. A `next_probe` line requests one on-demand probe; a caller that can make it writes its
//! outcome into the recording, with the line's `assignment`.

mod lines;
mod record;
mod trial;

use std::collections::BTreeSet;

use parallax_model::{AssignmentId, Channel, EventTime, Network, NodeName, PodName, Vantage};
use serde::Serialize;
use serde_json::Value;

use crate::{
    engine::{Engine, TentativeCause},
    incident::IncidentEvent,
    requests::{ProbeRequest, ProbeVariant, RequestDestination},
    verdict::{Incident, IncidentState, RegionRef, Subject},
    view::View,
};

pub use lines::{
    RecordBaselineReset, RecordClock, RecordLine, RecordProgress, RecordRestored, RecordSettings,
    RecordSettingsChanged, RecordTopology, RecordTopologyUnread,
};

use record::RecordingReader;
use trial::TrialReader;

/// Reads a stream and reports the engine's events as lines of JSON.
#[derive(Debug, Default)]
pub struct Replay {
    open: OpenRecording,
    /// Malformed lines outside any recording; the next recording reports them.
    malformed: u64,
    recordings: u64,
}

#[derive(Debug, Default)]
enum OpenRecording {
    #[default]
    None,
    Trial(Box<TrialReader>),
    Recording(Box<RecordingReader>),
}

/// One line of output. Probabilities have four digits, times are seconds of the recording.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputLine<'a> {
    Verdict {
        trial: u64,
        t: f64,
        id: &'a str,
        subject: &'a Subject,
        region: &'a str,
        members: &'a [String],
        probability: f64,
        class: Vec<(&'a str, &'a [String])>,
        causes: Vec<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        decided_by: Option<&'a str>,
        closed_t: Option<f64>,
    },
    Unexplained {
        trial: u64,
        t: f64,
        cells: &'a [String],
    },
    NextProbe {
        trial: u64,
        t: f64,
        separates: Vec<(&'a str, &'a [String])>,
        channel: Channel,
        node: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        backend: Option<&'a PodName>,
        #[serde(skip_serializing_if = "Option::is_none")]
        dst_node: Option<&'a NodeName>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u32>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        tcp: bool,
        bits: f64,
        reason: &'a str,
        assignment: &'a AssignmentId,
    },
    Malformed {
        line: usize,
        reason: String,
    },
    Gap {
        trial: u64,
        lines: u64,
    },
    Trial {
        trial: u64,
        observations: u64,
        malformed: u64,
        verdicts: u64,
        /// Tentative causes at the end, without enough evidence for a verdict.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        likeliest: Vec<LikeliestRegion<'a>>,
    },
}

#[derive(Debug, Serialize)]
struct LikeliestRegion<'a> {
    region: &'a str,
    members: &'a [String],
    probability: f64,
    class: Vec<(&'a str, &'a [String])>,
}

impl OutputLine<'_> {
    fn write(&self) -> String {
        // Strings, numbers and lists of them always serialize to JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Replay {
    /// Creates a reader.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one line of input; `number` identifies it in error reports. Malformed lines are counted, reported and
    /// skipped. Lines of unknown type come from a newer version and are skipped.
    pub fn read_line(&mut self, number: usize, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        if text.trim().is_empty() {
            return out;
        }
        if let Err(reason) = self.read_entry(text, &mut out) {
            match &mut self.open {
                OpenRecording::None => self.malformed += 1,
                OpenRecording::Trial(trial) => trial.counts.malformed += 1,
                OpenRecording::Recording(recording) => recording.counts.malformed += 1,
            }
            out.push(OutputLine::Malformed { line: number, reason }.write());
        }
        out
    }

    /// Returns the engine's view at `now` while one of Parallax's own recordings is being read.
    #[must_use]
    pub fn view(&self, now: EventTime) -> Option<View> {
        match &self.open {
            OpenRecording::Recording(recording) => recording.view(now),
            OpenRecording::None | OpenRecording::Trial(_) => None,
        }
    }

    /// Advances the clock of a trial to `seconds` without a line: rounds that are over are judged. A caller that
    /// answers `next_probe` lines calls this at the end of a round; otherwise the answers arrive one round later than
    /// in a running mesh.
    pub fn advance_to(&mut self, seconds: f64) -> Vec<String> {
        let mut out = Vec::new();
        if let OpenRecording::Trial(trial) = &mut self.open {
            trial.advance_to(seconds, &mut out);
        }
        out
    }

    /// Finishes the open recording, if any. Call it at the end of the input.
    pub fn finish(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        self.close(&mut out);
        out
    }

    fn close(&mut self, out: &mut Vec<String>) {
        match std::mem::take(&mut self.open) {
            OpenRecording::None => {}
            OpenRecording::Trial(trial) => trial.finish(out),
            OpenRecording::Recording(recording) => recording.finish(out),
        }
    }

    fn read_entry(&mut self, text: &str, out: &mut Vec<String>) -> Result<(), String> {
        let value: Value = serde_json::from_str(text).map_err(|e| format!("not valid JSON: {e}"))?;
        let kind = value
            .get("type")
            .and_then(Value::as_str)
            .ok_or("the line has no \"type\"")?
            .to_owned();
        match kind.as_str() {
            "topology" => {
                let topology = trial::TopologyLine::read(value)?;
                match &mut self.open {
                    OpenRecording::Trial(trial) if trial.has_id_of(&topology) => trial.replace(topology),
                    _ => {
                        let trial = TrialReader::new(topology, std::mem::take(&mut self.malformed))?;
                        self.close(out);
                        self.open = OpenRecording::Trial(Box::new(trial));
                        Ok(())
                    }
                }
            }
            "obs" | "end" => match &mut self.open {
                OpenRecording::Trial(trial) if kind == "obs" => trial.observe(value, out),
                OpenRecording::Trial(_) => {
                    self.close(out);
                    Ok(())
                }
                _ => Err(format!("{kind:?} before any \"topology\"")),
            },
            "settings" => {
                let settings = RecordingReader::parse_settings(value)?;
                if let OpenRecording::Recording(recording) = &mut self.open
                    && recording.continues(&settings)
                {
                    return Ok(());
                }
                let malformed = std::mem::take(&mut self.malformed);
                let recording = RecordingReader::new(settings, self.recordings, malformed);
                self.recordings += 1;
                self.close(out);
                self.open = OpenRecording::Recording(Box::new(recording));
                Ok(())
            }
            "settings_changed" | "topology_spec" | "topology_unread" | "restored" | "baseline_reset"
            | "observation" | "progress" | "advance" | "gap" => match &mut self.open {
                OpenRecording::Recording(recording) => recording.read_entry(&kind, value, out),
                _ => Err(format!("{kind:?} before any \"settings\"")),
            },
            _ => Ok(()),
        }
    }
}

/// Counters of a recording.
#[derive(Debug, Clone, Copy, Default)]
struct RecordCounts {
    trial: u64,
    observations: u64,
    malformed: u64,
    verdicts: u64,
    /// Omits the names of resolvers from members, as the trial format does.
    omit_resolver_names: bool,
}

impl RecordCounts {
    /// Writes the events of the round that was just judged.
    fn write_events(&mut self, engine: &Engine, out: &mut Vec<String>) {
        for event in engine.events() {
            match event {
                IncidentEvent::Named { incident, at, first } => {
                    self.verdicts += u64::from(*first);
                    out.push(self.verdict(incident, seconds(at.0)));
                }
                IncidentEvent::Closed(incident) => {
                    let IncidentState::Closed { closed } = incident.state else {
                        continue;
                    };
                    out.push(self.verdict(incident, seconds(closed.0)));
                }
                IncidentEvent::Unexplained { at, cells } => out.push(
                    OutputLine::Unexplained {
                        trial: self.trial,
                        t: seconds(at.0),
                        cells,
                    }
                    .write(),
                ),
            }
        }
    }

    /// Writes the on-demand probes requested after the round that was just judged, one line per probe.
    fn write_requests<'a>(
        self,
        engine: &'a Engine,
        said: &dyn Fn(&'a str) -> &'a str,
        out: &mut Vec<String>,
    ) {
        for ask in engine.new_probe_requests() {
            out.push(self.next_probe(ask, said));
        }
    }

    fn summary(self, engine: Option<&Engine>) -> String {
        OutputLine::Trial {
            likeliest: engine
                .into_iter()
                .flat_map(Engine::tentative_causes)
                .filter_map(|TentativeCause { class, probability }| {
                    let (region, members) = self.region_parts(class.first()?);
                    Some(LikeliestRegion {
                        region,
                        members,
                        probability: (probability * 1e4).round() / 1e4,
                        class: class.iter().map(|region| self.region_parts(region)).collect(),
                    })
                })
                .collect(),
            trial: self.trial,
            observations: self.observations,
            malformed: self.malformed,
            verdicts: self.verdicts,
        }
        .write()
    }

    fn verdict(self, incident: &Incident, t: f64) -> String {
        let verdict = &incident.verdict;
        let closed_t = match incident.state {
            IncidentState::Closed { closed } => Some(seconds(closed.0)),
            IncidentState::Open | IncidentState::Recovering => None,
        };
        let mut class: Vec<_> = verdict
            .class
            .iter()
            .map(|region| self.region_parts(region))
            .collect();
        let mut seen = BTreeSet::new();
        class.retain(|region| seen.insert(*region));
        let (region, members) = self.region_parts(&verdict.region);
        OutputLine::Verdict {
            trial: self.trial,
            t,
            id: &incident.id,
            subject: &verdict.subject,
            region,
            members,
            probability: verdict.probability.get(),
            class,
            causes: verdict.causes.iter().map(|c| c.id.as_str()).collect(),
            decided_by: verdict.deciding_probe.as_deref(),
            closed_t,
        }
        .write()
    }

    fn region_parts(self, region: &RegionRef) -> (&str, &[String]) {
        let members: &[String] = if self.omit_resolver_names && region.region == "dns-name" {
            &[]
        } else {
            &region.members
        };
        (&region.region, members)
    }

    /// Formats a request as a line; `said` maps a name to the name in the recording.
    fn next_probe<'a>(self, ask: &'a ProbeRequest, said: &dyn Fn(&'a str) -> &'a str) -> String {
        let (mut backend, mut dst_node, mut name) = (None, None, None);
        match &ask.destination {
            RequestDestination::Entry(pod) => backend = Some(pod),
            RequestDestination::Peer(node) => dst_node = Some(node),
            RequestDestination::Name(asked) => name = Some(said(asked)),
            RequestDestination::Front(_) | RequestDestination::NodePort(_) => {}
        }
        OutputLine::NextProbe {
            trial: self.trial,
            t: seconds(ask.requested_at.0),
            separates: ask
                .separated_regions
                .iter()
                .map(|region| self.region_parts(region))
                .collect(),
            channel: ask.channel,
            // A recording names a node's Pod network by its node.
            node: match &ask.vantage {
                Vantage::Cluster {
                    node,
                    network: Network::Pod,
                } => node.to_string(),
                other => other.to_string(),
            },
            backend,
            dst_node,
            name,
            size: match ask.variant {
                ProbeVariant::Size(bytes) => Some(bytes),
                _ => None,
            },
            tcp: ask.variant == ProbeVariant::DnsOverTcp,
            bits: ask.gain_bits,
            reason: &ask.reason,
            assignment: &ask.id,
        }
        .write()
    }
}

/// Converts to seconds with millisecond precision.
#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds since the start of a recording fit 52 bits"
)]
fn seconds(micros: i64) -> f64 {
    (micros / 1000) as f64 / 1000.0
}
