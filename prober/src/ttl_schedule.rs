//! Decides when TTL evidence is collected for the address of a front. Pure.
//!
//! It is collected after a failed connect, at most once per front and interval, and after the first and every twelfth
//! success, so that a failure can be compared with a success.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use parallax_model::{Channel, FailureKind, Outcome};
use tokio::time::Instant;

use crate::result::ProbeResult;

/// Successes between two collections.
const SUCCESSES_PER_COLLECTION: u64 = 12;

/// Fronts remembered. Beyond that all are forgotten, which costs a few pings and bounds the memory.
const MAX_FRONTS: usize = 4096;

/// Maximum time a result waits for its TTL evidence.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// Below this a ping is not worth sending: the round trip of a ping between zones.
const MIN_WAIT: Duration = Duration::from_millis(20);
/// Fraction of an interval that stays free before the next start.
const MARGIN: u32 = 20;

/// Returns how long a result may wait for TTL evidence, `gone` after its scheduled start; `None` if there is too little
/// time. An assignment whose probe is still running is skipped, so the wait must end before the next start: otherwise a
/// front that times out late in the interval would be probed only every second round.
pub(crate) fn max_wait(interval: Duration, gone: Duration) -> Option<Duration> {
    let left = interval.saturating_sub(gone + interval / MARGIN);
    Some(left.min(MAX_WAIT)).filter(|time| *time >= MIN_WAIT)
}

#[derive(Debug, Default)]
pub(crate) struct EvidenceSchedule {
    fronts: BTreeMap<IpAddr, FrontState>,
}

#[derive(Debug, Default)]
struct FrontState {
    successes: u64,
    last_failure_check: Option<Instant>,
}

impl EvidenceSchedule {
    /// Returns the address for which to collect evidence after this result, if any.
    pub(crate) fn address_to_check(
        &mut self,
        result: &ProbeResult,
        interval: Duration,
        now: Instant,
    ) -> Option<IpAddr> {
        if result.channel != Channel::Vip {
            return None;
        }
        let address = result.front?.address.ip();
        if self.fronts.len() >= MAX_FRONTS && !self.fronts.contains_key(&address) {
            self.fronts.clear();
        }
        let known = self.fronts.entry(address).or_default();
        match &result.outcome {
            Outcome::Ok { .. } => {
                let compare = known.successes.is_multiple_of(SUCCESSES_PER_COLLECTION);
                known.successes += 1;
                compare.then_some(address)
            }
            Outcome::Failed { kind, .. } if did_not_connect(kind) => {
                let rested = known.last_failure_check.is_none_or(|at| now - at >= interval);
                rested.then(|| {
                    known.last_failure_check = Some(now);
                    address
                })
            }
            _ => None,
        }
    }
}

fn did_not_connect(kind: &FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Refused
            | FailureKind::ConnectTimeout
            | FailureKind::Unreachable
            | FailureKind::Prohibited
    )
}

#[cfg(test)]
mod tests {
    use parallax_model::{Assignment, EventTime, Front, OwnFault, Phase};

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    fn result(channel: &str, outcome: Outcome) -> ProbeResult {
        let assignment: Assignment = serde_json::from_value(serde_json::json!({
            "id": "a", "target": "tcp://10.0.0.1:80", "channel": channel,
            "probe": {"kind": "tcp", "host": "10.0.0.1", "port": 80},
            "dial": "resolve", "interval_us": 1, "timeout_us": 1,
        }))
        .unwrap();
        ProbeResult {
            outcome,
            front: Some(Front::tcp("10.0.0.1:80".parse().unwrap())),
            ..ProbeResult::not_made(&assignment, EventTime(0), OwnFault::Late)
        }
    }

    fn failed(phase: Phase, kind: FailureKind) -> Outcome {
        Outcome::Failed {
            phase,
            kind,
            status: None,
        }
    }

    #[test]
    fn evidence_is_waited_for_until_shortly_before_the_next_start() {
        let ms = Duration::from_millis;
        assert_eq!(max_wait(ms(10_000), ms(20)), Some(ms(500)));
        assert_eq!(max_wait(ms(3_000), ms(2_500)), Some(ms(350)));
        assert_eq!(max_wait(ms(3_000), ms(2_840)), None);
        assert_eq!(max_wait(ms(3_000), ms(7_000)), None);
    }

    #[test]
    fn the_first_and_every_twelfth_success_are_compared() {
        let mut evidence = EvidenceSchedule::default();
        let ok = result("vip", Outcome::Ok { status: None });
        let checked: Vec<usize> = (0..25)
            .filter(|_| evidence.address_to_check(&ok, INTERVAL, Instant::now()).is_some())
            .collect();
        assert_eq!(checked, [0, 12, 24]);
    }

    #[test]
    fn a_failed_connect_asks_once_an_interval() {
        let mut evidence = EvidenceSchedule::default();
        let refused = result("vip", failed(Phase::Connect, FailureKind::Refused));
        let now = Instant::now();
        assert!(evidence.address_to_check(&refused, INTERVAL, now).is_some());
        assert!(
            evidence
                .address_to_check(&refused, INTERVAL, now + INTERVAL / 2)
                .is_none()
        );
        assert!(
            evidence
                .address_to_check(&refused, INTERVAL, now + INTERVAL)
                .is_some()
        );
    }

    #[test]
    fn later_failures_and_other_channels_collect_no_evidence() {
        let mut evidence = EvidenceSchedule::default();
        let status = result("vip", failed(Phase::Check, FailureKind::Status));
        let direct = result("direct", failed(Phase::Connect, FailureKind::Refused));
        assert_eq!(evidence.address_to_check(&status, INTERVAL, Instant::now()), None);
        assert_eq!(evidence.address_to_check(&direct, INTERVAL, Instant::now()), None);
    }
}
