//! Metrics of the recording.

use parallax_runtime::metrics::ResultLabel;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

/// What happened to a line of the recording, as a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordResult {
    Written,
    Dropped,
}

impl RecordResult {
    const ALL: [Self; 2] = [Self::Written, Self::Dropped];

    const fn label(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Dropped => "lost",
        }
    }
}

/// Metrics of the recording. Clones share them.
#[derive(Debug, Clone)]
pub struct RecordMetrics {
    /// Lines by result.
    pub recorded: Family<ResultLabel, Counter>,
    /// 1 while recording fails.
    pub failing: Gauge,
}

impl Default for RecordMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordMetrics {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self {
            recorded: Family::default(),
            failing: Gauge::default(),
        };
        for result in RecordResult::ALL.map(RecordResult::label) {
            drop(metrics.recorded.get_or_create(&ResultLabel { result }));
        }
        metrics
    }

    /// Adds to the number of lines.
    pub(crate) fn add_lines(&self, result: RecordResult, lines: u64) {
        let result = result.label();
        self.recorded.get_or_create(&ResultLabel { result }).inc_by(lines);
    }

    /// The value of the gauge.
    #[cfg(test)]
    pub(crate) fn is_failing(&self) -> i64 {
        self.failing.get()
    }

    /// Sets whether writing the recording currently fails.
    pub(crate) fn set_failing(&self, fails: bool) {
        self.failing.set(i64::from(fails));
    }
}
