//! The decisions of the store's thread, with a scripted store and a clock that the test moves.

mod availability;
mod continuation;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use parallax_diagnosis::verdict::IncidentState;
use parallax_model::Micros;
use parallax_runtime::Clock;

use super::{
    super::{
        error::{StoreError, StoreErrorKind},
        stored::{IncidentEnd, IncidentEnding, VerdictChange},
        write_queue::StoreWork,
    },
    *,
};
use crate::store::StoreMetrics;

/// How the store behaves, and what was written to it.
#[derive(Default)]
struct StoreScript {
    refuse_open: Option<StoreErrorKind>,
    refuse_write: Option<StoreErrorKind>,
    opened: usize,
    incidents: BTreeMap<String, IncidentSummary>,
    ends: Vec<(String, IncidentEnd)>,
    failures: Vec<u64>,
}

#[derive(Clone, Default)]
struct ScriptedStore(Arc<Mutex<StoreScript>>);

impl ScriptedStore {
    fn script<T>(&self, change: impl FnOnce(&mut StoreScript) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }
}

fn scripted_error(sort: Option<StoreErrorKind>) -> Result<(), StoreError> {
    sort.map_or(Ok(()), |sort| {
        Err(StoreError::new(sort, format!("{sort:?} as scripted")))
    })
}

impl StoreOpener for ScriptedStore {
    fn open(&mut self, _: EventTime) -> Result<(Box<dyn HistoryStore>, Vec<String>), StoreError> {
        self.script(|script| {
            script.opened += 1;
            scripted_error(script.refuse_open)
        })?;
        Ok((Box::new(self.clone()), Vec::new()))
    }

    fn location(&self) -> String {
        "a script".to_owned()
    }
}

impl HistoryStore for ScriptedStore {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.script(|script| {
            scripted_error(script.refuse_write)?;
            for (id, row) in &batch.incidents {
                script.incidents.insert(
                    id.clone(),
                    IncidentSummary::from_incident(&row.incident, row.seen_at),
                );
            }
            script.ends.extend(batch.ends.iter().cloned());
            script
                .failures
                .extend(batch.failures.iter().map(|one| one.observation.seq.0));
            Ok(())
        })
    }

    fn ended_incidents(
        &mut self,
        _: Option<&HistoryCursor>,
        _: usize,
    ) -> Result<Vec<StoredIncident>, StoreError> {
        Ok(Vec::new())
    }

    fn incident_summaries(&mut self, _: usize) -> Result<Vec<IncidentSummary>, StoreError> {
        let over = |script: &mut StoreScript| {
            script
                .incidents
                .values()
                .filter(|one| one.end.is_some())
                .cloned()
                .collect()
        };
        Ok(self.script(over))
    }

    fn unended_incidents(&mut self) -> Result<Vec<IncidentSummary>, StoreError> {
        let open = |script: &mut StoreScript| {
            script
                .incidents
                .values()
                .filter(|one| one.end.is_none())
                .cloned()
                .collect()
        };
        Ok(self.script(open))
    }

    fn incident(&mut self, _: &str) -> Result<Option<StoredIncident>, StoreError> {
        Ok(None)
    }

    fn verdict_changes(&mut self, _: &str) -> Result<Vec<VerdictChange>, StoreError> {
        Ok(Vec::new())
    }

    fn rollups(
        &mut self,
        _: RollupStep,
        _: &str,
        _: Range<EventTime>,
        _: usize,
    ) -> Result<Vec<(RollupKey, ProbeRollup)>, StoreError> {
        Ok(Vec::new())
    }

    fn failures(&mut self, _: &str, _: EventTime, _: usize) -> Result<Vec<serde_json::Value>, StoreError> {
        Ok(Vec::new())
    }

    fn put_document(&mut self, _: &StoredDocument) -> Result<(), StoreError> {
        Ok(())
    }

    fn documents(&mut self, _: DocumentKind, _: usize) -> Result<Vec<StoredDocument>, StoreError> {
        Ok(Vec::new())
    }

    fn document(&mut self, _: DocumentKind, _: &str) -> Result<Option<StoredDocument>, StoreError> {
        Ok(None)
    }

    fn prune_step(&mut self, _: EventTime) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn size_bytes(&mut self) -> Result<u64, StoreError> {
        Ok(7)
    }
}

/// A worker, its ends, and a monotonic clock under the test's control.
struct WorkerHarness {
    store: ScriptedStore,
    writer: HistoryWriter,
    worker: StoreWorker,
    handle: StoreHandle,
    metrics: StoreMetrics,
    now: Instant,
}

impl WorkerHarness {
    fn new(store: ScriptedStore, capacity: usize, clock: Clock) -> Self {
        let metrics = StoreMetrics::new();
        let (keeper, worker, handle) =
            StoreWorker::with_capacity(Box::new(store.clone()), clock, &metrics, capacity);
        Self {
            store,
            writer: keeper,
            worker,
            handle,
            metrics,
            now: Instant::now(),
        }
    }

    /// Runs one turn, `later` seconds after the last one.
    fn turn(&mut self, later: u64) {
        self.now += Duration::from_secs(later);
        let waiting = self.handle.queue.clone().unwrap();
        self.worker
            .turn(self.now, waiting.wait_for_work(Duration::ZERO, true));
    }

    fn status(&self) -> Status {
        self.handle.current_state().status.clone()
    }

    fn view(&mut self, incidents: Vec<Incident>, round: i64) {
        let mut view = fixtures::healthy();
        view.incidents = incidents;
        view.last_judged_round = Some(parallax_model::Round(round));
        view.at = NOW.plus(Micros::from_secs(round.unsigned_abs() * 5));
        self.writer.record_view(&view);
    }
}

fn harness(capacity: usize) -> WorkerHarness {
    WorkerHarness::new(ScriptedStore::default(), capacity, Clock::starting_at(NOW))
}

#[test]
fn a_full_queue_drops_and_counts_the_least_valuable_data() {
    let mut harness = harness(200);
    harness
        .store
        .script(|script| script.refuse_open = Some(StoreErrorKind::Unavailable));
    let topology = parallax_diagnosis::topology::Topology::default();
    for seq in 0..50 {
        let booked = parallax_diagnosis::ObservationResult::Late;
        harness
            .writer
            .record_observation(&failure(seq, NOW), booked, &topology);
    }
    harness.turn(0);
    assert_eq!(
        harness.metrics.dropped_by_store(PendingKind::Failure),
        0,
        "100 of 200 units"
    );
    // Two incidents and the first verdict of each take 128 units, two roll-ups one each.
    harness.view(
        vec![
            incident("i-1", IncidentState::Open),
            incident("i-2", IncidentState::Open),
        ],
        1,
    );
    assert_eq!(harness.metrics.dropped_by_store(PendingKind::Failure), 15);
    for i in 3..20 {
        harness.view(vec![incident(&format!("i-{i}"), IncidentState::Open)], i);
    }
    assert_eq!(harness.metrics.dropped_by_store(PendingKind::Failure), 50);
    assert_eq!(harness.metrics.dropped_by_store(PendingKind::Rollup), 2);
    assert!(harness.metrics.dropped_by_store(PendingKind::Verdict) > 0);
    harness.store.script(|script| script.refuse_open = None);
    harness.turn(60);
    let kept: Vec<_> = harness
        .store
        .script(|script| script.incidents.keys().cloned().collect());
    assert!(
        kept.contains(&"i-19".to_owned()),
        "the newest incident is kept: {kept:?}"
    );
}

#[test]
fn growing_counts_are_no_verdict_change_and_another_region_is() {
    let mut harness = harness(1_000);
    let mut one = incident("i-1", IncidentState::Open);
    harness.view(vec![one.clone()], 1);
    one.verdict.evidence[0].probes += 5;
    harness.view(vec![one.clone()], 2);
    let waiting = harness.handle.queue.clone().unwrap();
    let first = waiting.wait_for_work(Duration::ZERO, true).batch;
    assert_eq!(
        (first.changes.len(), first.incidents["i-1"].seen_at),
        (1, NOW.plus(Micros::from_secs(5)))
    );
    one.verdict.region.region = "client".to_owned();
    harness.view(vec![one.clone()], 3);
    let second = waiting.wait_for_work(Duration::ZERO, true).batch;
    assert_eq!((second.changes.len(), second.incidents.len()), (1, 1));
    // After a minute the counts are written too, without a change in the history of verdicts.
    harness.view(vec![one], 15);
    let third = waiting.wait_for_work(Duration::ZERO, true).batch;
    assert_eq!((third.changes.len(), third.incidents.len()), (0, 1));
}

#[test]
fn a_target_that_fails_all_the_time_keeps_a_hundred_raw_failures_an_hour() {
    let mut harness = harness(1_000);
    let topology = parallax_diagnosis::topology::Topology::default();
    for seq in 0..150 {
        harness.writer.record_observation(
            &failure(seq, NOW),
            parallax_diagnosis::ObservationResult::Late,
            &topology,
        );
    }
    let hour = Micros::from_secs(3_600);
    harness.writer.record_observation(
        &failure(999, NOW.plus(hour)),
        parallax_diagnosis::ObservationResult::Late,
        &topology,
    );
    harness.turn(0);
    assert_eq!(harness.store.script(|script| script.failures.len()), 101);
}

#[test]
fn work_without_anything_to_do_is_no_write() {
    let mut harness = harness(1_000);
    harness
        .store
        .script(|script| script.refuse_write = Some(StoreErrorKind::Full));
    harness.worker.turn(harness.now, StoreWork::default());
    assert_eq!(harness.status(), Status::Up);
}
