//! Recovery of a failed region: one sequential test over all probes that cross it.
//!
//! Wald's sequential probability ratio test (SPRT) of "still broken" against "healthy", pooled over clients and
//! rounds. The failure rate of the broken region is estimated from its own failures, so that a fault that loses
//! every probe is over after a few successes, and one that loses one in twenty only after hundreds. The estimate
//! is the lower bound of Wilson's score interval (Wilson 1927): a few failures prove no high rate.
//!
//! The same test closes incidents and discards evidence: failures before the region proved healthy say nothing
//! about its current state.

use std::collections::BTreeMap;

use parallax_model::Round;

use super::sequential_tests::{P0, healthy_bound};
use crate::{evidence::weights::to_probes, regions::share::PathShare};

/// One-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.645;
/// Bounds of the failure rate of a broken region.
const RATE_BOUNDS: (f64, f64) = (0.01, 0.8);
/// Minimum number of rounds without a failure, however many probes pass in them: a fault may pause.
const MIN_ROUNDS: i64 = 5;
/// Minimum number of rounds with a success among them.
const MIN_ROUNDS_WITH_SUCCESS: u32 = 2;

/// A fault that pauses repeatedly is over after this multiple of its longest pause. After a single pause it is over once it
/// has stayed away for [`MIN_ROUNDS`] longer: two faults of one region, one after the other, are no rhythm.
const PAUSE_FACTOR: i64 = 2;
/// A longer pause is not part of a rhythm.
const MAX_PAUSE: i64 = 24;
/// Failures in a round that end a pause, as a share of those expected of the fault. Fewer may be background.
const MIN_RESUMED_SHARE: f64 = 0.25;
/// Failure rate and pause of a fault that comes and goes; one that fails seldom has rounds without failures anyway.
const MIN_FLAPPING_RATE: f64 = 0.3;
const MIN_FLAPPING_PAUSE: i64 = 4;

/// Outcomes of the probes of one round that cross a region.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegionCrossing {
    failures: u64,
    /// Successes by the share of their paths that crosses the region.
    successes: BTreeMap<PathShare, u64>,
}

impl RegionCrossing {
    /// Adds a cell.
    pub(crate) fn add(&mut self, share: PathShare, failures: u64, successes: u64) {
        self.failures += failures;
        if successes > 0 {
            *self.successes.entry(share).or_default() += successes;
        }
    }

    /// Returns the expected number of successes that crossed the region.
    fn expected_successes(&self) -> f64 {
        let each = self.successes.iter();
        each.map(|(share, weight)| share.as_f64() * to_probes(*weight))
            .sum()
    }
}

/// State of the recovery test of one region.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecoveryProgress {
    /// Failures, and probes that crossed the region, up to the last failure.
    failures: f64,
    crossings: f64,
    last_failure: Option<Round>,
    /// Successes that crossed the region since the last failure.
    passed: f64,
    rounds_with_success: u32,
    log_likelihood_ratio: f64,
    latest_round: Option<Round>,
    /// Most rounds between two failures, up to [`MAX_PAUSE`].
    longest_pause: i64,
    /// Number of pauses.
    pauses: u32,
    /// How often the fault came back after a pause of at least [`MIN_FLAPPING_PAUSE`].
    resumptions: u32,
    /// First round of the fault, and the number of rounds with failures.
    first_failure: Option<Round>,
    failing_rounds: u32,
}

impl RecoveryProgress {
    /// Starts the test with the failures and crossing probes so far.
    pub(crate) fn after_failures(failures: f64, crossed: f64, last_failure: Round) -> Self {
        Self {
            failures,
            crossings: crossed,
            last_failure: Some(last_failure),
            latest_round: Some(last_failure),
            first_failure: Some(last_failure),
            failing_rounds: 1,
            ..Self::default()
        }
    }

    /// Adds a round. Rounds must ascend.
    pub(crate) fn step(&mut self, round: Round, crossing: &RegionCrossing) {
        self.latest_round = self.latest_round.max(Some(round));
        let passed = crossing.expected_successes();
        if crossing.failures > 0 {
            let failures = to_probes(crossing.failures);
            self.end_pause(round, failures, passed);
            self.failures += failures;
            self.crossings += self.passed + passed + failures;
            self.last_failure = Some(round);
            self.first_failure.get_or_insert(round);
            self.failing_rounds += 1;
            (self.passed, self.rounds_with_success, self.log_likelihood_ratio) = (0.0, 0, 0.0);
            return;
        }
        if crossing.successes.is_empty() {
            return;
        }
        self.passed += passed;
        self.rounds_with_success += 1;
        let rate = self.failure_rate_bound();
        for (share, weight) in &crossing.successes {
            let failing = share.as_f64() * rate + (1.0 - share.as_f64()) * P0;
            self.log_likelihood_ratio += to_probes(*weight) * libm::log((1.0 - failing) / (1.0 - P0));
        }
    }

    /// Records the pause that a round with failures ends.
    fn end_pause(&mut self, round: Round, failures: f64, passed: f64) {
        let Some(last) = self.last_failure.filter(|_| self.rounds_with_success > 0) else {
            return;
        };
        let pause = round.0 - last.0 - 1;
        let rate = self.failure_rate_bound();
        if pause > MAX_PAUSE || failures < MIN_RESUMED_SHARE * rate * (failures + passed) {
            return;
        }
        self.count_pause(pause);
        if pause >= MIN_FLAPPING_PAUSE && rate >= MIN_FLAPPING_RATE {
            self.resumptions += 1;
        }
    }

    /// Continues the rhythm of an earlier fault of the same region, which this one resumes.
    pub(crate) fn resuming(mut self, earlier: &Self) -> Self {
        self.longest_pause = earlier.longest_pause;
        self.pauses = earlier.pauses;
        self.first_failure = earlier.first_failure.or(self.first_failure);
        self.failing_rounds += earlier.failing_rounds;
        if let (Some(before), Some(now)) = (earlier.last_failure, self.last_failure) {
            let pause = now.0 - before.0 - 1;
            if pause <= MAX_PAUSE {
                self.count_pause(pause);
            }
        }
        self
    }

    fn count_pause(&mut self, pause: i64) {
        self.longest_pause = self.longest_pause.max(pause);
        self.pauses = self.pauses.saturating_add(1);
    }

    /// Returns how often the fault came back after a pause.
    pub(crate) const fn resumptions(&self) -> u32 {
        self.resumptions
    }

    /// Returns the share of rounds with failures between the first and the last one.
    pub(crate) fn duty_cycle(&self) -> Option<f64> {
        let rounds = self.last_failure?.0 - self.first_failure?.0 + 1;
        #[expect(clippy::cast_precision_loss, reason = "a number of rounds")]
        let share = f64::from(self.failing_rounds) / rounds.max(1) as f64;
        Some(share.min(1.0))
    }

    /// Returns the failures, and the probes that crossed the region, up to the last failure.
    pub(crate) const fn failure_counts(&self) -> (f64, f64) {
        (self.failures, self.crossings)
    }

    /// Returns the lower confidence bound of the failure rate of the broken region.
    fn failure_rate_bound(&self) -> f64 {
        if self.crossings <= 0.0 {
            return RATE_BOUNDS.1;
        }
        let (n, seen) = (self.crossings, (self.failures / self.crossings).min(1.0));
        let spread = Z * libm::sqrt(seen * (1.0 - seen) / n + Z * Z / (4.0 * n * n));
        ((seen + Z * Z / (2.0 * n) - spread) / (1.0 + Z * Z / n)).clamp(RATE_BOUNDS.0, RATE_BOUNDS.1)
    }

    /// Reports whether the region has proved healthy for longer than its fault pauses.
    pub(crate) fn is_over(&self) -> bool {
        let rhythm = PAUSE_FACTOR * self.longest_pause;
        let expected = if self.pauses > 1 {
            rhythm
        } else {
            rhythm.min(self.longest_pause + MIN_ROUNDS)
        };
        self.accepts_healthy() && self.passed_rounds() >= expected
    }

    /// Returns the number of rounds since the last failure.
    const fn passed_rounds(&self) -> i64 {
        match (self.last_failure, self.latest_round) {
            (Some(failed), Some(latest)) => latest.0 - failed.0,
            _ => i64::MAX,
        }
    }

    /// Reports whether the region has proved healthy since its last failure, although the fault may come back.
    pub(crate) fn accepts_healthy(&self) -> bool {
        self.passed_rounds() >= MIN_ROUNDS
            && self.rounds_with_success >= MIN_ROUNDS_WITH_SUCCESS
            && self.enough_passed()
    }

    /// Reports whether the probes since the last failure decide the test.
    fn enough_passed(&self) -> bool {
        self.log_likelihood_ratio <= healthy_bound()
    }

    /// Returns the last round with a failure if enough probes have passed since then. A pause of the fault looks the same.
    pub(crate) fn last_failure_before_successes(&self) -> Option<Round> {
        self.last_failure.filter(|_| self.enough_passed())
    }

    /// Reports whether a probe has passed since the last failure.
    pub(crate) fn has_successes_since_failure(&self) -> bool {
        self.log_likelihood_ratio < 0.0
    }
}

/// Returns the last round, if any, in which the region had proved healthy. Rounds must ascend.
pub(crate) fn healthy_until(rounds: impl Iterator<Item = (Round, RegionCrossing)>) -> Option<Round> {
    let mut recovery = RecoveryProgress::default();
    let mut healthy = None;
    for (round, crossing) in rounds {
        recovery.step(round, &crossing);
        // Before the first failure there is nothing to recover from.
        if recovery.last_failure.is_some() && recovery.accepts_healthy() {
            healthy = Some(round);
        }
        // Later failures belong to another fault, with its own rate.
        if healthy.is_some() && crossing.failures > 0 {
            recovery = RecoveryProgress::default();
            recovery.step(round, &crossing);
        }
    }
    healthy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::weights::ONE_PROBE;

    fn crossing(failures: u64, successes: u64) -> RegionCrossing {
        let mut crossing = RegionCrossing::default();
        crossing.add(PathShare::new(1, 1), failures * ONE_PROBE, successes * ONE_PROBE);
        crossing
    }

    /// Returns the rounds until recovery is accepted after `before`, with the given number of successes per round.
    fn rounds_to_recover(before: &[(u64, u64)], successes: u64) -> i64 {
        let mut recovery = RecoveryProgress::default();
        let mut round = 0;
        for (failures, successes) in before {
            recovery.step(Round(round), &crossing(*failures, *successes));
            round += 1;
        }
        let cured = round;
        while !recovery.accepts_healthy() {
            assert!(round < 10_000, "never recovers");
            recovery.step(Round(round), &crossing(0, successes));
            round += 1;
        }
        round - cured
    }

    #[test]
    fn what_lost_every_probe_recovers_after_the_fewest_rounds() {
        assert_eq!(rounds_to_recover(&[(3, 0); 10], 3), MIN_ROUNDS);
        assert_eq!(rounds_to_recover(&[(1, 0); 10], 1), MIN_ROUNDS);
    }

    #[test]
    fn what_loses_one_probe_in_twenty_recovers_only_after_hundreds() {
        let soft = [(1, 19); 40];
        let rounds = rounds_to_recover(&soft, 20);
        assert!((8..=20).contains(&rounds), "{rounds} rounds of 20 probes");
        assert_eq!(
            rounds_to_recover(&[(1, 0)], 1),
            23,
            "one failure does not prove a high rate"
        );
    }

    #[test]
    fn a_share_of_each_probe_takes_as_many_more() {
        let mut recovery = RecoveryProgress::after_failures(30.0, 30.0, Round(0));
        let mut half = RegionCrossing::default();
        half.add(PathShare::new(1, 2), 0, 4 * ONE_PROBE);
        for round in 1..=MIN_ROUNDS {
            recovery.step(Round(round), &half);
        }
        assert!(recovery.accepts_healthy());
        let mut tenth = RegionCrossing::default();
        tenth.add(PathShare::new(1, 10), 0, 4 * ONE_PROBE);
        let mut recovery = RecoveryProgress::after_failures(30.0, 30.0, Round(0));
        for round in 1..=MIN_ROUNDS {
            recovery.step(Round(round), &tenth);
        }
        assert!(!recovery.accepts_healthy());
    }

    #[test]
    fn silence_and_a_single_round_prove_nothing() {
        let mut recovery = RecoveryProgress::after_failures(30.0, 30.0, Round(0));
        for round in 1..100 {
            recovery.step(Round(round), &RegionCrossing::default());
        }
        assert!(!recovery.accepts_healthy() && !recovery.has_successes_since_failure());
        recovery.step(Round(100), &crossing(0, 1_000));
        assert!(!recovery.accepts_healthy() && recovery.has_successes_since_failure());
        recovery.step(Round(101), &crossing(0, 1));
        assert!(recovery.accepts_healthy());
    }

    #[test]
    fn evidence_ends_where_the_region_proved_healthy() {
        let history = |pattern: &[(u64, u64, usize)]| -> Vec<(Round, RegionCrossing)> {
            let rounds = pattern
                .iter()
                .flat_map(|(f, s, n)| std::iter::repeat_n((*f, *s), *n));
            (0..)
                .map(Round)
                .zip(rounds.map(|(f, s)| crossing(f, s)))
                .collect()
        };
        let cured = history(&[(0, 3, 5), (3, 0, 10), (0, 3, 20), (1, 2, 1)]);
        assert_eq!(healthy_until(cured.into_iter()), Some(Round(34)));
        let again = history(&[(3, 0, 10), (0, 3, 20), (3, 0, 2)]);
        assert_eq!(healthy_until(again.into_iter()), Some(Round(29)));
        let soft = history(&[(1, 19, 1), (0, 20, 1), (1, 19, 2), (0, 20, 2), (1, 19, 1)]);
        assert_eq!(healthy_until(soft.into_iter()), None);
        let never = history(&[(0, 3, 50)]);
        assert_eq!(healthy_until(never.into_iter()), None);
    }

    #[test]
    fn a_fault_that_comes_and_goes_is_over_after_twice_its_longest_pause() {
        let mut recovery = RecoveryProgress::default();
        let mut round = 0;
        let mut step = |recovery: &mut RecoveryProgress, failures, successes| {
            recovery.step(Round(round), &crossing(failures, successes));
            round += 1;
        };
        for _ in 0..3 {
            (0..4).for_each(|_| step(&mut recovery, 10, 0));
            (0..8).for_each(|_| step(&mut recovery, 0, 10));
        }
        assert_eq!(recovery.resumptions(), 2);
        let mut rounds = 8;
        while !recovery.is_over() {
            step(&mut recovery, 0, 10);
            rounds += 1;
        }
        assert_eq!(rounds, 16, "twice eight");
    }

    #[test]
    fn a_fault_that_returned_once_is_over_after_a_little_more_than_its_pause() {
        let healed = |failing: i64, pause: i64| {
            let mut first = RecoveryProgress::default();
            (0..failing).for_each(|round| first.step(Round(round), &crossing(10, 0)));
            let again = Round(failing + pause);
            let mut recovery = RecoveryProgress::after_failures(10.0, 10.0, again).resuming(&first);
            let mut round = again.0;
            while !recovery.is_over() {
                round += 1;
                recovery.step(Round(round), &crossing(0, 10));
            }
            round - again.0
        };
        assert_eq!(healed(4, 16), 16 + MIN_ROUNDS);
        assert_eq!(healed(4, 3), 3 * PAUSE_FACTOR);
        assert_eq!(healed(4, MAX_PAUSE + 1), MIN_ROUNDS, "not part of a rhythm");
    }

    #[test]
    fn a_chance_failure_after_the_cure_is_no_rhythm() {
        let mut recovery = RecoveryProgress::default();
        for round in 0..5 {
            recovery.step(Round(round), &crossing(20, 0));
        }
        for round in 5..40 {
            recovery.step(Round(round), &crossing(u64::from(round == 20), 20));
        }
        assert_eq!(recovery.resumptions(), 0);
        assert!(recovery.is_over());
        assert_eq!(recovery.longest_pause, 0);
    }
}
