//! Retry delays: exponential backoff with jitter, and no retry before the `Retry-After` of the receiver.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::backoff;
use tokio::time::Instant;

/// Shortest and longest delay.
pub(super) const RETRY_DELAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// Upper limit of a requested delay.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// Consecutive failures, and the time of the next attempt.
#[derive(Debug, Default, Clone, Copy)]
struct RetryDelay {
    failures: u32,
    retry_at: Option<Instant>,
}

impl RetryDelay {
    fn record_failure(&mut self, now: Instant, jitter: f64) {
        self.retry_at = Some(now + backoff(RETRY_DELAY.0, RETRY_DELAY.1, self.failures, jitter));
        self.failures = self.failures.saturating_add(1);
    }

    fn retry_at(&self, now: Instant) -> Option<Instant> {
        self.retry_at.filter(|until| now < *until)
    }
}

/// Backoff of one receiver as a whole, since it may be down, and per notification, since one may fail while others
/// succeed.
#[derive(Debug, Default)]
pub(super) struct RetrySchedule {
    receiver: RetryDelay,
    notifications: BTreeMap<String, RetryDelay>,
}

impl RetrySchedule {
    /// Until when nothing is sent to the receiver.
    pub(super) fn receiver_retry_at(&self, now: Instant) -> Option<Instant> {
        self.receiver.retry_at(now)
    }

    /// Until when this notification is not sent.
    pub(super) fn notification_retry_at(&self, thread: &str, now: Instant) -> Option<Instant> {
        self.notifications.get(thread)?.retry_at(now)
    }

    /// Number of consecutive failures of this notification.
    pub(super) fn failures(&self, thread: &str) -> u32 {
        self.notifications.get(thread).map_or(0, |rest| rest.failures)
    }

    /// Records a delivery or a permanent rejection.
    pub(super) fn record_completion(&mut self, thread: &str) {
        self.receiver = RetryDelay::default();
        self.notifications.remove(thread);
    }

    /// Records a failure. `retry_after` is the delay that the receiver requested; `jitter` is between 0 and 1.
    pub(super) fn record_failure(
        &mut self,
        thread: &str,
        now: Instant,
        retry_after: Option<Duration>,
        jitter: f64,
    ) {
        self.receiver.record_failure(now, jitter);
        self.notifications
            .entry(thread.to_owned())
            .or_default()
            .record_failure(now, jitter);
        if let Some(requested) = retry_after {
            let until = now + requested.min(MAX_RETRY_AFTER);
            self.receiver.retry_at = self.receiver.retry_at.max(Some(until));
        }
    }

    /// Forgets notifications that no longer exist.
    pub(super) fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.notifications.retain(|thread, _| known(thread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_honoured_and_a_success_resets_the_receiver_but_not_the_other_notification() {
        let mut pace = RetrySchedule::default();
        let now = Instant::now();
        pace.record_failure("a", now, Some(Duration::from_secs(90)), 0.0);
        assert_eq!(pace.receiver_retry_at(now), Some(now + Duration::from_secs(90)));
        assert_eq!(
            pace.notification_retry_at("a", now),
            Some(now + Duration::from_secs(1))
        );
        assert_eq!(pace.notification_retry_at("b", now), None);
        pace.record_completion("b");
        assert_eq!(pace.receiver_retry_at(now), None);
        assert!(pace.notification_retry_at("a", now).is_some());
        pace.record_failure("a", now, Some(Duration::from_hours(72)), 0.0);
        assert_eq!(
            pace.receiver_retry_at(now),
            Some(now + MAX_RETRY_AFTER),
            "a requested delay of days is capped"
        );
    }
}
