//! Whether probers can be told whom to trust.

use prometheus_client::metrics::gauge::Gauge;

/// Clones share the gauge.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsMetrics {
    pub(crate) ca_unpublished: Gauge,
}

impl TlsMetrics {
    /// Whether probers cannot be told whom to trust at present.
    pub(crate) fn ca_unpublished(&self, failing: bool) {
        self.ca_unpublished.set(i64::from(failing));
    }
}
