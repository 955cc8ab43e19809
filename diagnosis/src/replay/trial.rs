//! Trials: recordings of one target, judged as one path.
//!
//! A trial has one target, so no other host separates front and target: the whole outcome of every probe is
//! attributed to its channel, and all channels are one subject. This also keeps one fault one verdict. Nothing needs
//! to have worked before, because a fault may be present from the first line on.

mod topology_line;

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use parallax_model::{
    AssignmentId, Channel, EventTime, FailureKind, Front, Incarnation, Micros, NodeName, Observation,
    Outcome, Phase, PhaseTimes, PodName, Recorded, ReportSeq, TargetId, Vantage,
};
use serde::Deserialize;
use serde_json::Value;

use super::RecordCounts;
use crate::{
    engine::{Engine, ObservationResult},
    evidence::cells::is_through_front,
    settings::Settings,
};
pub(super) use topology_line::TopologyLine;

#[derive(Debug, Deserialize)]
struct ObsLine {
    t: f64,
    node: NodeName,
    channel: Channel,
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    backend: Option<PodName>,
    #[serde(default)]
    dst_node: Option<NodeName>,
    ok: bool,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    latency_ms: Option<f64>,
    /// The `next_probe` line that it fulfils.
    #[serde(default)]
    assignment: Option<AssignmentId>,
}

/// A trial that is being read.
#[derive(Debug)]
pub(super) struct TrialReader {
    line: TopologyLine,
    /// Resolved names other than the target's own.
    names: BTreeSet<String>,
    engine: Engine,
    now: EventTime,
    seq: u64,
    pub(super) counts: RecordCounts,
}

/// Address of the front in every trial; the documentation range keeps it apart from endpoints.
const FRONT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 80);
/// Host name of a target whose name is not a valid host name.
const PLACEHOLDER_HOST: &str = "target.invalid";

impl TrialReader {
    pub(super) fn new(line: TopologyLine, malformed: u64) -> Result<Self, String> {
        let names = BTreeSet::new();
        let topology = line.topology(&names)?;
        let settings = Settings {
            interval: micros(line.interval_s).max(Micros(1)),
            timeout: micros(line.timeout_ms.unwrap_or(0.0) / 1000.0),
        };
        Ok(Self {
            engine: Engine::with_rules(settings, Arc::new(topology), line.rules()),
            counts: RecordCounts {
                trial: line.trial,
                malformed,
                omit_resolver_names: true,
                ..RecordCounts::default()
            },
            line,
            names,
            now: EventTime(0),
            seq: 0,
        })
    }

    pub(super) const fn has_id_of(&self, topology: &TopologyLine) -> bool {
        self.counts.trial == topology.trial
    }

    /// Replaces the topology from this line on.
    pub(super) fn replace(&mut self, line: TopologyLine) -> Result<(), String> {
        let topology = line.topology(&self.names)?;
        self.engine.replace_topology(Arc::new(topology), self.now);
        self.line = line;
        Ok(())
    }

    pub(super) fn observe(&mut self, value: Value, out: &mut Vec<String>) -> Result<(), String> {
        let line: ObsLine = serde_json::from_value(value).map_err(|e| e.to_string())?;
        let recorded = self.recorded(line)?;
        match self.engine.observe(&recorded) {
            ObservationResult::Unknown => {
                let vantage = &recorded.vantage;
                return Err(format!("node: {vantage} is not in the topology"));
            }
            ObservationResult::Implausible => {
                return Err(
                    "t: expected seconds since the start, within an hour of the preceding lines".to_owned(),
                );
            }
            ObservationResult::Accepted { .. }
            | ObservationResult::Late
            | ObservationResult::ProberFault
            | ObservationResult::OverBudget => {}
        }
        self.counts.observations += 1;
        self.now = self.now.max(recorded.observation.started);
        self.advance(out);
        Ok(())
    }

    fn recorded(&mut self, line: ObsLine) -> Result<Recorded, String> {
        if !(line.t >= 0.0 && line.t < 1e9) {
            return Err(format!("t: expected seconds since the start, got {}", line.t));
        }
        let target = self.target_of(line.channel, line.target.as_deref(), line.dst_node.as_ref())?;
        self.seq += 1;
        let through_front = is_through_front(line.channel);
        let latency = line.latency_ms.filter(|ms| *ms >= 0.0 && *ms < 1e9);
        Ok(Recorded {
            vantage: Vantage::pod(line.node),
            incarnation: Incarnation::new("trial").map_err(|e| e.to_string())?,
            observation: Observation {
                seq: ReportSeq(self.seq),
                started: EventTime(i64::try_from(micros(line.t).0).unwrap_or(i64::MAX)),
                assignment: line.assignment,
                target,
                channel: line.channel,
                front: through_front.then_some(Front::tcp(FRONT)),
                entry: line.backend,
                dst_node: line.dst_node,
                outcome: outcome(line.channel, line.ok, line.kind.as_deref()),
                times: PhaseTimes {
                    total: latency.map(|ms| micros(ms / 1000.0)),
                    ..PhaseTimes::default()
                },
                dns: None,
                echo: None,
                ttl: None,
                server: None,
                fingerprint: None,
                challenge: None,
                names: None,
            },
        })
    }

    fn target_of(
        &mut self,
        channel: Channel,
        name: Option<&str>,
        peer: Option<&NodeName>,
    ) -> Result<TargetId, String> {
        let id = |text: &str| TargetId::new(text).map_err(|e| e.to_string());
        match (channel, name) {
            (Channel::Mesh, _) => {
                let peer = peer.ok_or("dst_node: missing; a mesh probe needs the node of its peer")?;
                id(&format!("echo://{peer}"))
            }
            (Channel::Dns, Some(name)) if name != self.line.target.name => {
                let wanted = format!("dns://{name}");
                if !self.names.contains(name) {
                    let mut names = self.names.clone();
                    names.insert(name.to_owned());
                    let topology = self.line.topology(&names)?;
                    self.names = names;
                    self.engine.replace_topology(Arc::new(topology), self.now);
                }
                id(&wanted)
            }
            _ => id(&format!("http://{}/", self.line.host())),
        }
    }

    fn advance(&mut self, out: &mut Vec<String>) {
        while self.engine.judge_next(self.now) {
            self.counts.write_events(&self.engine, out);
            self.counts
                .write_requests(&self.engine, &|name| self.recorded_name(name), out);
        }
    }

    /// Maps a name to its name in the recording, where the target may have another one.
    fn recorded_name<'a>(&'a self, name: &'a str) -> &'a str {
        if name == self.line.host() {
            &self.line.target.name
        } else {
            name
        }
    }

    /// Advances the clock without an observation.
    pub(super) fn advance_to(&mut self, seconds: f64, out: &mut Vec<String>) {
        let now = i64::try_from(micros(seconds).0).unwrap_or(i64::MAX);
        self.now = self.now.max(EventTime(now));
        self.advance(out);
    }

    pub(super) fn finish(mut self, out: &mut Vec<String>) {
        self.now = EventTime(i64::MAX);
        self.advance(out);
        out.push(self.counts.summary(Some(&self.engine)));
    }
}

fn outcome(channel: Channel, ok: bool, kind: Option<&str>) -> Outcome {
    if ok {
        return Outcome::Ok { status: None };
    }
    let dns = channel == Channel::Dns;
    let (phase, kind, status) = match kind.unwrap_or("unknown") {
        "timeout" if dns => (Phase::Resolve, FailureKind::ResolveTimeout, None),
        "refused" if dns => (Phase::Resolve, FailureKind::DnsRefused, None),
        "unreachable" if dns => (Phase::Resolve, FailureKind::ResolverUnreachable, None),
        "timeout" => (Phase::Connect, FailureKind::ConnectTimeout, None),
        "tls" => (Phase::Tls, FailureKind::TlsProtocol, None),
        "stall" => (Phase::Body, FailureKind::BodyStalled, None),
        "wrong_body" => (Phase::Check, FailureKind::WrongBody, None),
        word => {
            if let Some(status) = word.strip_prefix("http_").and_then(|s| s.parse().ok()) {
                (Phase::Check, FailureKind::Status, Some(status))
            } else {
                let phase = if dns { Phase::Resolve } else { Phase::Connect };
                (phase, FailureKind::from(std::borrow::Cow::Borrowed(word)), None)
            }
        }
    };
    Outcome::Failed { phase, kind, status }
}

/// Converts seconds to whole microseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers pass numbers between 0 and 1e9"
)]
fn micros(seconds: f64) -> Micros {
    Micros((seconds.clamp(0.0, 1e9) * 1e6 + 0.5) as u64)
}
