//! Measures the phases of a probe without gaps: each phase starts where the previous one ended.

use std::time::{Duration, Instant};

use parallax_model::{Micros, Phase, PhaseTimes};

/// The timer of one probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseTimer {
    start: Instant,
    /// The end of the last recorded phase.
    last_end: Instant,
    /// The recorded times, and other measurements.
    pub(crate) times: PhaseTimes,
}

impl PhaseTimer {
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self {
            start: now,
            last_end: now,
            times: PhaseTimes::default(),
        }
    }

    /// Restarts the timer before the first phase, because the preparation belongs to no phase.
    pub(crate) fn restart_before_first_phase(&mut self) {
        if self.times.is_empty() {
            *self = Self::start();
        }
    }

    /// Records the time since the last recorded phase as this phase.
    pub(crate) fn record(&mut self, phase: Phase) {
        self.record_until(phase, Instant::now());
    }

    /// Like [`PhaseTimer::book`], for a phase that ended earlier; records zero if that was before the end of the last
    /// phase.
    pub(crate) fn record_until(&mut self, phase: Phase, end: Instant) {
        let spent = self.advance(end);
        self.times.add(phase, spent);
    }

    /// Records the time since the last recorded phase as the repeated request with its response.
    pub(crate) fn record_repeat(&mut self) {
        let spent = self.advance(Instant::now());
        self.times.second_request = Some(spent);
    }

    /// Moves the mark by whole microseconds, so that the fraction is added to the next phase instead of lost.
    fn advance(&mut self, end: Instant) -> Micros {
        let spent = Micros::from(end.saturating_duration_since(self.last_end));
        self.last_end += Duration::from(spent);
        spent
    }

    /// Returns all times with their total.
    pub(crate) fn into_times(self) -> PhaseTimes {
        let total = self.last_end.saturating_duration_since(self.start);
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
            let mut timer = PhaseTimer::start();
            for (nanos, phase) in ends {
                // Some of these are before the end of the last phase.
                let end = timer.start + Duration::from_nanos(nanos);
                match Phase::ALL.get(phase) {
                    Some(phase) => timer.record_until(*phase, end),
                    None => timer.times.second_request = Some(Micros(timer.times.second_request.unwrap_or_default().0 + timer.advance(end).0)),
                }
            }
            let times = timer.into_times();
            let parts = Phase::ALL.iter().map(|phase| times.get(*phase)).chain([times.second_request]);
            let sum: u64 = parts.flatten().map(|time| time.0).sum();
            prop_assert_eq!(sum, times.total.unwrap().0);
        }
    }

    #[test]
    fn what_comes_before_the_first_phase_is_no_part_of_the_total() {
        let mut timer = PhaseTimer::start();
        let begun = timer.start;
        timer.restart_before_first_phase();
        assert!(timer.start >= begun);
        timer.record(Phase::Connect);
        let out = timer.start;
        timer.restart_before_first_phase();
        assert_eq!(timer.start, out, "a second connection belongs to the same probe");
    }
}
