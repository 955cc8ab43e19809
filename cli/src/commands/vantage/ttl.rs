//! Validity of a vantage's token: `90m`, `12h`, `30d`.

use std::{str::FromStr, time::Duration};

/// Kubernetes issues no shorter one.
const MIN_TTL: Duration = Duration::from_mins(10);
/// An arbitrary limit: a token this old has been forgotten.
const MAX_TTL: Duration = Duration::from_hours(24 * 366);

/// A validity within the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BoundedTtl(Duration);

impl BoundedTtl {
    /// Returns the validity in whole seconds.
    pub(super) fn seconds(self) -> i64 {
        i64::try_from(self.0.as_secs()).unwrap_or(i64::MAX)
    }
}

impl FromStr for BoundedTtl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected 10m to 366d, like 90m, 12h or 30d, found {text:?}");
        let unit = match text.chars().last() {
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            _ => return Err(expected()),
        };
        let number: u64 = text[..text.len() - 1].parse().map_err(|_| expected())?;
        let time = Duration::from_secs(number.checked_mul(unit).ok_or_else(expected)?);
        if (MIN_TTL..=MAX_TTL).contains(&time) {
            Ok(Self(time))
        } else {
            Err(expected())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_hours_and_days_are_understood_and_the_rest_is_refused() {
        for (text, seconds) in [("10m", 600), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(text.parse::<BoundedTtl>().unwrap().seconds(), seconds);
        }
        for text in [
            "",
            "m",
            "9m",
            "367d",
            "1.5h",
            "30",
            "-1h",
            "99999999999999999999d",
            "1w",
            "1ü",
        ] {
            assert!(text.parse::<BoundedTtl>().is_err(), "{text}");
        }
    }
}
