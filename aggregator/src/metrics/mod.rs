//! The aggregator's metrics. Names, help texts and types are an API: a golden test holds them.
//!
//! What happened is counted here as it happens; what *is* is read from the latest view at each scrape ([`live`]), so a
//! target that is gone is gone from it by itself. Targets are labels, nodes are not: scraping must not cost nodes ×
//! targets.

mod families;
#[cfg(test)]
mod large;
mod live;
#[cfg(test)]
mod reference;
mod renewals;
mod runs;
#[cfg(test)]
mod tests;
mod verdicts;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use parallax_diagnosis::{Booked, topology::Topology};
use parallax_model::{Channel, Observation, Outcome, PhaseTimes, Recorded, TargetId};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, NativeHistogramConfig},
    },
    registry::Registry,
};

use crate::{identity::Reason, ingest::Receipt, notify::NotifyMetrics, store::What};

pub(crate) use live::Live;
pub(crate) use runs::RunMetrics;

/// Bounds of the classic buckets in seconds, chosen around what the phases take: a handshake on the node, in the
/// rack, across a continent; one and two lost SYNs; the timeouts. The native buckets need no choice.
const BUCKETS: [f64; 15] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0,
];

/// Native schema 3: each bucket 9 % wide. Values are bounded by the timeouts, so the buckets are not (`max_buckets`
/// would let the schema change at run time).
const NATIVE_SCHEMA: i8 = 3;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct ProbeLabels {
    target: String,
    channel: &'static str,
    placement: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct PhaseLabels {
    target: String,
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhatLabel {
    what: &'static str,
}

/// Why a report was refused as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unauthorized,
    MediaType,
    TooLarge,
    Body,
    Header,
    Vantage,
    Busy,
}

impl Refusal {
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

/// What became of a line of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordResult {
    Written,
    Lost,
}

impl RecordResult {
    const ALL: [Self; 2] = [Self::Written, Self::Lost];

    const fn label(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Lost => "lost",
        }
    }
}

/// What became of a checkpoint.
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

type Phases = Family<PhaseLabels, Histogram, fn() -> Histogram>;

/// What has happened so far. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    probes: Family<ProbeLabels, Counter>,
    phases: Phases,
    lines: Family<ResultLabel, Counter>,
    reports: Family<ResultLabel, Counter>,
    recorded: Family<ResultLabel, Counter>,
    record_failing: Gauge,
    checkpoints: Family<ResultLabel, Counter>,
    identity_refused: Family<ReasonLabel, Counter>,
    ca_unpublished: Gauge,
    leader: Gauge,
    lease_failures: Counter,
    handling_unshared: Gauge,
    /// Of what receivers were told.
    pub(crate) notify: NotifyMetrics,
    /// Of runs that somebody asked for.
    pub(crate) runs: RunMetrics,
    store_written: Family<WhatLabel, Counter>,
    store_dropped: Family<WhatLabel, Counter>,
    store_surplus: Counter,
    /// The series of each target that the topology names; only these may have any.
    series: Arc<Mutex<BTreeMap<TargetId, Series>>>,
}

#[derive(Debug, Default)]
struct Series {
    probes: BTreeSet<ProbeLabels>,
    phases: BTreeSet<PhaseLabels>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let histogram: fn() -> Histogram =
            || Histogram::new_classic_and_native(BUCKETS, NativeHistogramConfig::with_schema(NATIVE_SCHEMA));
        let metrics = Self {
            probes: Family::default(),
            phases: Family::new_with_constructor(histogram),
            lines: Family::default(),
            reports: Family::default(),
            recorded: Family::default(),
            checkpoints: Family::default(),
            record_failing: Gauge::default(),
            identity_refused: Family::default(),
            ca_unpublished: Gauge::default(),
            leader: Gauge::default(),
            lease_failures: Counter::default(),
            handling_unshared: Gauge::default(),
            notify: NotifyMetrics::default(),
            runs: RunMetrics::new(histogram),
            store_written: Family::default(),
            store_dropped: Family::default(),
            store_surplus: Counter::default(),
            series: Arc::default(),
        };
        for result in LINE_RESULTS {
            drop(metrics.lines.get_or_create(&ResultLabel { result }));
        }
        for result in Refusal::ALL.map(Refusal::label).into_iter().chain(["accepted"]) {
            drop(metrics.reports.get_or_create(&ResultLabel { result }));
        }
        for result in RecordResult::ALL.map(RecordResult::label) {
            drop(metrics.recorded.get_or_create(&ResultLabel { result }));
        }
        for result in CheckpointResult::ALL.map(CheckpointResult::label) {
            drop(metrics.checkpoints.get_or_create(&ResultLabel { result }));
        }
        for reason in Reason::ALL.map(Reason::label) {
            drop(metrics.identity_refused.get_or_create(&ReasonLabel { reason }));
        }
        for what in What::ALL.map(What::label) {
            drop(metrics.store_written.get_or_create(&WhatLabel { what }));
            drop(metrics.store_dropped.get_or_create(&WhatLabel { what }));
        }
        metrics
    }

    /// Everything to be scraped.
    pub(crate) fn registry(&self, live: Live) -> Registry {
        let mut registry = Registry::with_prefix("parallax");
        macro_rules! register {
            ($($family:ident: $field:ident;)+) => {
                $(registry.register(
                    families::$family.name,
                    families::$family.unended(),
                    self.$field.clone(),
                );)+
            };
        }
        register! {
            PROBES: probes;
            PHASES: phases;
            LINES: lines;
            REPORTS: reports;
            RECORD_LINES: recorded;
            RECORD_FAILING: record_failing;
            CHECKPOINT_WRITES: checkpoints;
            IDENTITY_REFUSED: identity_refused;
            CA_UNPUBLISHED: ca_unpublished;
            LEADER: leader;
            LEASE_FAILURES: lease_failures;
            HANDLING_UNSHARED: handling_unshared;
            STORE_WRITTEN: store_written;
            STORE_DROPPED: store_dropped;
            STORE_SURPLUS: store_surplus;
        }
        registry.register(
            families::NOTIFICATIONS.name,
            families::NOTIFICATIONS.unended(),
            self.notify.family(),
        );
        self.runs.register(&mut registry);
        registry.register_collector(Box::new(live));
        registry
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
    pub(crate) fn observed(&self, recorded: &Recorded, booked: Booked, topology: &Topology) {
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
            Booked::Counted { placement } => ("counted", Some(placement)),
            Booked::Late => ("late", None),
            Booked::OwnFault => ("own_fault", None),
            Booked::Unknown => ("unknown", None),
            Booked::Implausible => ("implausible", None),
        };
        self.lines.get_or_create(&ResultLabel { result: line }).inc();
        if matches!(booked, Booked::Unknown | Booked::Implausible) {
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
    pub(crate) fn observed_again(&self, booked: Booked) {
        let result = if matches!(booked, Booked::Late) {
            "late"
        } else {
            "again"
        };
        self.lines.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts one accepted report.
    pub(crate) fn reported(&self, receipt: Receipt) {
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

    /// Counts lines of the recording.
    pub(crate) fn recorded(&self, result: RecordResult, lines: u64) {
        let result = result.label();
        self.recorded.get_or_create(&ResultLabel { result }).inc_by(lines);
    }

    /// Counts writes of the checkpoint.
    pub(crate) fn checkpoint(&self, result: CheckpointResult) {
        let result = result.label();
        self.checkpoints.get_or_create(&ResultLabel { result }).inc();
    }

    /// What the gauge says.
    #[cfg(test)]
    pub(crate) fn record_is_failing(&self) -> i64 {
        self.record_failing.get()
    }

    /// Whether the recording can be written at present.
    pub(crate) fn recording_fails(&self, fails: bool) {
        self.record_failing.set(i64::from(fails));
    }

    /// Counts one request of a prober that was not let in.
    pub(crate) fn identity_refused(&self, reason: Reason) {
        let reason = reason.label();
        self.identity_refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// How often it was counted.
    #[cfg(test)]
    pub(crate) fn identity_refusals(&self, reason: Reason) -> u64 {
        let reason = reason.label();
        self.identity_refused.get_or_create(&ReasonLabel { reason }).get()
    }

    /// Whether probers cannot be told whom to trust at present.
    pub(crate) fn ca_unpublished(&self, failing: bool) {
        self.ca_unpublished.set(i64::from(failing));
    }

    /// Whether this aggregator leads.
    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Counts a look at the Lease that failed.
    pub(crate) fn lease_failed(&self) {
        self.lease_failures.inc();
    }

    /// Whether what people do is in our memory only.
    pub(crate) fn handling_unshared(&self, unshared: bool) {
        self.handling_unshared.set(i64::from(unshared));
    }

    /// Counts things that the store took.
    pub(crate) fn store_written(&self, what: What, n: u64) {
        let what = what.label();
        self.store_written.get_or_create(&WhatLabel { what }).inc_by(n);
    }

    /// Counts things that never reached the store.
    pub(crate) fn store_dropped(&self, what: What, n: u64) {
        let what = what.label();
        self.store_dropped.get_or_create(&WhatLabel { what }).inc_by(n);
    }

    /// Counts a raw failure that is one too many.
    pub(crate) fn store_surplus_failure(&self) {
        self.store_surplus.inc();
    }

    /// What the counter says.
    #[cfg(test)]
    pub(crate) fn dropped_by_store(&self, what: What) -> u64 {
        let what = what.label();
        self.store_dropped.get_or_create(&WhatLabel { what }).get()
    }

    /// Counts one refused report.
    pub(crate) fn refused(&self, why: Refusal) {
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
