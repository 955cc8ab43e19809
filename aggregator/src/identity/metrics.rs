//! Who was not let in, counted.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

use super::RefusalReason;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabel {
    reason: &'static str,
}

/// Who was not let in so far. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct IdentityMetrics {
    pub(crate) refused: Family<ReasonLabel, Counter>,
}

impl IdentityMetrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            refused: Family::default(),
        };
        for reason in RefusalReason::ALL.map(RefusalReason::label) {
            drop(metrics.refused.get_or_create(&ReasonLabel { reason }));
        }
        metrics
    }

    /// Counts one request of a prober that was not let in.
    pub(crate) fn refused(&self, reason: RefusalReason) {
        let reason = reason.label();
        self.refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// How often it was counted.
    #[cfg(test)]
    pub(crate) fn refusals(&self, reason: RefusalReason) -> u64 {
        let reason = reason.label();
        self.refused.get_or_create(&ReasonLabel { reason }).get()
    }
}
