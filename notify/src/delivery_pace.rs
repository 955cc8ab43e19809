//! Retry delays: exponential backoff with jitter, and no retry before the `Retry-After` of the receiver.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::backoff;
use tokio::time::Instant;

/// Shortest and longest delay.
pub(super) const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// Upper limit of a requested delay.
const LONGEST_ASKED: Duration = Duration::from_hours(1);

/// Consecutive failures, and the time of the next attempt.
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

/// Backoff of one receiver as a whole, since it may be down, and per notification, since one may fail while others
/// succeed.
#[derive(Debug, Default)]
pub(super) struct DeliveryPace {
    whole: RetryDelay,
    letters: BTreeMap<String, RetryDelay>,
}

impl DeliveryPace {
    /// Until when nothing is sent to the receiver.
    pub(super) fn rests(&self, now: Instant) -> Option<Instant> {
        self.whole.rests(now)
    }

    /// Until when this notification is not sent.
    pub(super) fn letter_rests(&self, thread: &str, now: Instant) -> Option<Instant> {
        self.letters.get(thread)?.rests(now)
    }

    /// Number of consecutive failures of this notification.
    pub(super) fn failures(&self, thread: &str) -> u32 {
        self.letters.get(thread).map_or(0, |rest| rest.failures)
    }

    /// Records a delivery or a permanent rejection.
    pub(super) fn done(&mut self, thread: &str) {
        self.whole = RetryDelay::default();
        self.letters.remove(thread);
    }

    /// Records a failure. `asked` is the delay that the receiver requested; `spread` (0 to 1) is the jitter.
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

    /// Forgets notifications that no longer exist.
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
            "a requested delay of days is capped"
        );
    }
}
