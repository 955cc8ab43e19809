//! Metrics of the store.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

use super::PendingKind;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PendingKindLabel {
    what: &'static str,
}

/// Counters of the store. Clones share them.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    /// Rows written, by kind.
    pub written: Family<PendingKindLabel, Counter>,
    /// Rows dropped because the queue was full, by kind.
    pub dropped: Family<PendingKindLabel, Counter>,
    /// Raw failures beyond the limit per target and hour.
    pub surplus_failures: Counter,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreMetrics {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self {
            written: Family::default(),
            dropped: Family::default(),
            surplus_failures: Counter::default(),
        };
        for label in PendingKind::ALL.map(PendingKind::label) {
            drop(metrics.written.get_or_create(&PendingKindLabel { what: label }));
            drop(metrics.dropped.get_or_create(&PendingKindLabel { what: label }));
        }
        metrics
    }

    /// Adds to the number of rows written.
    pub(crate) fn add_written(&self, kind: PendingKind, n: u64) {
        let kind = kind.label();
        self.written
            .get_or_create(&PendingKindLabel { what: kind })
            .inc_by(n);
    }

    /// Adds to the number of rows dropped.
    pub(crate) fn add_dropped(&self, kind: PendingKind, n: u64) {
        let kind = kind.label();
        self.dropped
            .get_or_create(&PendingKindLabel { what: kind })
            .inc_by(n);
    }

    /// Counts a raw failure beyond the limit.
    pub(crate) fn add_surplus_failure(&self) {
        self.surplus_failures.inc();
    }

    /// The value of the counter.
    #[cfg(test)]
    pub(crate) fn dropped_by_store(&self, kind: PendingKind) -> u64 {
        let kind = kind.label();
        self.dropped.get_or_create(&PendingKindLabel { what: kind }).get()
    }
}
