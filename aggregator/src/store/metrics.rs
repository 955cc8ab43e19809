//! What reaches the store, counted.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

use super::What;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct WhatLabel {
    what: &'static str,
}

/// What was given to the store so far. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct StoreMetrics {
    pub(crate) written: Family<WhatLabel, Counter>,
    pub(crate) dropped: Family<WhatLabel, Counter>,
    pub(crate) surplus: Counter,
}

impl StoreMetrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            written: Family::default(),
            dropped: Family::default(),
            surplus: Counter::default(),
        };
        for what in What::ALL.map(What::label) {
            drop(metrics.written.get_or_create(&WhatLabel { what }));
            drop(metrics.dropped.get_or_create(&WhatLabel { what }));
        }
        metrics
    }

    /// Counts things that the store took.
    pub(crate) fn written(&self, what: What, n: u64) {
        let what = what.label();
        self.written.get_or_create(&WhatLabel { what }).inc_by(n);
    }

    /// Counts things that never reached the store.
    pub(crate) fn dropped(&self, what: What, n: u64) {
        let what = what.label();
        self.dropped.get_or_create(&WhatLabel { what }).inc_by(n);
    }

    /// Counts a raw failure that is one too many.
    pub(crate) fn surplus_failure(&self) {
        self.surplus.inc();
    }

    /// What the counter says.
    #[cfg(test)]
    pub(crate) fn dropped_by_store(&self, what: What) -> u64 {
        let what = what.label();
        self.dropped.get_or_create(&WhatLabel { what }).get()
    }
}
