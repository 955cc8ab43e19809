//! Metrics of runs: number, outcome, duration.

use parallax_api::runs::RunOutcome;
use parallax_model::Micros;
use parallax_runtime::metrics::{ResultLabel, duration_histogram};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};

const PASSED: &str = "passed";
const FAILED: &str = "failed";
const UNKNOWN: &str = "unknown";
const REFUSED: &str = "refused";

/// Clones share the counts.
#[derive(Debug, Clone)]
pub struct RunMetrics {
    /// Runs by outcome.
    pub results: Family<ResultLabel, Counter>,
    /// Runs in progress.
    pub active: Gauge,
    /// Duration of a run.
    pub seconds: Histogram,
    /// Time from the request to the first probe.
    pub first_probe_seconds: Histogram,
}

impl Default for RunMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl RunMetrics {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self {
            results: Family::default(),
            active: Gauge::default(),
            seconds: duration_histogram(),
            first_probe_seconds: duration_histogram(),
        };
        for result in [PASSED, FAILED, UNKNOWN, REFUSED] {
            drop(metrics.results.get_or_create(&ResultLabel { result }));
        }
        metrics
    }

    /// Counts a rejected run.
    pub(crate) fn run_rejected(&self) {
        self.results.get_or_create(&ResultLabel { result: REFUSED }).inc();
    }

    /// Counts a run that starts.
    pub(crate) fn run_started(&self) {
        self.active.inc();
    }

    /// Counts a judged run with its duration since the request and, if any probe started, the time to its first
    /// probe.
    pub(crate) fn run_ended(&self, outcome: RunOutcome, lasted: Micros, first_probe: Option<Micros>) {
        let result = match outcome {
            RunOutcome::Passed => PASSED,
            RunOutcome::Failed => FAILED,
            RunOutcome::Unknown => UNKNOWN,
        };
        self.active.dec();
        self.results.get_or_create(&ResultLabel { result }).inc();
        self.seconds.observe(lasted.as_secs_f64());
        if let Some(first) = first_probe {
            self.first_probe_seconds.observe(first.as_secs_f64());
        }
    }

    /// The numbers of active, passed and rejected runs.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (i64, u64, u64) {
        let of = |result| self.results.get_or_create(&ResultLabel { result }).get();
        (self.active.get(), of(PASSED), of(REFUSED))
    }
}
