//! The last request for the metrics.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use parallax_api::installation::MetricsScrape;
use parallax_model::EventTime;
use parking_lot::Mutex;

/// Maximum length of a client's name.
const MAX_CLIENT_LENGTH: usize = 80;

/// Remembers the last request for the metrics. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScrapeLog(Arc<Mutex<Option<MetricsScrape>>>);

impl ScrapeLog {
    /// Records a request.
    pub(super) fn record(&self, headers: &HeaderMap, at: EventTime) {
        let agent = headers.get(header::USER_AGENT);
        let agent = agent.and_then(|value| value.to_str().ok()).unwrap_or("");
        // `to_str` accepts visible ASCII and tabs only.
        let client = agent.replace('\t', " ").chars().take(MAX_CLIENT_LENGTH).collect();
        *self.0.lock() = Some(MetricsScrape { at, client });
    }

    /// Returns the last request.
    pub(super) fn last(&self) -> Option<MetricsScrape> {
        self.0.lock().clone()
    }
}
