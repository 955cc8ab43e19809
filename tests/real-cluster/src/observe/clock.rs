//! One clock for all recordings: seconds since the run began.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Seconds since the run began, and their conversion to milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    unix_ms: u64,
}

impl Clock {
    /// Starts the clock.
    #[must_use]
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            start: Instant::now(),
            unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns the seconds since the run began.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Converts a time of another clock, given that clock's current time.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 fit into 53 bits"
    )]
    pub fn of_theirs(&self, unix_ms: u64, their_now: u64) -> f64 {
        self.now() - (their_now as f64 - unix_ms as f64) / 1000.0
    }

    /// Returns the beginning of the run, in milliseconds since 1970.
    #[must_use]
    pub const fn began_unix_ms(&self) -> u64 {
        self.unix_ms
    }
}
