//! What probers report, counted as it comes in.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use parallax_diagnosis::{ObservationResult, topology::Topology};
use parallax_model::{Channel, Observation, Outcome, PhaseTimes, Recorded, TargetId};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};

use super::ReportReceipt;
use parallax_runtime::metrics::{ResultLabel, histogram};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct ProbeLabels {
    target: String,
    channel: &'static str,
    placement: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct PhaseLabels {
    target: String,
    phase: &'static str,
}

/// Why a report was refused as a whole.
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

/// What became of a line of a report.
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

/// What was reported so far. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct IngestMetrics {
    pub(crate) probes: Family<ProbeLabels, Counter>,
    pub(crate) phases: PhaseHistograms,
    pub(crate) lines: Family<ResultLabel, Counter>,
    pub(crate) reports: Family<ResultLabel, Counter>,
    /// The series of each target that the topology names; only these may have any.
    series: Arc<Mutex<BTreeMap<TargetId, TargetSeries>>>,
}

#[derive(Debug, Default)]
struct TargetSeries {
    probes: BTreeSet<ProbeLabels>,
    phases: BTreeSet<PhaseLabels>,
}

impl IngestMetrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            probes: Family::default(),
            phases: Family::new_with_constructor(histogram),
            lines: Family::default(),
            reports: Family::default(),
            series: Arc::default(),
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

    /// Gives each target of the topology its place, and removes the series of those that are gone.
    pub(crate) fn keep_series_of(&self, topology: &Topology) {
        let mut wanted: BTreeSet<_> = topology.targets().keys().cloned().collect();
        wanted.extend(
            topology
                .nodes()
                .values()
                .filter(|node| node.prober.is_some())
                .filter_map(|node| TargetId::new(format!("echo://{}", node.name)).ok()),
        );
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.retain(|target, series| {
            let keep = wanted.contains(target);
            if !keep {
                for labels in &series.probes {
                    self.probes.remove(labels);
                }
                for labels in &series.phases {
                    self.phases.remove(labels);
                }
            }
            keep
        });
        for target in wanted {
            series.entry(target).or_default();
        }
    }

    /// Counts one observation and what the engine made of it.
    pub(crate) fn observed(&self, recorded: &Recorded, booked: ObservationResult, topology: &Topology) {
        let Observation {
            target,
            channel,
            front,
            entry,
            outcome,
            times,
            ..
        } = &recorded.observation;
        let (line, placement) = match booked {
            ObservationResult::Counted { placement } => ("counted", Some(placement)),
            ObservationResult::Late => ("late", None),
            ObservationResult::OwnFault => ("own_fault", None),
            ObservationResult::Unknown => ("unknown", None),
            ObservationResult::Implausible => ("implausible", None),
        };
        self.lines.get_or_create(&ResultLabel { result: line }).inc();
        if matches!(
            booked,
            ObservationResult::Unknown | ObservationResult::Implausible
        ) {
            return;
        }
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(series) = series.get_mut(target) else {
            return;
        };
        let placement = placement
            .unwrap_or_else(|| topology.placement(&recorded.vantage, front.as_ref(), entry.as_ref()));
        let labels = ProbeLabels {
            target: target.to_string(),
            channel: channel.label(),
            placement: placement.label(),
            result: match outcome {
                Outcome::Ok { .. } => "ok",
                Outcome::Failed { kind, .. } => kind.metric_label(),
                Outcome::NotAsked { .. } => "not_asked",
            },
        };
        self.probes.get_or_create(&labels).inc();
        series.probes.insert(labels);
        // A refusal is fast and a timeout is as long as the timeout: mixed in, both would say how often it fails, not how long it takes.
        if matches!(channel, Channel::Vip | Channel::Dns) && matches!(outcome, Outcome::Ok { .. }) {
            for (phase, time) in phases(times) {
                let labels = PhaseLabels {
                    target: target.to_string(),
                    phase,
                };
                self.phases.get_or_create(&labels).observe(time);
                series.phases.insert(labels);
            }
        }
    }

    /// Counts one observation that a former life of ours, or another aggregator, has counted by its target already.
    pub(crate) fn observed_again(&self, booked: ObservationResult) {
        let result = if matches!(booked, ObservationResult::Late) {
            "late"
        } else {
            "again"
        };
        self.lines.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts one accepted report.
    pub(crate) fn reported(&self, receipt: ReportReceipt) {
        self.reports
            .get_or_create(&ResultLabel { result: "accepted" })
            .inc();
        for (result, count) in [
            ("duplicate", receipt.duplicates),
            ("malformed", receipt.malformed),
        ] {
            self.lines.get_or_create(&ResultLabel { result }).inc_by(count);
        }
    }

    /// Counts one refused report.
    pub(crate) fn refused(&self, why: ReportRefusal) {
        self.reports
            .get_or_create(&ResultLabel { result: why.label() })
            .inc();
    }
}

/// The phases that were reached, with their times in seconds.
fn phases(times: &PhaseTimes) -> impl Iterator<Item = (&'static str, f64)> {
    [
        ("resolve", times.resolve),
        ("connect", times.connect),
        ("tls", times.tls),
        ("first-byte", times.first_byte),
        ("body", times.body),
        ("total", times.total),
    ]
    .into_iter()
    .filter_map(|(phase, time)| Some((phase, time?.as_secs_f64())))
}
