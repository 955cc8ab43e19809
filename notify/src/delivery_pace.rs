//! When what could not be delivered is tried again: later each time, never all at once, and not before the receiver asked.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::backoff;
use tokio::time::Instant;

/// First and longest wait.
pub(super) const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// No receiver is left alone for longer, whatever it asks.
const LONGEST_ASKED: Duration = Duration::from_hours(1);

/// How often something failed in a row, and until when it rests.
#[derive(Debug, Default, Clone, Copy)]
struct RetryDelay {
    failures: u32,
    until: Option<Instant>,
}

impl RetryDelay {
    fn failed(&mut self, now: Instant, spread: f64) {
        self.until = Some(now + backoff(WAIT.0, WAIT.1, self.failures, spread));
        self.failures = self.failures.saturating_add(1);
    }

    fn rests(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }
}

/// Of one receiver: as a whole, as it may be gone, and by letter, as one that it cannot bear must not hold up the others.
#[derive(Debug, Default)]
pub(super) struct DeliveryPace {
    whole: RetryDelay,
    letters: BTreeMap<String, RetryDelay>,
}

impl DeliveryPace {
    /// Until when nothing is sent.
    pub(super) fn rests(&self, now: Instant) -> Option<Instant> {
        self.whole.rests(now)
    }

    /// Until when this letter is not sent.
    pub(super) fn letter_rests(&self, thread: &str, now: Instant) -> Option<Instant> {
        self.letters.get(thread)?.rests(now)
    }

    /// How often this letter has failed in a row.
    pub(super) fn failures(&self, thread: &str) -> u32 {
        self.letters.get(thread).map_or(0, |rest| rest.failures)
    }

    /// It was delivered, or will never be.
    pub(super) fn done(&mut self, thread: &str) {
        self.whole = RetryDelay::default();
        self.letters.remove(thread);
    }

    /// It is to be tried again; not before the receiver asked. `spread` is 0 to 1.
    pub(super) fn failed(&mut self, thread: &str, now: Instant, asked: Option<Duration>, spread: f64) {
        self.whole.failed(now, spread);
        self.letters
            .entry(thread.to_owned())
            .or_default()
            .failed(now, spread);
        if let Some(asked) = asked {
            let until = now + asked.min(LONGEST_ASKED);
            self.whole.until = self.whole.until.max(Some(until));
        }
    }

    /// Forgets letters that are gone.
    pub(super) fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.letters.retain(|thread, _| known(thread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_the_receiver_asks_for_is_kept_and_a_success_forgives_the_receiver_but_not_the_other_letter()
    {
        let mut pace = DeliveryPace::default();
        let now = Instant::now();
        pace.failed("a", now, Some(Duration::from_secs(90)), 0.0);
        assert_eq!(pace.rests(now), Some(now + Duration::from_secs(90)));
        assert_eq!(pace.letter_rests("a", now), Some(now + Duration::from_secs(1)));
        assert_eq!(pace.letter_rests("b", now), None);
        pace.done("b");
        assert_eq!(pace.rests(now), None);
        assert!(pace.letter_rests("a", now).is_some());
        pace.failed("a", now, Some(Duration::from_hours(72)), 0.0);
        assert_eq!(
            pace.rests(now),
            Some(now + LONGEST_ASKED),
            "nobody is left alone for days"
        );
    }
}
