//! Observations that wait for one aggregator: bounded, in order, each until it is acknowledged. Pure.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use parallax_model::{EventTime, Observation, ReportSeq};

/// Observations in one report at most; about half a megabyte before compression.
pub(crate) const BATCH: usize = 2_000;

/// One observation, serialised once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) seq: ReportSeq,
    at: EventTime,
    /// A failure, or what somebody waits for who asked for a run: sent at once, given up last.
    urgent: bool,
    pub(crate) json: Bytes,
}

impl Line {
    pub(crate) fn of(observation: &Observation) -> serde_json::Result<Self> {
        Ok(Self {
            seq: observation.seq,
            at: observation.at,
            urgent: observation.outcome.is_failure()
                || observation
                    .assignment
                    .as_ref()
                    .is_some_and(|id| id.run().is_some()),
            json: serde_json::to_vec(observation)?.into(),
        })
    }
}

/// The bounded buffer. When it is full the oldest success goes first, and failures only when nothing else is left.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    capacity: usize,
    /// Two queues, each in order of number; reports take from both in order.
    failures: VecDeque<Line>,
    others: VecDeque<Line>,
    /// The report under way. It is never dropped: the aggregator may already have it.
    batch: Vec<Line>,
    dropped: u64,
}

impl Spool {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            failures: VecDeque::new(),
            others: VecDeque::new(),
            batch: Vec::new(),
            dropped: 0,
        }
    }

    /// Takes an observation. Numbers only grow.
    pub(crate) fn put(&mut self, line: Line) {
        let queue = if line.urgent {
            &mut self.failures
        } else {
            &mut self.others
        };
        queue.push_back(line);
        while self.len() > self.capacity && self.drop_one() {}
    }

    /// Everything that waits in one or the other, once.
    pub(crate) fn joined(self, other: Self) -> Self {
        let dropped = self.dropped.max(other.dropped);
        let capacity = self.capacity.max(other.capacity);
        let lines: BTreeMap<u64, Line> = [self, other]
            .into_iter()
            .flat_map(|spool| spool.batch.into_iter().chain(spool.failures).chain(spool.others))
            .map(|line| (line.seq.0, line))
            .collect();
        let mut joined = Self {
            dropped,
            ..Self::new(capacity)
        };
        for line in lines.into_values() {
            joined.put(line);
        }
        joined
    }

    fn drop_one(&mut self) -> bool {
        let gone = self.others.pop_front().or_else(|| self.failures.pop_front());
        self.dropped += u64::from(gone.is_some());
        gone.is_some()
    }

    /// Observations that are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.batch.len() + self.failures.len() + self.others.len()
    }

    /// Observations given up since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether a failure or a result of a run waits: it is sent at once.
    pub(crate) fn urgent(&self) -> bool {
        !self.failures.is_empty() || self.batch.iter().any(|line| line.urgent)
    }

    /// The next report: the one under way until it is settled, else the oldest observations in order.
    pub(crate) fn batch(&mut self) -> &[Line] {
        if self.batch.is_empty() {
            while self.batch.len() < BATCH {
                let failure_first = match (self.failures.front(), self.others.front()) {
                    (Some(failure), Some(other)) => failure.seq < other.seq,
                    (failure, _) => failure.is_some(),
                };
                let queue = if failure_first {
                    &mut self.failures
                } else {
                    &mut self.others
                };
                let Some(line) = queue.pop_front() else { break };
                self.batch.push(line);
            }
        }
        &self.batch
    }

    /// The earliest start among observations that wait behind the report under way.
    pub(crate) fn earliest_behind(&self) -> Option<EventTime> {
        self.failures.iter().chain(&self.others).map(|line| line.at).min()
    }

    /// The aggregator has the report.
    pub(crate) fn acknowledge(&mut self) {
        self.batch.clear();
        self.batch.shrink_to(BATCH / 8);
    }

    /// The aggregator will never take the report.
    pub(crate) fn refuse(&mut self) {
        self.dropped += self.batch.len() as u64;
        self.acknowledge();
    }
}

#[cfg(test)]
mod tests {
    use parallax_model::{Assignment, EventTime, FailureKind, Outcome, OwnFault, Phase};

    use super::*;
    use crate::result::ProbeResult;

    /// A spool, and the number of its next observation.
    struct Numbered(Spool, u64);

    impl Numbered {
        fn new(capacity: usize) -> Self {
            Self(Spool::new(capacity), 0)
        }

        fn push(&mut self, result: ProbeResult) {
            self.0
                .put(Line::of(&result.into_observation(ReportSeq(self.1))).unwrap());
            self.1 += 1;
        }
    }

    impl std::ops::Deref for Numbered {
        type Target = Spool;
        fn deref(&self) -> &Spool {
            &self.0
        }
    }

    impl std::ops::DerefMut for Numbered {
        fn deref_mut(&mut self) -> &mut Spool {
            &mut self.0
        }
    }

    fn result(outcome: Outcome) -> ProbeResult {
        let assignment: Assignment = serde_json::from_value(serde_json::json!({
            "id": "a", "target": "tcp://10.0.0.1:80", "channel": "vip",
            "probe": {"kind": "tcp", "host": "10.0.0.1", "port": 80},
            "dial": "resolve", "interval_us": 1, "timeout_us": 1,
        }))
        .unwrap();
        ProbeResult {
            outcome,
            ..ProbeResult::not_asked(&assignment, EventTime(1), OwnFault::Late)
        }
    }

    fn ok() -> ProbeResult {
        result(Outcome::Ok { status: None })
    }

    fn failed() -> ProbeResult {
        result(Outcome::Failed {
            phase: Phase::Connect,
            kind: FailureKind::Refused,
            status: None,
        })
    }

    fn numbers(lines: &[Line]) -> Vec<u64> {
        lines.iter().map(|line| line.seq.0).collect()
    }

    #[test]
    fn reports_carry_everything_in_the_order_it_happened() {
        let mut spool = Numbered::new(10);
        for result in [ok(), failed(), ok(), failed()] {
            spool.push(result);
        }
        assert_eq!(numbers(spool.batch()), [0, 1, 2, 3]);
    }

    #[test]
    fn the_report_under_way_stays_the_same_until_it_is_settled() {
        let mut spool = Numbered::new(10);
        spool.push(ok());
        assert_eq!(numbers(spool.batch()), [0]);
        spool.push(failed());
        assert_eq!(numbers(spool.batch()), [0], "resent as it was");
        spool.acknowledge();
        assert_eq!(numbers(spool.batch()), [1]);
        spool.acknowledge();
        assert_eq!((spool.batch().len(), spool.len()), (0, 0));
    }

    #[test]
    fn a_full_spool_drops_the_oldest_successes_first_and_failures_last() {
        let mut spool = Numbered::new(3);
        for result in [failed(), ok(), ok(), failed()] {
            spool.push(result);
        }
        assert_eq!(spool.dropped(), 1);
        spool.push(failed());
        assert_eq!((spool.len(), spool.dropped()), (3, 2));
        spool.push(failed());
        assert_eq!(numbers(spool.batch()), [3, 4, 5], "then the oldest failure");
        assert_eq!(spool.dropped(), 3);
    }

    #[test]
    fn what_is_under_way_is_not_dropped() {
        let mut spool = Numbered::new(2);
        spool.push(ok());
        spool.push(ok());
        spool.batch();
        spool.push(failed());
        assert_eq!(numbers(spool.batch()), [0, 1]);
        spool.acknowledge();
        assert_eq!((spool.len(), spool.dropped()), (0, 1));
    }

    #[test]
    fn only_a_failure_is_urgent() {
        let mut spool = Numbered::new(5);
        spool.push(ok());
        spool.push(result(Outcome::NotAsked { own: OwnFault::Late }));
        assert!(!spool.urgent());
        spool.push(failed());
        assert!(spool.urgent());
        spool.batch();
        assert!(spool.urgent(), "also while it is under way");
        spool.acknowledge();
        assert!(!spool.urgent());
    }

    #[test]
    fn a_refused_report_is_counted_as_dropped() {
        let mut spool = Numbered::new(5);
        spool.push(ok());
        spool.push(failed());
        spool.batch();
        spool.refuse();
        assert_eq!((spool.len(), spool.dropped()), (0, 2));
    }

    #[test]
    fn what_waits_behind_a_report_is_known_by_its_earliest_start() {
        let mut spool = Numbered::new(9);
        let at = |at| ProbeResult {
            at: EventTime(at),
            ..ok()
        };
        spool.push(at(5));
        spool.batch();
        assert_eq!(spool.earliest_behind(), None);
        spool.push(at(9));
        spool.push(at(7));
        assert_eq!(spool.earliest_behind(), Some(EventTime(7)));
    }

    #[test]
    fn a_long_backlog_goes_in_bounded_reports() {
        let mut spool = Numbered::new(BATCH * 3);
        for _ in 0..=BATCH {
            spool.push(ok());
        }
        assert_eq!(spool.batch().len(), BATCH);
        spool.acknowledge();
        assert_eq!(numbers(spool.batch()), [BATCH as u64]);
    }
}
