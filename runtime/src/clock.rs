//! The clock of the aggregator: event time that only moves forward.

use std::time::{SystemTime, UNIX_EPOCH};

use parallax_model::EventTime;
use tokio::time::Instant;

/// Event time: read from the wall clock once at the start, then advanced by the monotonic clock. A step of
/// the wall clock therefore cannot split rounds. The trade-off is that displayed times deviate from the wall
/// clock by NTP's corrections since the start.
///
/// It follows tokio's clock, so a test that pauses time pauses this clock too.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: EventTime,
    start_instant: Instant,
}

impl Clock {
    /// Starts a clock at the wall clock's time.
    #[must_use]
    pub fn system() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::starting_at(EventTime(
            i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX),
        ))
    }

    /// Starts a clock at a given time.
    #[must_use]
    pub fn starting_at(start: EventTime) -> Self {
        Self {
            start,
            start_instant: Instant::now(),
        }
    }

    /// Returns the current event time.
    #[must_use]
    pub fn now(&self) -> EventTime {
        self.start.plus(self.start_instant.elapsed().into())
    }

    /// Returns the event time at which the clock was started.
    #[must_use]
    pub const fn start(&self) -> EventTime {
        self.start
    }
}
