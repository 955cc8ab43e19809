//! Whether actions are persisted where another aggregator finds them.

use prometheus_client::metrics::gauge::Gauge;

/// Clones share the gauge.
#[derive(Debug, Clone, Default)]
pub struct IncidentActionMetrics {
    /// Actions that are not persisted.
    pub unshared: Gauge,
}

impl IncidentActionMetrics {
    /// Sets whether actions are in the memory of this process only.
    pub(crate) fn set_unshared(&self, unshared: bool) {
        self.unshared.set(i64::from(unshared));
    }
}
