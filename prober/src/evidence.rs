//! Decides when TTL evidence is collected for the address of a front. Pure.
//!
//! It is collected after a failed connect, at most once per front and interval, and after the first and every twelfth
//! success, so that a failure can be compared with a success.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use parallax_model::{Channel, FailureKind, Outcome};
use tokio::time::Instant;

use crate::result::ProbeResult;

/// Successes between two collections.
const EVERY: u64 = 12;

/// Fronts remembered. Beyond that all are forgotten, which costs a few pings and bounds the memory.
const MOST_FRONTS: usize = 4096;

/// Maximum time a result waits for its TTL evidence.
const LONGEST: Duration = Duration::from_millis(500);
/// Below this a ping is not worth sending: the round trip of a ping between zones.
const SHORTEST: Duration = Duration::from_millis(20);
/// Fraction of an interval that stays free before the next start.
const MARGIN: u32 = 20;

/// Returns how long a result may wait for TTL evidence, `gone` after its scheduled start; `None` if there is too little
/// time. An assignment whose probe is still running is skipped, so the wait must end before the next start: otherwise a
/// front that times out late in the interval would be probed only every second round.
pub(crate) fn patience(interval: Duration, gone: Duration) -> Option<Duration> {
    let left = interval.saturating_sub(gone + interval / MARGIN);
    Some(left.min(LONGEST)).filter(|time| *time >= SHORTEST)
}

#[derive(Debug, Default)]
pub(crate) struct Evidence {
    fronts: BTreeMap<IpAddr, KnownEvidence>,
}

#[derive(Debug, Default)]
struct KnownEvidence {
    successes: u64,
    asked_on_failure: Option<Instant>,
}

impl Evidence {
    /// Returns the address for which to collect evidence after this result, if any.
    pub(crate) fn wanted(
        &mut self,
        result: &ProbeResult,
        interval: Duration,
        now: Instant,
    ) -> Option<IpAddr> {
        if result.channel != Channel::Vip {
            return None;
        }
        let address = result.front?.address.ip();
        if self.fronts.len() >= MOST_FRONTS && !self.fronts.contains_key(&address) {
            self.fronts.clear();
        }
        let known = self.fronts.entry(address).or_default();
        match &result.outcome {
            Outcome::Ok { .. } => {
                let compare = known.successes.is_multiple_of(EVERY);
                known.successes += 1;
                compare.then_some(address)
            }
            Outcome::Failed { kind, .. } if did_not_connect(kind) => {
                let rested = known.asked_on_failure.is_none_or(|at| now - at >= interval);
                rested.then(|| {
                    known.asked_on_failure = Some(now);
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
            ..ProbeResult::not_asked(&assignment, EventTime(0), OwnFault::Late)
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
        assert_eq!(patience(ms(10_000), ms(20)), Some(ms(500)));
        assert_eq!(patience(ms(3_000), ms(2_500)), Some(ms(350)));
        assert_eq!(patience(ms(3_000), ms(2_840)), None);
        assert_eq!(patience(ms(3_000), ms(7_000)), None);
    }

    #[test]
    fn the_first_and_every_twelfth_success_are_compared() {
        let mut evidence = Evidence::default();
        let ok = result("vip", Outcome::Ok { status: None });
        let asked: Vec<usize> = (0..25)
            .filter(|_| evidence.wanted(&ok, INTERVAL, Instant::now()).is_some())
            .collect();
        assert_eq!(asked, [0, 12, 24]);
    }

    #[test]
    fn a_failed_connect_asks_once_an_interval() {
        let mut evidence = Evidence::default();
        let refused = result("vip", failed(Phase::Connect, FailureKind::Refused));
        let now = Instant::now();
        assert!(evidence.wanted(&refused, INTERVAL, now).is_some());
        assert!(evidence.wanted(&refused, INTERVAL, now + INTERVAL / 2).is_none());
        assert!(evidence.wanted(&refused, INTERVAL, now + INTERVAL).is_some());
    }

    #[test]
    fn a_failure_behind_the_connect_and_any_other_channel_ask_nobody() {
        let mut evidence = Evidence::default();
        let status = result("vip", failed(Phase::Check, FailureKind::Status));
        let direct = result("direct", failed(Phase::Connect, FailureKind::Refused));
        assert_eq!(evidence.wanted(&status, INTERVAL, Instant::now()), None);
        assert_eq!(evidence.wanted(&direct, INTERVAL, Instant::now()), None);
    }
}
