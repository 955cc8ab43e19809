//! Whether an aggregator that has just started has seen enough to say that all is well.

use parallax_diagnosis::view::{VantageState, View};
use parallax_model::{EventTime, Micros};

/// Judged rounds that a hard failure needs to show, and its cause to be named.
const ENOUGH: u64 = 6;

/// Rounds after a start until catching up ends, whatever is missing: coverage says the rest.
const LONGEST: u64 = 24;

/// Whether it still catches up. It started at `start`, and the probers' observations are known from `evidence` on:
/// earlier than the start, where they have sent what they saw before it.
pub(crate) fn is_catching_up(view: &View, now: EventTime, start: EventTime, evidence: EventTime) -> bool {
    let rounds = |from: EventTime, count: u64| from.plus(Micros(view.interval.0.saturating_mul(count)));
    if now >= rounds(start, LONGEST) {
        return false;
    }
    let judged = view
        .judged
        .is_some_and(|round| round.end(view.interval) >= rounds(evidence, ENOUGH));
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

    /// Rounds of 5 s; the aggregator starts with the round 100.
    const START: EventTime = EventTime(500_000_000);

    fn at(round: u64) -> EventTime {
        START.plus(Micros::from_secs(5 * round))
    }

    fn judged(round: i64) -> View {
        View {
            judged: Some(Round(round)),
            ..fixtures::healthy()
        }
    }

    #[test]
    fn nothing_judged_is_catching_up_until_two_dozen_rounds_have_passed() {
        let view = View {
            judged: None,
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
    fn a_vantage_that_was_not_heard_of_yet_is_waited_for() {
        let mut view = judged(110);
        view.vantages[0].state = VantageState::Waiting;
        assert!(is_catching_up(&view, at(12), START, START));
        assert!(!is_catching_up(&view, at(24), START, START));
    }
}
