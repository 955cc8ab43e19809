//! `forecast`: interval of renewal forecasts.

use parallax_model::{Micros, units};
use serde::Deserialize;

/// Minimum and maximum interval per name, in seconds.
const EVERY_S: (u64, u64) = (10, 7 * 86_400);

/// Default.
pub(super) const USUAL: Micros = Micros::from_secs(600);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawForecast {
    /// A duration with s, m, h or d, or `off`.
    pub(super) every: Option<String>,
}

/// Returns the interval; `None` if forecasts are off.
pub(super) fn checked(raw: Option<RawForecast>, mut wrong: impl FnMut(&str, String)) -> Option<Micros> {
    let Some(text) = raw.and_then(|raw| raw.every) else {
        return Some(USUAL);
    };
    if text == "off" {
        return None;
    }
    match units::scaled(&text, &units::SECONDS) {
        Some(seconds) if (EVERY_S.0..=EVERY_S.1).contains(&seconds) => Some(Micros::from_secs(seconds)),
        _ => {
            wrong(
                "forecast.every",
                format!("expected a duration from 10s to 7d such as 10m, or off, found {text:?}"),
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(every: Option<&str>) -> (Option<Micros>, Vec<String>) {
        let mut said = Vec::new();
        let raw = every.map(|every| RawForecast {
            every: Some(every.to_owned()),
        });
        let read = checked(raw, |field, message| said.push(format!("{field}: {message}")));
        (read, said)
    }

    #[test]
    fn a_name_is_looked_at_every_ten_minutes_or_as_said_or_never() {
        assert_eq!(read(None), (Some(Micros::from_secs(600)), vec![]));
        assert_eq!(read(Some("1h")), (Some(Micros::from_secs(3_600)), vec![]));
        assert_eq!(read(Some("off")), (None, vec![]));
        for wrong in ["5s", "8d", "often", "10", "-1m"] {
            let (_, said) = read(Some(wrong));
            assert!(
                said[0].contains("forecast.every: expected a duration from 10s to 7d"),
                "{said:?}"
            );
        }
    }
}
