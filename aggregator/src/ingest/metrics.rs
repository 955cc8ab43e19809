//! Metrics of ingest.

use parallax_runtime::metrics::{ResultLabel, duration_histogram};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ProbeLabels {
    pub(super) target: String,
    pub(super) channel: &'static str,
    pub(super) placement: &'static str,
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PhaseLabels {
    pub(super) target: String,
    pub(super) phase: &'static str,
}

/// Why a report was rejected as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportRefusal {
    Unauthorized,
    MediaType,
    TooLarge,
    Body,
    Header,
    Vantage,
    Busy,
}

impl ReportRefusal {
    const ALL: [Self; 7] = [
        Self::Unauthorized,
        Self::MediaType,
        Self::TooLarge,
        Self::Body,
        Self::Header,
        Self::Vantage,
        Self::Busy,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::MediaType => "wrong_type",
            Self::TooLarge => "too_large",
            Self::Body => "broken_body",
            Self::Header => "bad_header",
            Self::Vantage => "unknown_vantage",
            Self::Busy => "busy",
        }
    }
}

/// Results of a report's lines.
const LINE_RESULTS: [&str; 8] = [
    "counted",
    "again",
    "late",
    "own_fault",
    "unknown",
    "implausible",
    "duplicate",
    "malformed",
];

type PhaseHistograms = Family<PhaseLabels, Histogram, fn() -> Histogram>;

/// Metric families of ingest. Clones share the series.
#[derive(Debug, Clone)]
pub(crate) struct IngestMetrics {
    pub(crate) probes: Family<ProbeLabels, Counter>,
    pub(crate) phases: PhaseHistograms,
    pub(crate) lines: Family<ResultLabel, Counter>,
    pub(crate) reports: Family<ResultLabel, Counter>,
}

impl IngestMetrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            probes: Family::default(),
            phases: Family::new_with_constructor(duration_histogram),
            lines: Family::default(),
            reports: Family::default(),
        };
        for result in LINE_RESULTS {
            drop(metrics.lines.get_or_create(&ResultLabel { result }));
        }
        for result in ReportRefusal::ALL
            .map(ReportRefusal::label)
            .into_iter()
            .chain(["accepted"])
        {
            drop(metrics.reports.get_or_create(&ResultLabel { result }));
        }
        metrics
    }

    /// Counts a rejected report.
    pub(crate) fn count_rejected(&self, reason: ReportRefusal) {
        self.reports
            .get_or_create(&ResultLabel {
                result: reason.label(),
            })
            .inc();
    }
}
