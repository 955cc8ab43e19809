//! What reaches the store, counted.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

use super::PendingKind;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PendingKindLabel {
    what: &'static str,
}

/// What was given to the store so far. Clones share the counts.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    /// Rows written, by kind.
    pub written: Family<PendingKindLabel, Counter>,
    /// Rows dropped because the queue was full, by kind.
    pub dropped: Family<PendingKindLabel, Counter>,
    /// Rows deleted to stay within the size limit.
    pub surplus: Counter,
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
            surplus: Counter::default(),
        };
        for what in PendingKind::ALL.map(PendingKind::label) {
            drop(metrics.written.get_or_create(&PendingKindLabel { what }));
            drop(metrics.dropped.get_or_create(&PendingKindLabel { what }));
        }
        metrics
    }

    /// Counts things that the store took.
    pub(crate) fn written(&self, what: PendingKind, n: u64) {
        let what = what.label();
        self.written.get_or_create(&PendingKindLabel { what }).inc_by(n);
    }

    /// Counts things that never reached the store.
    pub(crate) fn dropped(&self, what: PendingKind, n: u64) {
        let what = what.label();
        self.dropped.get_or_create(&PendingKindLabel { what }).inc_by(n);
    }

    /// Counts a raw failure that is one too many.
    pub(crate) fn surplus_failure(&self) {
        self.surplus.inc();
    }

    /// What the counter says.
    #[cfg(test)]
    pub(crate) fn dropped_by_store(&self, what: PendingKind) -> u64 {
        let what = what.label();
        self.dropped.get_or_create(&PendingKindLabel { what }).get()
    }
}
