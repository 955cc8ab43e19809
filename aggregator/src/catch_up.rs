//! Whether a newly started aggregator has enough evidence to report the status ok.

use parallax_diagnosis::view::{VantageState, View};
use parallax_model::{EventTime, Micros};

/// Number of judged rounds after which a hard failure would have been detected and its cause named.
const MIN_JUDGED_ROUNDS: u64 = 6;

/// Number of rounds after which catching up ends in any case; missing vantages then count as missing coverage.
const MAX_CATCH_UP_ROUNDS: u64 = 24;

/// Reports whether the aggregator, started at `start`, is still catching up. Observations are known from `evidence` on,
/// which is before the start if the probers have resent their buffers.
pub(crate) fn is_catching_up(view: &View, now: EventTime, start: EventTime, evidence: EventTime) -> bool {
    let rounds = |from: EventTime, count: u64| from.plus(Micros(view.interval.0.saturating_mul(count)));
    if now >= rounds(start, MAX_CATCH_UP_ROUNDS) {
        return false;
    }
    let judged = view
        .last_judged_round
        .is_some_and(|round| round.end(view.interval) >= rounds(evidence, MIN_JUDGED_ROUNDS));
    let waiting = view
        .vantages
        .iter()
        .any(|vantage| vantage.state == VantageState::Waiting);
    !judged || waiting
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::view::View;
    use parallax_model::Round;

    use super::*;
    use parallax_fixtures as fixtures;

    /// Rounds take 5 s; the aggregator starts with round 100.
    const START: EventTime = EventTime(500_000_000);

    fn at(round: u64) -> EventTime {
        START.plus(Micros::from_secs(5 * round))
    }

    fn judged(round: i64) -> View {
        View {
            last_judged_round: Some(Round(round)),
            ..fixtures::healthy()
        }
    }

    #[test]
    fn nothing_judged_is_catching_up_until_two_dozen_rounds_have_passed() {
        let view = View {
            last_judged_round: None,
            ..fixtures::healthy()
        };
        assert!(is_catching_up(&view, at(0), START, START));
        assert!(is_catching_up(&view, at(23), START, START));
        assert!(!is_catching_up(&view, at(24), START, START));
    }

    #[test]
    fn six_rounds_of_evidence_are_enough_from_whenever_on_it_is_known() {
        assert!(is_catching_up(&judged(104), at(7), START, START));
        assert!(!is_catching_up(&judged(105), at(7), START, START));
        let before = START.minus(Micros::from_secs(600));
        assert!(!is_catching_up(&judged(100), at(2), START, before));
    }

    #[test]
    fn catching_up_waits_for_vantages_without_a_report() {
        let mut view = judged(110);
        view.vantages[0].state = VantageState::Waiting;
        assert!(is_catching_up(&view, at(12), START, START));
        assert!(!is_catching_up(&view, at(24), START, START));
    }
}
