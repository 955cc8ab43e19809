//! Metrics of ingest.

use parallax_model::Vantage;
use parallax_runtime::metrics::{HistogramBuckets, ResultLabel};
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DiscardLabels {
    vantage: String,
    reason: &'static str,
}

impl DiscardLabels {
    fn new(vantage: &Vantage, reason: DiscardReason) -> Self {
        Self {
            vantage: vantage.to_string(),
            reason: match reason {
                DiscardReason::Late => "late",
                DiscardReason::Implausible => "implausible",
                DiscardReason::OverBudget => "over_budget",
            },
        }
    }
}

/// Why an observation is no evidence, if that is because of when or how many its vantage sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiscardReason {
    Late,
    Implausible,
    OverBudget,
}

impl DiscardReason {
    const ALL: [Self; 3] = [Self::Late, Self::Implausible, Self::OverBudget];
}

/// Why a report was rejected as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportRefusal {
    Unauthorized,
    MediaType,
    TooLarge,
    TooSlow,
    Body,
    Header,
    Vantage,
    Busy,
}

impl ReportRefusal {
    const ALL: [Self; 8] = [
        Self::Unauthorized,
        Self::MediaType,
        Self::TooLarge,
        Self::TooSlow,
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
            Self::TooSlow => "too_slow",
            Self::Body => "broken_body",
            Self::Header => "bad_header",
            Self::Vantage => "unknown_vantage",
            Self::Busy => "busy",
        }
    }
}

/// Results of a report's lines.
const LINE_RESULTS: [&str; 9] = [
    "counted",
    "again",
    "late",
    "own_fault",
    "unknown",
    "implausible",
    "over_budget",
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
    /// Discarded observations; vantages without any have no series.
    pub(crate) discarded: Family<DiscardLabels, Counter>,
}

impl IngestMetrics {
    /// Creates the metrics, with these buckets of the phases' durations: each target has a histogram per phase.
    pub(crate) fn new(buckets: HistogramBuckets) -> Self {
        let metrics = Self {
            probes: Family::default(),
            phases: Family::new_with_constructor(buckets.constructor()),
            lines: Family::default(),
            reports: Family::default(),
            discarded: Family::default(),
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

    /// Counts an observation that is discarded.
    pub(super) fn count_discarded(&self, vantage: &Vantage, reason: DiscardReason) {
        self.discarded
            .get_or_create(&DiscardLabels::new(vantage, reason))
            .inc();
    }

    /// Removes the series of a vantage.
    pub(super) fn remove_discarded(&self, vantage: &Vantage) {
        for reason in DiscardReason::ALL {
            self.discarded.remove(&DiscardLabels::new(vantage, reason));
        }
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
