//! The two clocks of a probe: `std::time::Instant` measures; tokio's timer, with a resolution of 1 ms, only ends waits.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use parallax_model::EventTime;

/// The prober's monotonic clock as it appears on the wire: microseconds since the start of the incarnation.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Returns a clock that reads zero now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The reading at an instant; zero for an instant before the start.
    #[must_use]
    pub fn at(self, instant: Instant) -> EventTime {
        let since = instant.saturating_duration_since(self.origin).as_micros();
        EventTime(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// The reading now.
    #[must_use]
    pub fn now(self) -> EventTime {
        self.at(Instant::now())
    }
}

/// The absolute deadline of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(tokio::time::Instant);

/// The deadline passed before a future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the deadline passed")]
pub(crate) struct DeadlineExceeded;

impl Deadline {
    /// The deadline `timeout` after an instant of the measuring clock, so that measurement and deadline share one
    /// origin.
    #[must_use]
    pub(crate) fn after(start: Instant, timeout: Duration) -> Self {
        Self(tokio::time::Instant::from_std(start + timeout))
    }

    /// The deadline `timeout` from now.
    #[must_use]
    pub(crate) fn within(timeout: Duration) -> Self {
        Self(tokio::time::Instant::now() + timeout)
    }

    /// The earlier of this deadline and `timeout` from now.
    #[must_use]
    pub(crate) fn at_most(self, timeout: Duration) -> Self {
        self.min(Self::within(timeout))
    }

    /// The remaining time; zero once the deadline has passed.
    #[must_use]
    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(tokio::time::Instant::now())
    }

    /// Waits for a future until the deadline.
    pub(crate) async fn timeout<F: Future>(self, future: F) -> Result<F::Output, DeadlineExceeded> {
        tokio::time::timeout_at(self.0, future)
            .await
            .map_err(|_| DeadlineExceeded)
    }
}
