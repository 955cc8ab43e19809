//! Limits the probe rate per target, whatever the plan says. Pure; the caller passes the time.
//!
//! One pair of addresses has some 28 000 ports a minute, and connection tracking remembers each for two minutes. Probes
//! over the budget are reported as a fault of the prober, never as a failure of the target.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::TargetId;
use tokio::time::Instant;

/// Sustained starts per second for one target, over all its assignments.
const A_SECOND: u32 = 50;

/// Maximum burst after an idle time.
const AT_ONCE: u32 = 100;

/// Targets remembered. Beyond that the state of all targets is reset, which can only let a burst through.
const MOST_TARGETS: usize = 8192;

/// A rate limiter by target, after the generic cell rate algorithm (GCRA).
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyLimiter {
    /// The theoretical arrival time of each target: its budget is used up until then.
    spent: BTreeMap<TargetId, Instant>,
}

impl ConcurrencyLimiter {
    /// Reports whether a probe of the target may start now, and counts it if so.
    pub(crate) fn allows(&mut self, target: &TargetId, now: Instant) -> bool {
        let step = Duration::from_secs(1) / A_SECOND;
        if self.spent.len() >= MOST_TARGETS && !self.spent.contains_key(target) {
            self.spent.clear();
        }
        let spent = self.spent.get(target).map_or(now, |until| (*until).max(now));
        if spent - now > step * (AT_ONCE - 1) {
            return false;
        }
        self.spent.insert(target.clone(), spent + step);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(n: usize) -> TargetId {
        format!("http://h{n}.example.test/").parse().unwrap()
    }

    fn started(governor: &mut ConcurrencyLimiter, n: usize, now: Instant) -> usize {
        (0..1000).filter(|_| governor.allows(&target(n), now)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_has_a_burst_and_then_its_rate_and_others_have_their_own() {
        let mut governor = ConcurrencyLimiter::default();
        let now = Instant::now();
        assert_eq!(started(&mut governor, 1, now), 100);
        assert_eq!(started(&mut governor, 1, now + Duration::from_secs(1)), 50);
        assert_eq!(started(&mut governor, 2, now), 100, "another target");
        assert_eq!(
            started(&mut governor, 1, now + Duration::from_mins(1)),
            100,
            "an idle time adds nothing beyond the burst"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let mut governor = ConcurrencyLimiter::default();
        for n in 0..3 * MOST_TARGETS {
            assert!(governor.allows(&target(n), Instant::now()));
        }
        assert!(governor.spent.len() <= MOST_TARGETS);
    }
}
