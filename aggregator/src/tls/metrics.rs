//! Metrics of the CA.

use prometheus_client::metrics::gauge::Gauge;

/// Whether the CA is published. Clones share the gauge.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsMetrics {
    pub(crate) ca_unpublished: Gauge,
}

impl TlsMetrics {
    /// Records whether publishing the CA fails.
    pub(crate) fn set_ca_unpublished(&self, failing: bool) {
        self.ca_unpublished.set(i64::from(failing));
    }
}
