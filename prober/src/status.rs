//! What the parts of the agent tell each other and the scraper: plan size, plan age, spool.

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
    result::ProbeResult,
    spool::{ObservationSpool, SpooledObservation},
    spools::ReplicaSpools,
};

/// Shared by plan, probes, reports and echo. Its locks are held for moments only and never across a wait.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) metrics: Metrics,
    spools: Mutex<ReplicaSpools>,
    plan: Mutex<Plan>,
    /// Starts of the probes under way, with how many share each.
    running: Mutex<BTreeMap<EventTime, usize>>,
}

/// A report to be sent.
#[derive(Debug)]
pub(crate) struct ReportBatch {
    pub(crate) lines: Vec<SpooledObservation>,
    /// Observations given up so far.
    pub(crate) dropped: u64,
    /// Every probe that started before this is in this report, in an earlier one, or was given up.
    pub(crate) complete: EventTime,
    /// The start of the oldest observation that could be sent again.
    pub(crate) kept: Option<EventTime>,
    /// The life of this aggregator for which that was queued.
    pub(crate) resent: Option<Incarnation>,
    /// All of this was delivered before.
    pub(crate) again: bool,
}

#[derive(Debug)]
struct Plan {
    /// When the aggregator last said something; the start where it never did.
    heard: Instant,
    assignments: Option<u64>,
}

impl Status {
    pub(crate) fn new(spools: ReplicaSpools) -> Self {
        Self {
            metrics: Metrics::new(),
            spools: Mutex::new(spools),
            plan: Mutex::new(Plan {
                heard: Instant::now(),
                assignments: None,
            }),
            running: Mutex::default(),
        }
    }

    /// A line of the plan stream came.
    pub(crate) fn heard(&self) {
        self.plan.lock().heard = Instant::now();
    }

    pub(crate) fn planned(&self, assignments: usize) {
        self.plan.lock().assignments = Some(assignments as u64);
    }

    pub(crate) fn assignments(&self) -> Option<u64> {
        self.plan.lock().assignments
    }

    pub(crate) fn expose(&self, accept: &str) -> Result<Exposition, fmt::Error> {
        self.metrics.expose(accept, self.plan_age())
    }

    fn plan_age(&self) -> Duration {
        self.plan.lock().heard.elapsed()
    }

    /// Spools a result; whether it wants to be sent at once.
    pub(crate) fn push(&self, result: ProbeResult) -> bool {
        self.with_spools(|spools| {
            spools.push(result);
            spools.urgent()
        })
    }

    /// From now on there are these aggregators.
    pub(crate) fn keep(&self, keys: &BTreeSet<ReplicaKey>) {
        self.with_spools(|spools| spools.keep(keys));
    }

    /// A failure waits for this one.
    pub(crate) fn urgent(&self, key: &ReplicaKey) -> bool {
        self.spools.lock().of(key).is_some_and(ObservationSpool::urgent)
    }

    pub(crate) fn waiting(&self, key: &ReplicaKey) -> usize {
        self.spools.lock().of(key).map_or(0, ObservationSpool::len)
    }

    /// A probe is about to start. The clock is read under the lock, so that [`Status::batch`] either sees the probe
    /// or reads an earlier time.
    pub(crate) fn started(&self, clock: Clock) -> EventTime {
        let mut running = self.running.lock();
        let now = clock.now();
        *running.entry(now).or_default() += 1;
        now
    }

    /// A probe has ended and its result is spooled.
    pub(crate) fn settled(&self, since: EventTime) {
        let mut running = self.running.lock();
        if let Some(count) = running.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                running.remove(&since);
            }
        }
    }

    /// The next report for one aggregator; nothing where it is no longer one.
    pub(crate) fn batch(&self, key: &ReplicaKey, clock: Clock) -> Option<ReportBatch> {
        // First who runs, then who waits: a probe goes the other way and is seen at least once.
        let oldest = {
            let running = self.running.lock();
            running
                .first_key_value()
                .map_or_else(|| clock.now(), |(since, _)| *since)
        };
        let mut spools = self.spools.lock();
        let (kept, resent) = (spools.kept(), spools.served(key).cloned());
        let spool = spools.of_mut(key)?;
        let lines = spool.batch().to_vec();
        let complete = spool
            .earliest_behind()
            .map_or(oldest, |behind| behind.min(oldest));
        Some(ReportBatch {
            lines,
            dropped: spool.dropped(),
            complete,
            kept,
            resent,
            again: spool.of_again(),
        })
    }

    /// An aggregator that is new wants what was delivered before.
    pub(crate) fn resend(&self, key: &ReplicaKey, wanted: &Resend) {
        self.spools.lock().resend(key, wanted);
    }

    /// Whether something is still to be sent to it again.
    pub(crate) fn resends(&self, key: &ReplicaKey) -> bool {
        self.spools.lock().of(key).is_some_and(ObservationSpool::resends)
    }

    pub(crate) fn acknowledge(&self, key: &ReplicaKey) {
        self.with_spools(|spools| spools.of_mut(key).map(ObservationSpool::acknowledge));
    }

    pub(crate) fn refuse(&self, key: &ReplicaKey) {
        self.with_spools(|spools| spools.of_mut(key).map(ObservationSpool::refuse));
    }

    fn with_spools<T>(&self, change: impl FnOnce(&mut ReplicaSpools) -> T) -> T {
        let mut spools = self.spools.lock();
        let result = change(&mut spools);
        let most = spools.waiting().map(|(_, waiting)| waiting).max().unwrap_or(0);
        self.metrics.spool(most, spools.dropped());
        self.metrics.replicas(spools.waiting());
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
        ProbeResult::not_asked(&assignment, at, OwnFault::Late)
    }

    #[test]
    fn a_report_is_complete_up_to_the_oldest_probe_that_still_runs() {
        let (status, clock) = (Status::new(ReplicaSpools::new(9)), Clock::start());
        let before = clock.now();
        assert!(status.batch(&ReplicaKey::default(), clock).unwrap().complete >= before);
        let slow = status.started(clock);
        let quick = status.started(clock);
        status.push(result(quick));
        status.settled(quick);
        let batch = status.batch(&ReplicaKey::default(), clock).unwrap();
        assert_eq!((batch.lines.len(), batch.complete), (1, slow));
    }

    #[test]
    fn a_report_sent_again_is_complete_only_up_to_what_came_since() {
        let (status, clock) = (Status::new(ReplicaSpools::new(9)), Clock::start());
        let first = status.started(clock);
        let second = status.started(clock);
        status.push(result(first));
        status.settled(first);
        status.batch(&ReplicaKey::default(), clock).unwrap();
        status.push(result(second));
        status.settled(second);
        let again = status.batch(&ReplicaKey::default(), clock).unwrap();
        assert_eq!((again.lines.len(), again.complete), (1, second));
        status.acknowledge(&ReplicaKey::default());
        assert!(status.batch(&ReplicaKey::default(), clock).unwrap().complete >= second);
    }
}
