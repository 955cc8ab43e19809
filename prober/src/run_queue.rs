//! Probes of on-demand runs: made immediately, a few times, in addition to the schedule. Pure; the caller passes the
//! time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parallax_model::{Assignment, RunId, RunOrder, Vantage};
use tokio::time::Instant;

use crate::jitter;

/// Runs remembered, so that a run that a new plan stream repeats is not made again.
const MAX_REMEMBERED_RUNS: usize = 256;

/// Maximum number of waiting probes over all runs. Further probes are dropped: aggregators order small runs.
const MAX_WAITING: usize = 10_000;

/// Maximum number of rounds of one run.
const MAX_ROUNDS: u32 = 100;

/// The first probes of a run start spread over this time: short, because a user waits for the first result, but long
/// enough that not all probers of a mesh hit one front in the same millisecond.
const START_JITTER: Duration = Duration::from_millis(60);

/// Minimum time between two starts of one probe.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The waiting probes of all runs.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    known_runs: VecDeque<RunId>,
    due: BTreeMap<(Instant, u64), DueProbe>,
    next_sequence: u64,
}

#[derive(Debug)]
struct DueProbe {
    assignment: Arc<Assignment>,
    /// Number of further starts after this one.
    remaining_rounds: u32,
}

impl RunQueue {
    /// Queues the probes of an order. Returns false if the run is already known or has no rounds.
    pub(crate) fn enqueue(&mut self, order: RunOrder, vantage: &Vantage, now: Instant) -> bool {
        if self.known_runs.contains(&order.id) || order.rounds == 0 {
            return false;
        }
        if self.known_runs.len() >= MAX_REMEMBERED_RUNS {
            self.known_runs.pop_front();
        }
        self.known_runs.push_back(order.id);
        let vantage = vantage.to_string();
        for assignment in order.assignments {
            if self.due.len() >= MAX_WAITING {
                break;
            }
            let at = now + jitter::offset_within(START_JITTER, &[assignment.target.as_str(), &vantage]);
            let due = DueProbe {
                assignment: Arc::new(assignment),
                remaining_rounds: order.rounds.min(MAX_ROUNDS) - 1,
            };
            self.schedule(at, due);
        }
        true
    }

    fn schedule(&mut self, at: Instant, due: DueProbe) {
        self.due.insert((at, self.next_sequence), due);
        self.next_sequence += 1;
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes and returns the probes due by now, each with its delay.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<(Arc<Assignment>, Duration)> {
        let mut starts = Vec::new();
        while let Some(first) = self.due.first_entry() {
            let at = first.key().0;
            if at > now {
                break;
            }
            let DueProbe {
                assignment,
                remaining_rounds: left,
            } = first.remove();
            if let Some(left) = left.checked_sub(1) {
                let interval = Duration::from(assignment.interval).max(MIN_INTERVAL);
                let assignment = Arc::clone(&assignment);
                self.schedule(
                    at + interval,
                    DueProbe {
                        assignment,
                        remaining_rounds: left,
                    },
                );
            }
            starts.push((assignment, now - at));
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order(id: &str, rounds: u32) -> RunOrder {
        serde_json::from_value(json!({"id": id, "rounds": rounds, "assignments": [
            {"id": format!("run|{id}|vip|tcp://10.0.0.1:80"), "target": "tcp://10.0.0.1:80", "channel": "vip",
             "probe": {"kind": "tcp", "host": "10.0.0.1", "port": 80}, "dial": "resolve",
             "interval_us": 1_000_000, "timeout_us": 500_000}]}))
        .unwrap()
    }

    fn vantage() -> Vantage {
        "n1/pod".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_probe_starts_at_once_and_each_round_an_interval_later_and_then_it_is_over() {
        let mut orders = RunQueue::default();
        let now = Instant::now();
        assert!(orders.enqueue(order("r-1", 3), &vantage(), now));
        let mut starts = Vec::new();
        while let Some(at) = orders.next_due() {
            assert_eq!(orders.take_due(at).len(), 1);
            starts.push(at - now);
        }
        assert!(starts[0] < START_JITTER);
        assert_eq!(starts[1].checked_sub(starts[0]), Some(Duration::from_secs(1)));
        assert_eq!(starts.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_a_new_stream_tells_again_is_not_made_again() {
        let mut orders = RunQueue::default();
        let now = Instant::now();
        assert!(orders.enqueue(order("r-1", 1), &vantage(), now));
        assert_eq!(orders.take_due(now + START_JITTER).len(), 1);
        assert!(!orders.enqueue(order("r-1", 1), &vantage(), now));
        assert_eq!(orders.next_due(), None);
        assert!(orders.enqueue(order("r-2", 1), &vantage(), now));
    }

    #[tokio::test(start_paused = true)]
    async fn however_large_an_order_is_what_waits_is_bounded() {
        let mut orders = RunQueue::default();
        let mut large = order("r-1", u32::MAX);
        large.assignments = vec![large.assignments[0].clone(); MAX_WAITING + 7];
        orders.enqueue(large, &vantage(), Instant::now());
        assert_eq!(orders.due.len(), MAX_WAITING);
        assert!(orders.due.values().all(|due| due.remaining_rounds < MAX_ROUNDS));
        let mut none = order("r-2", 0);
        none.assignments.clear();
        assert!(!orders.enqueue(none, &vantage(), Instant::now()));
    }
}
