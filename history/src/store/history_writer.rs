//! The hub's end of the store: picks what is worth keeping, and never waits.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use parallax_diagnosis::{
    ObservationResult,
    topology::Topology,
    verdict::{Incident, IncidentState, RegionRef, Subject},
    view::View,
};
use parallax_model::{Channel, EventTime, Micros, Outcome, Placement, Recorded, Round, TargetId};

use super::{
    StoreMetrics,
    rollup::{NOT_ASKED, OK, ProbeRollup, RollupKey, RollupStep},
    stored::{ChangeRow, IncidentRow},
    write_queue::WriteQueue,
};

/// How much of what was counted a killed process may lose.
const FLUSH: Micros = Micros::from_secs(60);

/// How often an open incident is kept anew though nothing but its counts changed.
const REFRESH: Micros = Micros::from_secs(60);

/// Raw failures kept of one target and hour; roll-ups count all of them.
const FAILURES: u32 = 100;

/// What was last kept of an incident. Its counts are left out: they change with every round and are no news.
#[derive(Debug, PartialEq)]
struct KeptIncidentKey {
    state: IncidentState,
    occurrences: u32,
    verdict: VerdictKey,
}

/// What makes a verdict another one.
#[derive(Debug, PartialEq)]
struct VerdictKey {
    subject: Subject,
    region: RegionRef,
    class: Vec<RegionRef>,
    causes: Vec<String>,
    targets: Vec<TargetId>,
}

impl KeptIncidentKey {
    fn of(incident: &Incident) -> Self {
        let verdict = &incident.verdict;
        Self {
            state: incident.state,
            occurrences: incident.occurrences,
            verdict: VerdictKey {
                subject: verdict.subject.clone(),
                region: verdict.region.clone(),
                class: verdict.class.clone(),
                causes: verdict.causes.iter().map(|cause| cause.id.clone()).collect(),
                targets: verdict.targets.clone(),
            },
        }
    }
}

/// Counts of one target until they are handed on.
type TargetTally = BTreeMap<(EventTime, Channel, Placement), ProbeRollup>;

/// The hub's end.
#[derive(Debug)]
pub struct HistoryWriter {
    waiting: Arc<WriteQueue>,
    hold: Arc<StoreHold>,
    metrics: StoreMetrics,
    told: BTreeMap<String, (KeptIncidentKey, EventTime)>,
    /// The round that was judged when incidents were last looked at.
    judged: Option<Round>,
    tallies: BTreeMap<TargetId, TargetTally>,
    flushed: Option<EventTime>,
    /// The hour, and raw failures kept in it.
    hour: EventTime,
    failures: BTreeMap<TargetId, u32>,
}

impl HistoryWriter {
    pub(super) fn new(waiting: Arc<WriteQueue>, metrics: StoreMetrics) -> Self {
        Self {
            hold: Arc::new(StoreHold(Arc::clone(&waiting))),
            waiting,
            metrics,
            told: BTreeMap::new(),
            judged: None,
            tallies: BTreeMap::new(),
            flushed: None,
            hour: EventTime::default(),
            failures: BTreeMap::new(),
        }
    }

    /// Keeps the store open beyond the hub, for whoever has a last word.
    #[must_use]
    pub fn hold(&self) -> Arc<StoreHold> {
        Arc::clone(&self.hold)
    }

    /// After `engine.observe(recorded)`. Late ones belong to history all the same.
    pub fn observed(&mut self, recorded: &Recorded, booked: ObservationResult, topology: &Topology) {
        let seen = &recorded.observation;
        let placement = match booked {
            ObservationResult::Unknown | ObservationResult::Implausible => return,
            ObservationResult::Counted { placement } => placement,
            ObservationResult::Late | ObservationResult::OwnFault => {
                topology.placement(&recorded.vantage, seen.front.as_ref(), seen.entry.as_ref())
            }
        };
        let result = match &seen.outcome {
            Outcome::Ok { .. } => OK,
            Outcome::Failed { kind, .. } => kind.metric_label(),
            Outcome::NotAsked { .. } => NOT_ASKED,
        };
        if !self.tallies.contains_key(&seen.target) {
            self.tallies.insert(seen.target.clone(), TargetTally::new());
        }
        if let Some(tally) = self.tallies.get_mut(&seen.target) {
            tally
                .entry((RollupStep::Fine.start(seen.at), seen.channel, placement))
                .or_default()
                .count(result, seen.times.total);
        }
        if seen.outcome.is_failure() {
            self.failed(recorded);
        }
    }

    fn failed(&mut self, recorded: &Recorded) {
        let target = &recorded.observation.target;
        let hour = RollupStep::Coarse.start(recorded.observation.at);
        if hour > self.hour {
            self.hour = hour;
            self.failures.clear();
        }
        let kept = self.failures.entry(target.clone()).or_default();
        if *kept < FAILURES {
            *kept += 1;
            self.waiting.failure(recorded.clone());
        } else {
            self.metrics.surplus_failure();
        }
    }

    /// With each view.
    pub fn published(&mut self, view: &View) {
        if self.judged != view.judged {
            self.judged = view.judged;
            self.incidents(view);
        }
        match self.flushed {
            Some(flushed) if view.at - flushed < FLUSH => {}
            _ => {
                self.flushed = Some(view.at);
                self.flush();
            }
        }
    }

    fn incidents(&mut self, view: &View) {
        for incident in &view.incidents {
            let told = KeptIncidentKey::of(incident);
            let before = self.told.get(&incident.id);
            let is_open = !matches!(incident.state, IncidentState::Closed { .. });
            let stale =
                before.is_none_or(|(before, at)| *before != told || is_open && view.at - *at >= REFRESH);
            if !stale {
                continue;
            }
            if before.is_none_or(|(before, _)| before.verdict != told.verdict) {
                self.waiting.change(ChangeRow {
                    incident: incident.id.clone(),
                    at: view.at,
                    verdict: incident.verdict.clone(),
                });
            }
            self.told.insert(incident.id.clone(), (told, view.at));
            self.waiting.incident(IncidentRow {
                incident: incident.clone(),
                seen: view.at,
            });
        }
        self.told
            .retain(|id, _| view.incidents.iter().any(|incident| incident.id == *id));
    }

    /// Hands on what was counted, for both lengths.
    fn flush(&mut self) {
        let tallies = std::mem::take(&mut self.tallies);
        self.waiting
            .rollups(tallies.into_iter().flat_map(|(target, tally)| {
                tally
                    .into_iter()
                    .flat_map(move |((start, channel, placement), rollup)| {
                        let key = |step: RollupStep| RollupKey {
                            start: step.start(start),
                            step,
                            target: target.clone(),
                            channel: Cow::Borrowed(channel.label()),
                            placement: Cow::Borrowed(placement.label()),
                        };
                        RollupStep::ALL.map(|step| (key(step), rollup.clone()))
                    })
            }));
    }
}

impl Drop for HistoryWriter {
    /// The hub is gone: the last counts are handed on.
    fn drop(&mut self) {
        self.flush();
    }
}

/// While anybody holds it, the store takes what it is given. After the last one the worker ends, once all of it is written.
#[derive(Debug)]
pub struct StoreHold(Arc<WriteQueue>);

impl Drop for StoreHold {
    fn drop(&mut self) {
        self.0.close();
    }
}
