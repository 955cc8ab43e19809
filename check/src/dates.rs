//! Points in time as text.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: i64 = 24 * 60 * 60;

/// Seconds since the Unix epoch.
pub(super) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Formats the date in UTC.
pub(super) fn date(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d").to_string(),
        Err(_) => format!("{seconds} s after 1970"),
    }
}

/// Whole days of a number of seconds, rounded down.
pub(super) const fn days(seconds: i64) -> i64 {
    seconds.div_euclid(DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_counted_once_it_is_whole() {
        assert_eq!((days(DAY - 1), days(DAY), days(-1)), (0, 1, -1));
        assert_eq!(date(1_609_459_200), "2021-01-01");
        assert!(date(i64::MAX).contains("1970"));
    }
}
