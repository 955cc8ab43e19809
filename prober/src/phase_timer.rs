//! A probe's time, phase by phase and without a gap: each phase begins where the one before ended.

use std::time::{Duration, Instant};

use parallax_model::{Micros, Phase, PhaseTimes};

/// The times of one probe as they grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseTimer {
    start: Instant,
    /// Up to here everything is booked.
    mark: Instant,
    /// What is booked, and what else is measured by the way.
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

    /// What is prepared before the first phase is our own affair and belongs to none: the clock starts here.
    pub(crate) fn set_out(&mut self) {
        if self.times.is_empty() {
            *self = Self::start();
        }
    }

    /// Everything since the last booking was this phase.
    pub(crate) fn book(&mut self, phase: Phase) {
        self.book_until(phase, Instant::now());
    }

    /// As [`PhaseTimer::book`], for a phase that ended a little earlier; nothing where that is before the last booking.
    pub(crate) fn book_until(&mut self, phase: Phase, end: Instant) {
        let spent = self.lap(end);
        self.times.add(phase, spent);
    }

    /// Everything since the last booking was a repeated request and its answer.
    pub(crate) fn book_again(&mut self) {
        let spent = self.lap(Instant::now());
        self.times.again = Some(spent);
    }

    /// Moves the mark by whole microseconds, so that what is rounded off falls to the next phase and is not lost.
    fn lap(&mut self, end: Instant) -> Micros {
        let spent = Micros::from(end.saturating_duration_since(self.mark));
        self.mark += Duration::from(spent);
        spent
    }

    /// All times, with their total.
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
                // Some of these lie before the last booking.
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
        assert_eq!(laps.start, out, "a second connection is a part of the same probe");
    }
}
