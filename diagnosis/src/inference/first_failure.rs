//! The round in which a cause began.

use std::collections::BTreeSet;

use parallax_model::Round;

use super::judgement::MIN_CLIENT_ROUNDS;
use crate::ids::VantageIx;

/// Failures before the first one of a cause that may be accidents.
const MAX_ACCIDENTS: usize = 2;
/// Distance of two failures, in rounds, beyond which the first one may be an accident.
const MAX_DISTANCE_ROUNDS: i64 = 2;

/// Returns the first round of a cause's failures, which `client_rounds` lists by client; `None` if there are none.
///
/// Up to two failures before two or more quiet rounds are accidents if enough failures follow. Otherwise everything that succeeded
/// between an accident and the true beginning would contradict the cause in all subjects that it explains.
pub(super) fn first_failure(client_rounds: &BTreeSet<(Round, VantageIx)>) -> Option<Round> {
    let mut first = client_rounds.first()?.0;
    let pairs = client_rounds.iter().zip(client_rounds.iter().skip(1));
    for (accidents, ((before, _), (round, _))) in (1..=MAX_ACCIDENTS).zip(pairs) {
        let is_quiet = round.0 - before.0 > MAX_DISTANCE_ROUNDS;
        if is_quiet && client_rounds.len() >= accidents + MIN_CLIENT_ROUNDS {
            first = *round;
        }
    }
    Some(first)
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
        assert_eq!(began(&[1, 2, 6, 6, 7]), Some(6));
        assert_eq!(began(&[1, 5, 9, 10, 11]), Some(9));
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
