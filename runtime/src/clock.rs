//! The one source of time: event time that only moves forward.

use std::time::{SystemTime, UNIX_EPOCH};

use parallax_model::EventTime;
use tokio::time::Instant;

/// Event time: the wall clock once, at the start, and the monotonic clock from then on. A step of the wall clock must
/// not tear rounds apart; what it costs is a page whose times drift from the wall by what NTP corrected since.
///
/// It follows tokio's clock, so a test that pauses that one holds this one too.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: EventTime,
    started: Instant,
}

impl Clock {
    /// Starting at the wall clock's time.
    #[must_use]
    pub fn system() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::starting_at(EventTime(
            i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX),
        ))
    }

    /// Starting at a given time.
    #[must_use]
    pub fn starting_at(start: EventTime) -> Self {
        Self {
            start,
            started: Instant::now(),
        }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> EventTime {
        self.start.plus(self.started.elapsed().into())
    }

    /// When it was started.
    #[must_use]
    pub const fn start(&self) -> EventTime {
        self.start
    }
}
