//! Times, spans and counts as people read them.

use jiff::{Timestamp, tz::TimeZone};
use parallax_model::{EventTime, Micros};

/// A time of day in UTC, with its date where that is not today's.
pub(super) fn clock(at: EventTime, now: EventTime) -> String {
    let zoned = |time: EventTime| {
        Timestamp::from_microsecond(time.0)
            .ok()
            .map(|stamp| stamp.to_zoned(TimeZone::UTC))
    };
    match (zoned(at), zoned(now)) {
        (Some(at), Some(now)) if at.date() == now.date() => at.strftime("%H:%M:%S UTC").to_string(),
        (Some(at), _) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        (None, _) => "at an unknown time".to_owned(),
    }
}

/// For machines: `datetime` attributes.
pub(super) fn iso(at: EventTime) -> String {
    Timestamp::from_microsecond(at.0)
        .and_then(|stamp| stamp.round(jiff::Unit::Second))
        .map_or_else(|_| String::new(), |stamp| stamp.to_string())
}

/// A span in its two largest units.
pub(super) fn span(span: Micros) -> String {
    let seconds = span.0 / 1_000_000;
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

/// How long ago.
pub(super) fn ago(at: EventTime, now: EventTime) -> String {
    format!("{} ago", span(now - at))
}

/// `1 target`, `2 targets`.
pub(in crate::serve) fn count(n: usize, one: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {one}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_two_units_at_most() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (252, "4 min 12 s"),
            (7_200, "2 h"),
            (7_500, "2 h 5 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Micros::from_secs(seconds)), words);
        }
    }

    #[test]
    fn a_time_of_another_day_carries_its_date() {
        let now = EventTime(1_795_179_600_000_000);
        assert_eq!(clock(now.minus(Micros::from_secs(60)), now), "12:59:00 UTC");
        assert_eq!(
            clock(now.minus(Micros::from_secs(86_400)), now),
            "2026-11-19 13:00:00 UTC"
        );
        assert_eq!(iso(now), "2026-11-20T13:00:00Z");
    }
}
