//! Whether what people do is kept where another aggregator finds it.

use prometheus_client::metrics::gauge::Gauge;

/// Clones share the gauge.
#[derive(Debug, Clone, Default)]
pub struct IncidentActionMetrics {
    /// Actions that are not persisted.
    pub unshared: Gauge,
}

impl IncidentActionMetrics {
    /// Whether what people do is in our memory only.
    pub(crate) fn unshared(&self, unshared: bool) {
        self.unshared.set(i64::from(unshared));
    }
}
