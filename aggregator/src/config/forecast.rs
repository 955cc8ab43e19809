//! `forecast`: interval of renewal forecasts.

use parallax_model::Micros;
use serde::Deserialize;

use super::duration::parse_within;

/// Minimum and maximum interval per name, in seconds.
const INTERVAL_RANGE_S: (u64, u64) = (10, 7 * 86_400);

/// Default.
pub(super) const DEFAULT_INTERVAL: Micros = Micros::from_secs(600);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawForecast {
    /// A duration with s, m, h or d, or `off`.
    pub(super) interval: Option<String>,
}

/// Returns the interval; `None` if forecasts are off.
pub(super) fn validate(raw: Option<RawForecast>, mut wrong: impl FnMut(&str, String)) -> Option<Micros> {
    let Some(text) = raw.and_then(|raw| raw.interval) else {
        return Some(DEFAULT_INTERVAL);
    };
    if text == "off" {
        return None;
    }
    let interval = parse_within(&text, INTERVAL_RANGE_S);
    if interval.is_none() {
        wrong(
            "forecast.interval",
            format!("expected a duration from 10s to 7d such as 10m, or off, found {text:?}"),
        );
    }
    interval
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(every: Option<&str>) -> (Option<Micros>, Vec<String>) {
        let mut errors = Vec::new();
        let raw = every.map(|every| RawForecast {
            interval: Some(every.to_owned()),
        });
        let read = validate(raw, |field, message| errors.push(format!("{field}: {message}")));
        (read, errors)
    }

    #[test]
    fn the_interval_defaults_to_ten_minutes_and_can_be_disabled() {
        assert_eq!(read(None), (Some(Micros::from_secs(600)), vec![]));
        assert_eq!(read(Some("1h")), (Some(Micros::from_secs(3_600)), vec![]));
        assert_eq!(read(Some("off")), (None, vec![]));
        for wrong in ["5s", "8d", "often", "10", "-1m"] {
            let (_, errors) = read(Some(wrong));
            assert!(
                errors[0].contains("forecast.interval: expected a duration from 10s to 7d"),
                "{errors:?}"
            );
        }
    }
}
