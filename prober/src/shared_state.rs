//! State that the tasks of the agent share and `/metrics` exposes: plan size, plan age, spools, running probes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use parallax_model::{EventTime, Incarnation, Resend};
use parking_lot::Mutex;

use crate::{
    clock::Clock,
    metrics::{Exposition, Metrics},
    replica_key::ReplicaKey,
    replica_spools::ReplicaSpools,
    result::ProbeResult,
    spool::{ObservationSpool, SpooledObservation},
};

/// State shared by plan stream, probes, reporters and echo. Its locks are held briefly and never across an await.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) metrics: Metrics,
    spools: Mutex<ReplicaSpools>,
    plan: Mutex<Plan>,
    /// Start times of the running probes, with the number of probes for each.
    running: Mutex<BTreeMap<EventTime, usize>>,
}

/// A report to send.
#[derive(Debug)]
pub(crate) struct ReportBatch {
    pub(crate) lines: Vec<SpooledObservation>,
    /// Observations dropped so far.
    pub(crate) dropped: u64,
    /// The watermark: every probe that started before this is in this report, in an earlier one, or was dropped.
    pub(crate) watermark: EventTime,
    /// The start of the oldest observation that can be resent.
    pub(crate) earliest_kept: Option<EventTime>,
    /// The incarnation of this aggregator for which a resend was queued.
    pub(crate) resent_for: Option<Incarnation>,
    /// Whether this is a resend.
    pub(crate) is_resend: bool,
}

#[derive(Debug)]
struct Plan {
    /// Time of the last line of the plan stream; the start of the prober before the first one.
    last_line: Instant,
    assignments: Option<u64>,
}

impl Status {
    pub(crate) fn new(spools: ReplicaSpools) -> Self {
        Self {
            metrics: Metrics::new(),
            spools: Mutex::new(spools),
            plan: Mutex::new(Plan {
                last_line: Instant::now(),
                assignments: None,
            }),
            running: Mutex::default(),
        }
    }

    /// Records a line of the plan stream.
    pub(crate) fn record_plan_line(&self) {
        self.plan.lock().last_line = Instant::now();
    }

    pub(crate) fn set_assignments(&self, assignments: usize) {
        self.plan.lock().assignments = Some(assignments as u64);
    }

    pub(crate) fn assignments(&self) -> Option<u64> {
        self.plan.lock().assignments
    }

    pub(crate) fn expose(&self, accept: &str) -> Result<Exposition, fmt::Error> {
        self.metrics.expose(accept, self.plan_age())
    }

    fn plan_age(&self) -> Duration {
        self.plan.lock().last_line.elapsed()
    }

    /// Adds a result to the spools and reports whether an urgent observation is waiting.
    pub(crate) fn push(&self, result: ProbeResult) -> bool {
        self.with_spools(|spools| {
            spools.push(result);
            spools.urgent()
        })
    }

    /// Sets the current aggregators.
    pub(crate) fn set_replicas(&self, keys: &BTreeSet<ReplicaKey>) {
        self.with_spools(|spools| spools.set_replicas(keys));
    }

    /// Whether an urgent observation is waiting for this aggregator.
    pub(crate) fn urgent(&self, key: &ReplicaKey) -> bool {
        self.spools.lock().get(key).is_some_and(ObservationSpool::urgent)
    }

    pub(crate) fn waiting(&self, key: &ReplicaKey) -> usize {
        self.spools.lock().get(key).map_or(0, ObservationSpool::len)
    }

    /// Records that a probe is about to start, and returns the time. The clock is read under the lock, so that
    /// [`Status::batch`] either sees the probe or reads an earlier time.
    pub(crate) fn probe_started(&self, clock: Clock) -> EventTime {
        let mut running = self.running.lock();
        let now = clock.now();
        *running.entry(now).or_default() += 1;
        now
    }

    /// Records that a probe has ended. Its result must already be in the spools.
    pub(crate) fn probe_ended(&self, since: EventTime) {
        let mut running = self.running.lock();
        if let Some(count) = running.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                running.remove(&since);
            }
        }
    }

    /// Returns the next report for an aggregator; `None` if the aggregator is gone.
    pub(crate) fn batch(&self, key: &ReplicaKey, clock: Clock) -> Option<ReportBatch> {
        // Running probes first, then the spool. A probe moves in the opposite order, so it is seen at least once.
        let oldest = {
            let running = self.running.lock();
            running
                .first_key_value()
                .map_or_else(|| clock.now(), |(since, _)| *since)
        };
        let mut spools = self.spools.lock();
        let (kept, resent) = (spools.earliest_kept(), spools.resent_for(key).cloned());
        let spool = spools.get_mut(key)?;
        let lines = spool.next_batch().to_vec();
        let complete = spool
            .earliest_waiting()
            .map_or(oldest, |behind| behind.min(oldest));
        Some(ReportBatch {
            lines,
            dropped: spool.dropped(),
            watermark: complete,
            earliest_kept: kept,
            resent_for: resent,
            is_resend: spool.in_flight_is_resend(),
        })
    }

    /// Queues the resend that an aggregator requests after its start.
    pub(crate) fn resend(&self, key: &ReplicaKey, wanted: &Resend) {
        self.spools.lock().resend(key, wanted);
    }

    /// Whether a resend to this aggregator is in progress.
    pub(crate) fn has_resend(&self, key: &ReplicaKey) -> bool {
        self.spools
            .lock()
            .get(key)
            .is_some_and(ObservationSpool::has_resend)
    }

    pub(crate) fn acknowledge(&self, key: &ReplicaKey) {
        self.with_spools(|spools| spools.get_mut(key).map(ObservationSpool::acknowledge));
    }

    pub(crate) fn reject(&self, key: &ReplicaKey) {
        self.with_spools(|spools| spools.get_mut(key).map(ObservationSpool::reject));
    }

    fn with_spools<T>(&self, change: impl FnOnce(&mut ReplicaSpools) -> T) -> T {
        let mut spools = self.spools.lock();
        let result = change(&mut spools);
        let most = spools.waiting().map(|(_, waiting)| waiting).max().unwrap_or(0);
        self.metrics.set_spool(most, spools.dropped());
        self.metrics.set_replica_spools(spools.waiting());
        result
    }
}

#[cfg(test)]
mod tests {
    use parallax_model::{Assignment, OwnFault};

    use super::*;

    fn result(at: EventTime) -> ProbeResult {
        let assignment: Assignment = serde_json::from_value(serde_json::json!({
            "id": "a", "target": "tcp://10.0.0.1:80", "channel": "vip",
            "probe": {"kind": "tcp", "host": "10.0.0.1", "port": 80},
            "dial": "resolve", "interval_us": 1, "timeout_us": 1,
        }))
        .unwrap();
        ProbeResult::not_made(&assignment, at, OwnFault::Late)
    }

    #[test]
    fn a_report_is_complete_up_to_the_oldest_probe_that_still_runs() {
        let (status, clock) = (Status::new(ReplicaSpools::new(9)), Clock::start());
        let before = clock.now();
        assert!(status.batch(&ReplicaKey::default(), clock).unwrap().watermark >= before);
        let slow = status.probe_started(clock);
        let quick = status.probe_started(clock);
        status.push(result(quick));
        status.probe_ended(quick);
        let batch = status.batch(&ReplicaKey::default(), clock).unwrap();
        assert_eq!((batch.lines.len(), batch.watermark), (1, slow));
    }

    #[test]
    fn a_report_sent_again_is_complete_only_up_to_what_came_since() {
        let (status, clock) = (Status::new(ReplicaSpools::new(9)), Clock::start());
        let first = status.probe_started(clock);
        let second = status.probe_started(clock);
        status.push(result(first));
        status.probe_ended(first);
        status.batch(&ReplicaKey::default(), clock).unwrap();
        status.push(result(second));
        status.probe_ended(second);
        let again = status.batch(&ReplicaKey::default(), clock).unwrap();
        assert_eq!((again.lines.len(), again.watermark), (1, second));
        status.acknowledge(&ReplicaKey::default());
        assert!(status.batch(&ReplicaKey::default(), clock).unwrap().watermark >= second);
    }
}
