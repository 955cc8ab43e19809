//! Metrics of prober authentication.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

use super::RefusalReason;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabel {
    reason: &'static str,
}

/// Counts of rejected probers by reason. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct IdentityMetrics {
    pub(crate) rejected: Family<ReasonLabel, Counter>,
}

impl IdentityMetrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            rejected: Family::default(),
        };
        for reason in RefusalReason::ALL.map(RefusalReason::label) {
            drop(metrics.rejected.get_or_create(&ReasonLabel { reason }));
        }
        metrics
    }

    /// Counts a rejected request.
    pub(crate) fn count_rejected(&self, reason: RefusalReason) {
        let reason = reason.label();
        self.rejected.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Returns the number of rejections with a reason.
    #[cfg(test)]
    pub(crate) fn rejected_count(&self, reason: RefusalReason) -> u64 {
        let reason = reason.label();
        self.rejected.get_or_create(&ReasonLabel { reason }).get()
    }
}
