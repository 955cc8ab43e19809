//! Notices that the prober runs late, because its machine or its CPU limit leaves it too little time.
//!
//! A prober that starts its probes late also reads the responses late, and the processes beside it respond late. A probe that
//! times out meanwhile shows nothing about its target.

use std::time::{Duration, Instant};

use parallax_model::{Assignment, KindClass, Outcome, OwnFault, ProbeSpec};
use parking_lot::Mutex;

use crate::result::ProbeResult;

/// Delay from which the prober lacks CPU time: two periods of a CPU quota (`cpu.max`, 100 ms by default), of which a
/// throttled container misses one at most at a time. Ordinary scheduling takes a few milliseconds.
const MIN_LAG: Duration = Duration::from_millis(200);

/// The last time at which the prober was noticed to run late.
#[derive(Debug, Default)]
pub(crate) struct SchedulingLag {
    last: Mutex<Option<Instant>>,
}

impl SchedulingLag {
    /// Records that an event is handled at `now`, `delay` after it was due.
    pub(crate) fn record(&self, now: Instant, delay: Duration) {
        if delay >= MIN_LAG {
            let mut last = self.last.lock();
            *last = (*last).max(Some(now));
        }
    }

    /// Marks the result of a probe as a fault of the prober if the probe timed out and the prober ran late since it began.
    pub(crate) fn disown_timeout(
        &self,
        (begun, now): (Instant, Instant),
        assignment: &Assignment,
        result: &mut ProbeResult,
    ) {
        let Outcome::Failed { kind, status, .. } = &result.outcome else {
            return;
        };
        if !matches!(kind.class(*status), KindClass::Timeout | KindClass::Stall) {
            return;
        }
        // The other probes have several deadlines.
        if !matches!(assignment.probe, ProbeSpec::Challenge(_) | ProbeSpec::Names(_)) {
            self.record(now, (now - begun).saturating_sub(assignment.timeout.into()));
        }
        if self.last.lock().is_some_and(|last| last >= begun) {
            result.outcome = Outcome::NotProbed {
                fault: OwnFault::Late,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use parallax_model::{EventTime, FailureKind, Phase};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);
    const ORDINARY: Duration = Duration::from_millis(20);

    fn assignment() -> Assignment {
        serde_json::from_value(serde_json::json!({
            "id": "a", "target": "tcp://10.0.0.1:80", "channel": "vip",
            "probe": {"kind": "tcp", "host": "10.0.0.1", "port": 80},
            "dial": "resolve", "interval_us": 5_000_000, "timeout_us": 3_000_000,
        }))
        .unwrap()
    }

    /// Returns whether a probe that began at `begun` and failed with `kind` after `took` counts as a failure of its target.
    fn counts(lag: &SchedulingLag, begun: Instant, kind: FailureKind, took: Duration) -> bool {
        let assignment = assignment();
        let mut result = ProbeResult {
            outcome: Outcome::Failed {
                phase: Phase::Connect,
                kind,
                status: None,
            },
            ..ProbeResult::not_made(&assignment, EventTime(0), OwnFault::Stopping)
        };
        lag.disown_timeout((begun, begun + took), &assignment, &mut result);
        let late = Outcome::NotProbed {
            fault: OwnFault::Late,
        };
        assert!(result.outcome.is_failure() || result.outcome == late);
        result.outcome.is_failure()
    }

    #[test]
    fn a_timeout_of_a_prober_with_ordinary_delays_is_a_failure() {
        let lag = SchedulingLag::default();
        let begun = Instant::now();
        lag.record(begun, ORDINARY);
        assert!(counts(
            &lag,
            begun,
            FailureKind::ConnectTimeout,
            TIMEOUT + ORDINARY
        ));
    }

    #[test]
    fn a_timeout_while_the_prober_runs_late_is_its_own_fault_and_no_other_failure_is() {
        let lag = SchedulingLag::default();
        let begun = Instant::now();
        lag.record(begun + TIMEOUT / 2, MIN_LAG);
        assert!(!counts(&lag, begun, FailureKind::FirstByteTimeout, TIMEOUT));
        assert!(!counts(&lag, begun, FailureKind::BodyStalled, TIMEOUT));
        assert!(counts(&lag, begun, FailureKind::Refused, TIMEOUT));
        assert!(counts(&lag, begun, FailureKind::ServFail, TIMEOUT));
    }

    #[test]
    fn a_delay_before_the_probe_began_does_not_count() {
        let lag = SchedulingLag::default();
        let begun = Instant::now();
        lag.record(begun, MIN_LAG);
        let next = begun + ORDINARY;
        assert!(counts(&lag, next, FailureKind::ConnectTimeout, TIMEOUT));
        assert!(!counts(&lag, begun, FailureKind::ConnectTimeout, TIMEOUT));
    }

    #[test]
    fn a_deadline_noticed_late_is_a_delay_for_every_probe_that_was_running() {
        let lag = SchedulingLag::default();
        let begun = Instant::now();
        assert!(!counts(
            &lag,
            begun,
            FailureKind::ConnectTimeout,
            TIMEOUT + MIN_LAG
        ));
        assert!(!counts(
            &lag,
            begun + TIMEOUT,
            FailureKind::ConnectTimeout,
            TIMEOUT
        ));
    }
}
