//! Formats times, time spans and counts for people.

use jiff::{Timestamp, tz::TimeZone};
use parallax_model::EventTime;

/// Formats a time of day in UTC, with the date unless it is today's.
pub(super) fn format_time(at: EventTime, now: EventTime) -> String {
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

/// Formats a time for `datetime` attributes.
pub(super) fn format_iso(at: EventTime) -> String {
    Timestamp::from_microsecond(at.0)
        .and_then(|stamp| stamp.round(jiff::Unit::Second))
        .map_or_else(|_| String::new(), |stamp| stamp.to_string())
}

/// Formats how long ago a time was.
pub(super) fn format_age(at: EventTime, now: EventTime) -> String {
    format!("{} ago", (now - at).humanize())
}

/// `1 target`, `2 targets`.
pub(in crate::serve) fn format_count(n: usize, one: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {one}s")
    }
}

#[cfg(test)]
mod tests {
    use parallax_model::Micros;

    use super::*;

    #[test]
    fn a_time_of_another_day_carries_its_date() {
        let now = EventTime(1_795_179_600_000_000);
        assert_eq!(format_time(now.minus(Micros::from_secs(60)), now), "12:59:00 UTC");
        assert_eq!(
            format_time(now.minus(Micros::from_secs(86_400)), now),
            "2026-11-19 13:00:00 UTC"
        );
        assert_eq!(format_iso(now), "2026-11-20T13:00:00Z");
    }
}
