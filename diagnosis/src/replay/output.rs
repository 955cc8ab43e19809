//! Output lines, and the counters of a recording.

use std::collections::BTreeSet;

use parallax_model::{AssignmentId, Channel, Network, NodeName, PodName, Vantage};
use serde::Serialize;

use crate::{
    engine::{Engine, TentativeCause},
    incident::IncidentEvent,
    requests::{ProbeRequest, ProbeVariant, RequestDestination},
    verdict::{Incident, IncidentState, RegionRef, Subject},
};

/// One line of output. Probabilities have four digits, times are seconds of the recording.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutputLine<'a> {
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
    /// The recording was judged by another version of the engine when it was made.
    Engine {
        trial: u64,
        /// `None` if it states no version.
        recorded: Option<u32>,
        judged: u32,
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
pub(super) struct LikeliestRegion<'a> {
    region: &'a str,
    members: &'a [String],
    probability: f64,
    class: Vec<(&'a str, &'a [String])>,
}

impl OutputLine<'_> {
    pub(super) fn write(&self) -> String {
        // Strings, numbers and lists of them always serialize to JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Counters of a recording.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordCounts {
    pub(super) trial: u64,
    pub(super) observations: u64,
    pub(super) malformed: u64,
    pub(super) verdicts: u64,
    /// Omits the names of resolvers from members, as the trial format does.
    pub(super) omit_resolver_names: bool,
}

impl RecordCounts {
    /// Writes the events of the round that was just judged.
    pub(super) fn write_events(&mut self, engine: &Engine, out: &mut Vec<String>) {
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

    /// Writes the follow-up probes requested after the round that was just judged, one line per probe.
    pub(super) fn write_requests<'a>(
        self,
        engine: &'a Engine,
        recorded_name: &dyn Fn(&'a str) -> &'a str,
        out: &mut Vec<String>,
    ) {
        for ask in engine.new_probe_requests() {
            out.push(self.next_probe(ask, recorded_name));
        }
    }

    pub(super) fn summary(self, engine: Option<&Engine>) -> String {
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

    /// Formats a request as a line; `recorded_name` maps a name to the name in the recording.
    fn next_probe<'a>(self, ask: &'a ProbeRequest, recorded_name: &dyn Fn(&'a str) -> &'a str) -> String {
        let (mut backend, mut dst_node, mut name) = (None, None, None);
        match &ask.destination {
            RequestDestination::Entry(pod) => backend = Some(pod),
            RequestDestination::Peer(node) => dst_node = Some(node),
            RequestDestination::Name(queried) => name = Some(recorded_name(queried)),
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
pub(super) fn seconds(micros: i64) -> f64 {
    (micros / 1000) as f64 / 1000.0
}
