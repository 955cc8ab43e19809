//! Points in time and durations as integers. They are compared, recorded and replayed, so they must be exact.

use std::{fmt, ops::Sub, time::Duration};

use serde::{Deserialize, Serialize};

/// A duration in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl Micros {
    /// Creates a duration from whole milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    /// Creates a duration from whole seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000))
    }

    /// The duration in seconds, for people and metrics; never used in comparisons.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds of a human time span fit 52 bits"
    )]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Micros {
    /// The duration in its two largest units, in whole seconds: `4 min 12 s`.
    #[must_use]
    pub fn humanize(self) -> String {
        let seconds = self.0 / 1_000_000;
        let two = |large: u64, unit: &str, small: u64, small_unit: &str| {
            if small == 0 {
                format!("{large} {unit}")
            } else {
                format!("{large} {unit} {small} {small_unit}")
            }
        };
        match seconds {
            0..60 => format!("{seconds} s"),
            60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
            3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
            _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
        }
    }
}

impl From<Duration> for Micros {
    fn from(value: Duration) -> Self {
        Self(u64::try_from(value.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(value: Micros) -> Self {
        Self::from_micros(value.0)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us < 1_000 => write!(f, "{us} µs"),
            us if us < 1_000_000 => write!(f, "{}.{} ms", us / 1_000, us % 1_000 / 100),
            us => write!(f, "{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        }
    }
}

/// The start of a probe: microseconds since the Unix epoch in a running mesh, since the start of the
/// recording in a replay. On the wire it is the prober's monotonic clock; ingest adds the offset of that
/// incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventTime(pub i64);

impl EventTime {
    /// This time shifted by a number of microseconds, saturating.
    #[must_use]
    pub const fn shifted(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// This time plus a duration, saturating.
    #[must_use]
    pub fn plus(self, span: Micros) -> Self {
        Self(self.0.saturating_add_unsigned(span.0))
    }

    /// This time minus a duration, saturating.
    #[must_use]
    pub fn minus(self, span: Micros) -> Self {
        Self(self.0.saturating_sub_unsigned(span.0))
    }

    /// The round that contains this time: ⌊time / interval⌋.
    ///
    /// # Panics
    /// Panics if the interval is zero, which the configuration rejects.
    #[must_use]
    pub fn round(self, interval: Micros) -> Round {
        let interval = i64::try_from(interval.0).unwrap_or(i64::MAX);
        Round(self.0.div_euclid(interval))
    }
}

impl Sub for EventTime {
    type Output = Micros;

    /// The duration between two times; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Micros {
        Micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The unit of judgement: all probes that started within one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Round(pub i64);

impl Round {
    /// The start of the round.
    #[must_use]
    pub fn start(self, interval: Micros) -> EventTime {
        EventTime(
            self.0
                .saturating_mul(i64::try_from(interval.0).unwrap_or(i64::MAX)),
        )
    }

    /// The end of the round, which is the start of the next one.
    #[must_use]
    pub fn end(self, interval: Micros) -> EventTime {
        Self(self.0.saturating_add(1)).start(interval)
    }
}

/// Sequence number of an observation within one [`crate::Incarnation`]; makes resent reports idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReportSeq(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_whole_intervals_also_before_the_epoch() {
        let five = Micros::from_secs(5);
        assert_eq!(EventTime(4_999_999).round(five), Round(0));
        assert_eq!(EventTime(5_000_000).round(five), Round(1));
        assert_eq!(EventTime(-1).round(five), Round(-1));
        assert_eq!(Round(1).end(five), EventTime(10_000_000));
    }

    #[test]
    fn a_span_prints_in_the_unit_people_would_use() {
        assert_eq!(Micros(26).to_string(), "26 µs");
        assert_eq!(Micros(1_020).to_string(), "1.0 ms");
        assert_eq!(Micros(2_500_000).to_string(), "2.5 s");
    }

    #[test]
    fn durations_are_printed_in_two_units_at_most() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (252, "4 min 12 s"),
            (7_200, "2 h"),
            (7_500, "2 h 5 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(Micros::from_secs(seconds).humanize(), words);
        }
    }
}
