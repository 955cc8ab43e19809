//! Measures the phases of a probe without gaps: each phase starts where the previous one ended.

use std::time::{Duration, Instant};

use parallax_model::{Micros, Phase, PhaseTimes};

/// The timer of one probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseTimer {
    start: Instant,
    /// The end of the last recorded phase.
    mark: Instant,
    /// The recorded times, and other measurements.
    pub(crate) times: PhaseTimes,
}

impl PhaseTimer {
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self {
            start: now,
            mark: now,
            times: PhaseTimes::default(),
        }
    }

    /// Restarts the timer before the first phase, because the preparation belongs to no phase.
    pub(crate) fn set_out(&mut self) {
        if self.times.is_empty() {
            *self = Self::start();
        }
    }

    /// Records the time since the last recorded phase as this phase.
    pub(crate) fn book(&mut self, phase: Phase) {
        self.book_until(phase, Instant::now());
    }

    /// Like [`PhaseTimer::book`], for a phase that ended earlier; records zero if that was before the end of the last
    /// phase.
    pub(crate) fn book_until(&mut self, phase: Phase, end: Instant) {
        let spent = self.lap(end);
        self.times.add(phase, spent);
    }

    /// Records the time since the last recorded phase as the repeated request with its response.
    pub(crate) fn book_again(&mut self) {
        let spent = self.lap(Instant::now());
        self.times.again = Some(spent);
    }

    /// Moves the mark by whole microseconds, so that the fraction is added to the next phase instead of lost.
    fn lap(&mut self, end: Instant) -> Micros {
        let spent = Micros::from(end.saturating_duration_since(self.mark));
        self.mark += Duration::from(spent);
        spent
    }

    /// Returns all times with their total.
    pub(crate) fn finished(self) -> PhaseTimes {
        let total = self.mark.saturating_duration_since(self.start);
        PhaseTimes {
            total: Some(total.into()),
            ..self.times
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_booked_adds_up_to_the_total_to_the_microsecond(
            ends in proptest::collection::vec((0_u64..5_000_000, 0_usize..9), 0..40)
        ) {
            let mut laps = PhaseTimer::start();
            for (nanos, phase) in ends {
                // Some of these are before the end of the last phase.
                let end = laps.start + Duration::from_nanos(nanos);
                match Phase::ALL.get(phase) {
                    Some(phase) => laps.book_until(*phase, end),
                    None => laps.times.again = Some(Micros(laps.times.again.unwrap_or_default().0 + laps.lap(end).0)),
                }
            }
            let times = laps.finished();
            let parts = Phase::ALL.iter().map(|phase| times.of(*phase)).chain([times.again]);
            let sum: u64 = parts.flatten().map(|time| time.0).sum();
            prop_assert_eq!(sum, times.total.unwrap().0);
        }
    }

    #[test]
    fn what_comes_before_the_first_phase_is_no_part_of_the_total() {
        let mut laps = PhaseTimer::start();
        let begun = laps.start;
        laps.set_out();
        assert!(laps.start >= begun);
        laps.book(Phase::Connect);
        let out = laps.start;
        laps.set_out();
        assert_eq!(laps.start, out, "a second connection belongs to the same probe");
    }
}
