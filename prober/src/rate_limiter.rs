//! Limits the probe rate per target, whatever the plan says. Pure; the caller passes the time.
//!
//! One pair of addresses has some 28 000 ports a minute, and connection tracking remembers each for two minutes. Probes
//! over the budget are reported as a fault of the prober, never as a failure of the target.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::TargetId;
use tokio::time::Instant;

/// Sustained starts per second for one target, over all its assignments.
const STARTS_PER_SECOND: u32 = 50;

/// Maximum burst after an idle time.
const MAX_BURST: u32 = 100;

/// Targets remembered. Beyond that the state of all targets is reset, which can only let a burst through.
const MAX_TARGETS: usize = 8192;

/// A rate limiter by target, after the generic cell rate algorithm (GCRA).
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    /// The theoretical arrival time of each target: its budget is used up until then.
    arrival_times: BTreeMap<TargetId, Instant>,
}

impl RateLimiter {
    /// Reports whether a probe of the target may start now, and counts it if so.
    pub(crate) fn try_acquire(&mut self, target: &TargetId, now: Instant) -> bool {
        let step = Duration::from_secs(1) / STARTS_PER_SECOND;
        if self.arrival_times.len() >= MAX_TARGETS && !self.arrival_times.contains_key(target) {
            self.arrival_times.clear();
        }
        let spent = self
            .arrival_times
            .get(target)
            .map_or(now, |until| (*until).max(now));
        if spent - now > step * (MAX_BURST - 1) {
            return false;
        }
        self.arrival_times.insert(target.clone(), spent + step);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(n: usize) -> TargetId {
        format!("http://h{n}.example.test/").parse().unwrap()
    }

    fn started(governor: &mut RateLimiter, n: usize, now: Instant) -> usize {
        (0..1000)
            .filter(|_| governor.try_acquire(&target(n), now))
            .count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_has_a_burst_and_then_its_rate_and_others_have_their_own() {
        let mut governor = RateLimiter::default();
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
        let mut governor = RateLimiter::default();
        for n in 0..3 * MAX_TARGETS {
            assert!(governor.try_acquire(&target(n), Instant::now()));
        }
        assert!(governor.arrival_times.len() <= MAX_TARGETS);
    }
}
