//! Renewals that would fail and those with an unknown outcome. The others are only counted.

use parallax_api::forecasts::{RenewalForecast, RenewalForecastList, RenewalOutlook};
use parallax_model::EventTime;

use super::truncated_list::TruncatedList;

/// Renewal forecasts as the page shows them.
#[derive(Debug)]
pub(super) struct RenewalsSection {
    /// Whether there are forecasts.
    pub(super) has_forecasts: bool,
    /// Whether some renewal would fail.
    pub(super) has_failures: bool,
    pub(super) rows: TruncatedList<Row>,
    /// Counts by outcome, in one line.
    pub(super) counts: String,
    pub(super) note: String,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) class: &'static str,
    pub(super) symbol: &'static str,
    pub(super) host: String,
    pub(super) certificate: String,
    pub(super) renewal_time: String,
    pub(super) sentence: String,
    pub(super) ca_error: Option<String>,
    pub(super) remedy: Option<String>,
}

impl RenewalsSection {
    pub(super) fn new(forecasts: &RenewalForecastList, now: EventTime) -> Self {
        let all = &forecasts.forecasts;
        let count = |outlook| all.iter().filter(|forecast| forecast.outlook == outlook).count();
        let failing = count(RenewalOutlook::WouldFail);
        let mut shown: Vec<&RenewalForecast> = all
            .iter()
            .filter(|forecast| forecast.outlook != RenewalOutlook::WouldPass)
            .collect();
        shown.sort_by_key(|forecast| {
            let never = EventTime(i64::MAX);
            (forecast.outlook, forecast.renewal.unwrap_or(never))
        });
        Self {
            has_forecasts: !all.is_empty(),
            has_failures: failing > 0,
            rows: TruncatedList::new(shown.into_iter().map(|forecast| Row::of(forecast, now)), "name"),
            counts: format!(
                "{failing} would fail, {} unknown, {} would pass as far as can be checked in advance",
                count(RenewalOutlook::Unknown),
                count(RenewalOutlook::WouldPass)
            ),
            note: forecasts.note.clone(),
        }
    }
}

impl Row {
    fn of(forecast: &RenewalForecast, now: EventTime) -> Self {
        let (class, symbol) = match forecast.outlook {
            RenewalOutlook::WouldFail => ("failing", "✕"),
            RenewalOutlook::Unknown => ("unknown", "?"),
            RenewalOutlook::WouldPass => ("ok", "✓"),
        };
        Self {
            class,
            symbol,
            host: forecast.host.clone(),
            certificate: format!("{}/{}", forecast.namespace, forecast.certificate),
            renewal_time: forecast.renewal.map_or_else(String::new, |at| {
                if at <= now {
                    "renewal is due".to_owned()
                } else {
                    format!("renewal in {}", (at - now).humanize())
                }
            }),
            sentence: forecast.sentence.clone(),
            ca_error: forecast.ca_error.clone(),
            remedy: forecast.remedy.clone(),
        }
    }
}
