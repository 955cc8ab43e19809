//! The round in which a cause began.

use std::collections::BTreeSet;

use parallax_model::Round;

use super::judgement::MIN_CLIENT_ROUNDS;
use crate::ids::VantageIx;

/// Failures before the first one of a cause that may be accidents.
const MAX_ACCIDENTS: usize = 2;
/// Distance of two failures, in rounds, beyond which the first one may be an accident.
const MAX_DISTANCE_ROUNDS: i64 = 2;
/// Probability of the quiet rounds, given how often the cause fails after them, below which what was before them is an accident.
const MAX_QUIET_PROBABILITY: f64 = 0.05;

/// Returns the first round of a cause's failures, which `client_rounds` lists by client; `None` if there are none.
///
/// Up to two failures before two or more quiet rounds are accidents if enough failures follow, and so often that the cause would
/// hardly have been quiet. Otherwise everything that succeeded between an accident and the true beginning would contradict the cause
/// in all subjects that it explains. A cause that fails seldom begins before its quiet rounds: what it did in other subjects
/// meanwhile would be a fault of theirs.
pub(super) fn first_failure(client_rounds: &BTreeSet<(Round, VantageIx)>) -> Option<Round> {
    let mut first = client_rounds.first()?.0;
    let pairs = client_rounds.iter().zip(client_rounds.iter().skip(1));
    for (accidents, ((before, _), (round, _))) in (1..=MAX_ACCIDENTS).zip(pairs) {
        let is_quiet = round.0 - before.0 > MAX_DISTANCE_ROUNDS;
        if is_quiet
            && client_rounds.len() >= accidents + MIN_CLIENT_ROUNDS
            && quiet_probability(client_rounds, (*before, *round)) < MAX_QUIET_PROBABILITY
        {
            first = *round;
        }
    }
    Some(first)
}

/// Returns the probability that a cause has no failure between two rounds, given the rounds with failures from the latter on: the
/// predictive distribution of a Bernoulli process whose rate has a uniform prior (Laplace's rule of succession).
fn quiet_probability(client_rounds: &BTreeSet<(Round, VantageIx)>, (before, first): (Round, Round)) -> f64 {
    let later: BTreeSet<i64> = client_rounds
        .iter()
        .map(|(round, _)| round.0)
        .filter(|round| *round >= first.0)
        .collect();
    let rounds = later.last().map_or(0, |last| last - first.0 + 1);
    let failing = i64::try_from(later.len()).unwrap_or(i64::MAX);
    let quiet = (0..first.0 - before.0 - 1).map(|passed| {
        #[expect(clippy::cast_precision_loss, reason = "numbers of rounds")]
        let share = (rounds - failing + 1 + passed) as f64 / (rounds + 2 + passed) as f64;
        share
    });
    quiet.product()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failures of two clients in turn, in these rounds.
    fn began(rounds: &[i64]) -> Option<i64> {
        let failures = rounds.iter().enumerate();
        let failures = failures.map(|(i, round)| (Round(*round), VantageIx(u32::try_from(i % 2).unwrap())));
        first_failure(&failures.collect()).map(|round| round.0)
    }

    #[test]
    fn accidents_before_quiet_rounds_are_not_the_beginning() {
        assert_eq!(began(&[]), None);
        assert_eq!(began(&[4, 5, 6, 7]), Some(4));
        assert_eq!(began(&[1, 5, 6, 7]), Some(5));
        assert_eq!(began(&[1, 2, 6, 6, 7, 8]), Some(6));
        assert_eq!(began(&[1, 5, 9, 10, 11]), Some(9));
    }

    /// Seen with a node that loses 8 % of its packets: what other subjects saw of it in the quiet rounds became a fault of a Pod.
    #[test]
    fn quiet_rounds_of_a_cause_that_fails_seldom_are_no_surprise() {
        assert_eq!(began(&[15, 19, 20, 22, 24, 27, 31, 32, 35]), Some(15));
        assert_eq!(began(&[15, 19, 20, 21, 22, 23, 24]), Some(19));
    }

    #[test]
    fn a_cause_with_few_or_rare_failures_begins_with_the_first() {
        assert_eq!(began(&[1, 5, 6]), Some(1), "three failures make a verdict");
        assert_eq!(began(&[1, 3, 5, 7, 9]), Some(1));
        assert_eq!(
            began(&[1, 2, 3, 9, 10, 11, 12]),
            Some(1),
            "three failures are none by chance"
        );
    }
}
