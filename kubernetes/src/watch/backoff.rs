//! Delays between attempts to reach the API server.

use std::time::Duration;

use parallax_runtime::random_fraction;

/// Upper bound for a delay that the server requests (`Retry-After`).
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// Exponential backoff with jitter, so that a restarted API server does not receive the retries of all
/// clients at once.
#[derive(Debug, Clone)]
pub(crate) struct WatchBackoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl WatchBackoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            max: longest,
            failures: 0,
        }
    }

    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether nothing has failed since the last success.
    pub(crate) const fn has_no_failures(&self) -> bool {
        self.failures == 0
    }

    /// The next delay: between half of the step and the whole step, and at least the delay that the server
    /// requested.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let wait = parallax_model::backoff(self.first, self.max, self.failures, random_fraction());
        self.failures = self.failures.saturating_add(1);
        wait.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_with_jitter_and_begin_anew_after_a_success() {
        let (first, longest) = (Duration::from_millis(200), Duration::from_secs(30));
        let mut backoff = WatchBackoff::new(first, longest);
        for step in [200, 400, 800, 1_600] {
            let step = Duration::from_millis(step);
            let wait = backoff.next(None);
            assert!(step / 2 <= wait && wait <= step, "{wait:?} of {step:?}");
        }
        for _ in 0..100 {
            assert!(backoff.next(None) <= longest);
        }
        assert!(backoff.next(None) >= longest / 2);
        backoff.reset();
        assert!(backoff.next(None) <= first);
    }

    #[test]
    fn the_servers_retry_after_is_honoured_up_to_a_limit() {
        let mut backoff = WatchBackoff::new(Duration::from_millis(200), Duration::from_secs(5));
        assert_eq!(backoff.next(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(
            backoff.next(Some(Duration::from_secs(7_000))),
            Duration::from_secs(30)
        );
    }
}
