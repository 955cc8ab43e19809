//! The engine task's end of the store: selects what to keep, and never blocks.

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

/// Time between two flushes of roll-ups: the most that a killed process loses.
const FLUSH: Micros = Micros::from_secs(60);

/// Time after which an open incident is written again if only its counts changed.
const REFRESH: Micros = Micros::from_secs(60);

/// Raw failures kept per target and hour; roll-ups count all of them.
const FAILURES: u32 = 100;

/// The state of an incident when it was last written, without counts: they change with every round.
#[derive(Debug, PartialEq)]
struct KeptIncidentKey {
    state: IncidentState,
    occurrences: u32,
    verdict: VerdictKey,
}

/// The parts of a verdict whose change is recorded.
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

/// Counts of one target since the last flush.
type TargetTally = BTreeMap<(EventTime, Channel, Placement), ProbeRollup>;

/// The engine task's end of the store.
#[derive(Debug)]
pub struct HistoryWriter {
    waiting: Arc<WriteQueue>,
    hold: Arc<StoreHold>,
    metrics: StoreMetrics,
    told: BTreeMap<String, (KeptIncidentKey, EventTime)>,
    /// The last judged round for which incidents were written.
    judged: Option<Round>,
    tallies: BTreeMap<TargetId, TargetTally>,
    flushed: Option<EventTime>,
    /// The current hour, and the raw failures kept in it.
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

    /// Keeps the store open for last writes after the engine task has ended.
    #[must_use]
    pub fn hold(&self) -> Arc<StoreHold> {
        Arc::clone(&self.hold)
    }

    /// After `engine.observe(recorded)`. History includes late observations.
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

    /// Writes what is new in a view.
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

    /// Queues the counts as roll-ups of both lengths.
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
    /// Queues the last counts when the engine task ends.
    fn drop(&mut self) {
        self.flush();
    }
}

/// Keeps the store open. After the last hold is dropped, the worker writes the rest of the queue and ends.
#[derive(Debug)]
pub struct StoreHold(Arc<WriteQueue>);

impl Drop for StoreHold {
    fn drop(&mut self) {
        self.0.close();
    }
}
