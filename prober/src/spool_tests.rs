//! Batches, retransmissions and evictions of the spool.

use parallax_model::{Assignment, EventTime, FailureKind, Outcome, OwnFault, Phase};

use super::*;
use crate::result::ProbeResult;

/// A spool and the sequence number of its next observation.
struct NumberedSpool(ObservationSpool, u64);

impl NumberedSpool {
    fn new(capacity: usize) -> Self {
        Self(ObservationSpool::new(capacity), 0)
    }

    fn push(&mut self, result: ProbeResult) {
        self.0
            .push(SpooledObservation::from_observation(&result.into_observation(ReportSeq(self.1))).unwrap());
        self.1 += 1;
    }
}

impl std::ops::Deref for NumberedSpool {
    type Target = ObservationSpool;
    fn deref(&self) -> &ObservationSpool {
        &self.0
    }
}

impl std::ops::DerefMut for NumberedSpool {
    fn deref_mut(&mut self) -> &mut ObservationSpool {
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
        ..ProbeResult::not_made(&assignment, EventTime(1), OwnFault::Late)
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

fn numbers(lines: &[SpooledObservation]) -> Vec<u64> {
    lines.iter().map(|line| line.seq.0).collect()
}

#[test]
fn reports_carry_everything_in_the_order_it_happened() {
    let mut spool = NumberedSpool::new(10);
    for result in [ok(), failed(), ok(), failed()] {
        spool.push(result);
    }
    assert_eq!(numbers(spool.next_batch()), [0, 1, 2, 3]);
}

#[test]
fn report_in_flight_is_stable_until_acknowledged() {
    let mut spool = NumberedSpool::new(10);
    spool.push(ok());
    assert_eq!(numbers(spool.next_batch()), [0]);
    spool.push(failed());
    assert_eq!(numbers(spool.next_batch()), [0], "resent unchanged");
    spool.acknowledge();
    assert_eq!(numbers(spool.next_batch()), [1]);
    spool.acknowledge();
    assert_eq!((spool.next_batch().len(), spool.len()), (0, 0));
}

#[test]
fn a_full_spool_drops_the_oldest_successes_first_and_failures_last() {
    let mut spool = NumberedSpool::new(3);
    for result in [failed(), ok(), ok(), failed()] {
        spool.push(result);
    }
    assert_eq!(spool.dropped(), 1);
    spool.push(failed());
    assert_eq!((spool.len(), spool.dropped()), (3, 2));
    spool.push(failed());
    assert_eq!(numbers(spool.next_batch()), [3, 4, 5], "then the oldest failure");
    assert_eq!(spool.dropped(), 3);
}

#[test]
fn report_in_flight_is_not_dropped() {
    let mut spool = NumberedSpool::new(2);
    spool.push(ok());
    spool.push(ok());
    spool.next_batch();
    spool.push(failed());
    assert_eq!(numbers(spool.next_batch()), [0, 1]);
    spool.acknowledge();
    assert_eq!((spool.len(), spool.dropped()), (0, 1));
}

#[test]
fn only_a_failure_is_urgent() {
    let mut spool = NumberedSpool::new(5);
    spool.push(ok());
    spool.push(result(Outcome::NotProbed {
        fault: OwnFault::Late,
    }));
    assert!(!spool.urgent());
    spool.push(failed());
    assert!(spool.urgent());
    spool.next_batch();
    assert!(spool.urgent(), "also while it is in flight");
    spool.acknowledge();
    assert!(!spool.urgent());
}

#[test]
fn a_refused_report_is_counted_as_dropped() {
    let mut spool = NumberedSpool::new(5);
    spool.push(ok());
    spool.push(failed());
    spool.next_batch();
    spool.reject();
    assert_eq!((spool.len(), spool.dropped()), (0, 2));
}

#[test]
fn what_waits_behind_a_report_is_known_by_its_earliest_start() {
    let mut spool = NumberedSpool::new(9);
    let at = |at| ProbeResult {
        started: EventTime(at),
        ..ok()
    };
    spool.push(at(5));
    spool.next_batch();
    assert_eq!(spool.earliest_waiting(), None);
    spool.push(at(9));
    spool.push(at(7));
    assert_eq!(spool.earliest_waiting(), Some(EventTime(7)));
}

#[test]
fn what_is_wanted_again_goes_first_in_reports_of_its_own_and_never_what_waits_anyway() {
    let mut spool = NumberedSpool::new(10);
    for _ in 0..3 {
        spool.push(ok());
    }
    let delivered = spool.next_batch().to_vec();
    spool.acknowledge();
    spool.push(failed());
    let waiting = SpooledObservation::from_observation(&failed().into_observation(ReportSeq(3))).unwrap();
    spool.resend(delivered.into_iter().chain([waiting]));
    assert_eq!(
        (spool.len(), spool.has_resend()),
        (1, true),
        "a resend takes no capacity"
    );
    assert_eq!(spool.earliest_waiting(), Some(EventTime(1)));
    assert_eq!(numbers(spool.next_batch()), [0, 1, 2]);
    assert!(spool.in_flight_is_resend());
    spool.acknowledge();
    assert_eq!(numbers(spool.next_batch()), [3]);
    assert!(!spool.in_flight_is_resend() && !spool.has_resend());
}

#[test]
fn a_refused_report_of_what_was_delivered_before_loses_nothing() {
    let mut spool = NumberedSpool::new(10);
    spool.push(ok());
    let delivered = spool.next_batch().to_vec();
    spool.acknowledge();
    spool.resend(delivered);
    spool.next_batch();
    spool.reject();
    assert_eq!((spool.dropped(), spool.has_resend()), (0, false));
}

#[test]
fn a_long_backlog_goes_in_bounded_reports() {
    let mut spool = NumberedSpool::new(MAX_REPORT_SIZE * 3);
    for _ in 0..=MAX_REPORT_SIZE {
        spool.push(ok());
    }
    assert_eq!(spool.next_batch().len(), MAX_REPORT_SIZE);
    spool.acknowledge();
    assert_eq!(numbers(spool.next_batch()), [MAX_REPORT_SIZE as u64]);
}
