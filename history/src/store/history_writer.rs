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
    rollup::{NOT_ASKED_RESULT, OK_RESULT, ProbeRollup, RollupKey, RollupStep},
    stored::{IncidentRow, VerdictRow},
    write_queue::WriteQueue,
};

/// Time between two flushes of roll-ups: the most that a killed process loses.
const FLUSH_INTERVAL: Micros = Micros::from_secs(60);

/// Time after which an open incident is written again if only its counts changed.
const REFRESH_INTERVAL: Micros = Micros::from_secs(60);

/// Raw failures kept per target and hour; roll-ups count all of them.
const MAX_FAILURES_PER_HOUR: u32 = 100;

/// The state of an incident when it was last written, without counts: they change with every round.
#[derive(Debug, PartialEq)]
struct WrittenIncidentKey {
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

impl WrittenIncidentKey {
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
    queue: Arc<WriteQueue>,
    hold: Arc<StoreHold>,
    metrics: StoreMetrics,
    written: BTreeMap<String, (WrittenIncidentKey, EventTime)>,
    /// The last judged round for which incidents were written.
    last_judged: Option<Round>,
    tallies: BTreeMap<TargetId, TargetTally>,
    flushed_at: Option<EventTime>,
    /// The current hour, and the raw failures kept in it.
    hour: EventTime,
    failures: BTreeMap<TargetId, u32>,
}

impl HistoryWriter {
    pub(super) fn new(waiting: Arc<WriteQueue>, metrics: StoreMetrics) -> Self {
        Self {
            hold: Arc::new(StoreHold(Arc::clone(&waiting))),
            queue: waiting,
            metrics,
            written: BTreeMap::new(),
            last_judged: None,
            tallies: BTreeMap::new(),
            flushed_at: None,
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
    pub fn record_observation(
        &mut self,
        recorded: &Recorded,
        result: ObservationResult,
        topology: &Topology,
    ) {
        let seen = &recorded.observation;
        let placement = match result {
            ObservationResult::Unknown | ObservationResult::Implausible | ObservationResult::OverBudget => {
                return;
            }
            ObservationResult::Accepted { placement } => placement,
            ObservationResult::Late | ObservationResult::ProberFault => {
                topology.placement(&recorded.vantage, seen.front.as_ref(), seen.entry.as_ref())
            }
        };
        let result = match &seen.outcome {
            Outcome::Ok { .. } => OK_RESULT,
            Outcome::Failed { kind, .. } => kind.metric_label(),
            Outcome::NotProbed { .. } => NOT_ASKED_RESULT,
        };
        if !self.tallies.contains_key(&seen.target) {
            self.tallies.insert(seen.target.clone(), TargetTally::new());
        }
        if let Some(tally) = self.tallies.get_mut(&seen.target) {
            tally
                .entry((
                    RollupStep::FiveMinutes.start(seen.started),
                    seen.channel,
                    placement,
                ))
                .or_default()
                .count(result, seen.times.total);
        }
        if seen.outcome.is_failure() {
            self.record_failure(recorded);
        }
    }

    fn record_failure(&mut self, recorded: &Recorded) {
        let target = &recorded.observation.target;
        let hour = RollupStep::Hour.start(recorded.observation.started);
        if hour > self.hour {
            self.hour = hour;
            self.failures.clear();
        }
        let kept = self.failures.entry(target.clone()).or_default();
        if *kept < MAX_FAILURES_PER_HOUR {
            *kept += 1;
            self.queue.push_failure(recorded.clone());
        } else {
            self.metrics.add_surplus_failure();
        }
    }

    /// Writes what is new in a view.
    pub fn record_view(&mut self, view: &View) {
        if self.last_judged != view.last_judged_round {
            self.last_judged = view.last_judged_round;
            self.write_incidents(view);
        }
        match self.flushed_at {
            Some(flushed) if view.at - flushed < FLUSH_INTERVAL => {}
            _ => {
                self.flushed_at = Some(view.at);
                self.flush();
            }
        }
    }

    fn write_incidents(&mut self, view: &View) {
        for incident in &view.incidents {
            let key = WrittenIncidentKey::of(incident);
            let before = self.written.get(&incident.id);
            let is_open = !matches!(incident.state, IncidentState::Closed { .. });
            let stale = before
                .is_none_or(|(before, at)| *before != key || is_open && view.at - *at >= REFRESH_INTERVAL);
            if !stale {
                continue;
            }
            if before.is_none_or(|(before, _)| before.verdict != key.verdict) {
                self.queue.push_change(VerdictRow {
                    incident: incident.id.clone(),
                    changed_at: view.at,
                    verdict: incident.verdict.clone(),
                });
            }
            self.written.insert(incident.id.clone(), (key, view.at));
            self.queue.push_incident(IncidentRow {
                incident: incident.clone(),
                seen_at: view.at,
            });
        }
        self.written
            .retain(|id, _| view.incidents.iter().any(|incident| incident.id == *id));
    }

    /// Queues the counts as roll-ups of both lengths.
    fn flush(&mut self) {
        let tallies = std::mem::take(&mut self.tallies);
        self.queue
            .push_rollups(tallies.into_iter().flat_map(|(target, tally)| {
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
