//! Metrics of the checkpoint.

use prometheus_client::metrics::{counter::Counter, family::Family};

use parallax_runtime::metrics::ResultLabel;

/// Result of writing a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointResult {
    Written,
    Failed,
}

impl CheckpointResult {
    const ALL: [Self; 2] = [Self::Written, Self::Failed];

    const fn label(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Failed => "failed",
        }
    }
}

/// Counts of writes by result. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointMetrics {
    pub(crate) writes: Family<ResultLabel, Counter>,
}

impl CheckpointMetrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            writes: Family::default(),
        };
        for result in CheckpointResult::ALL.map(CheckpointResult::label) {
            drop(metrics.writes.get_or_create(&ResultLabel { result }));
        }
        metrics
    }

    /// Counts a write.
    pub(crate) fn count_write(&self, result: CheckpointResult) {
        let result = result.label();
        self.writes.get_or_create(&ResultLabel { result }).inc();
    }
}
