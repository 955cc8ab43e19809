//! Counters of observations, owned by the engine task. Each series is resolved once, so that counting an observation
//! takes no lock on a family and allocates nothing.

use std::collections::{BTreeMap, BTreeSet};

use parallax_diagnosis::{ObservationResult, topology::Topology};
use parallax_model::{Channel, Observation, Outcome, PhaseTimes, Placement, Recorded, TargetId, Vantage};
use parallax_runtime::metrics::ResultLabel;
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};

use super::{
    ReportReceipt,
    metrics::{DiscardReason, IngestMetrics, PhaseLabels, ProbeLabels},
};

/// Timed phases, in the order of [`times`].
const PHASES: [&str; 6] = ["resolve", "connect", "tls", "first-byte", "body", "total"];

/// Counters of reported observations.
#[derive(Debug)]
pub(crate) struct ObservationCounters {
    metrics: IngestMetrics,
    lines: LineCounters,
    /// Vantages with series of discarded observations.
    discarding: BTreeSet<Vantage>,
    /// Series of the targets in the topology; other targets have none.
    series: BTreeMap<TargetId, TargetSeries>,
}

/// Lines of reports by result.
#[derive(Debug)]
struct LineCounters {
    accepted_reports: Counter,
    counted: Counter,
    resent: Counter,
    late: Counter,
    own_fault: Counter,
    unknown: Counter,
    implausible: Counter,
    over_budget: Counter,
    duplicate: Counter,
    malformed: Counter,
}

#[derive(Debug, Default)]
struct TargetSeries {
    probes: BTreeMap<(Channel, Placement, &'static str), Counter>,
    phases: [Option<Histogram>; PHASES.len()],
}

impl LineCounters {
    fn new(metrics: &IngestMetrics) -> Self {
        let line = |result| metrics.lines.get_or_create_owned(&ResultLabel { result });
        Self {
            accepted_reports: metrics
                .reports
                .get_or_create_owned(&ResultLabel { result: "accepted" }),
            counted: line("counted"),
            resent: line("again"),
            late: line("late"),
            own_fault: line("own_fault"),
            unknown: line("unknown"),
            implausible: line("implausible"),
            over_budget: line("over_budget"),
            duplicate: line("duplicate"),
            malformed: line("malformed"),
        }
    }
}

impl ObservationCounters {
    /// Creates counters of these families.
    pub(crate) fn new(metrics: IngestMetrics) -> Self {
        Self {
            lines: LineCounters::new(&metrics),
            metrics,
            discarding: BTreeSet::new(),
            series: BTreeMap::new(),
        }
    }

    /// Admits the targets of the topology and removes the series of targets that have left it.
    pub(crate) fn set_targets(&mut self, topology: &Topology) {
        let mut targets: BTreeSet<_> = topology.targets().keys().cloned().collect();
        targets.extend(
            topology
                .nodes()
                .values()
                .filter(|node| node.prober.is_some())
                .filter_map(|node| TargetId::new(format!("echo://{}", node.name)).ok()),
        );
        let metrics = &self.metrics;
        if !self.discarding.is_empty() {
            let vantages = topology.vantages();
            self.discarding.retain(|vantage| {
                let stays = vantages.contains(vantage);
                if !stays {
                    metrics.remove_discarded(vantage);
                }
                stays
            });
        }
        self.series.retain(|target, series| {
            let stays = targets.contains(target);
            if !stays {
                series.remove(target, metrics);
            }
            stays
        });
        for target in targets {
            self.series.entry(target).or_default();
        }
    }

    /// Counts an observation by the engine's result.
    pub(crate) fn count_observation(
        &mut self,
        recorded: &Recorded,
        result: ObservationResult,
        topology: &Topology,
    ) {
        let Observation {
            target,
            channel,
            front,
            entry,
            outcome,
            times,
            ..
        } = &recorded.observation;
        let lines = &self.lines;
        let (line, placement) = match result {
            ObservationResult::Accepted { placement } => (&lines.counted, Some(placement)),
            ObservationResult::Late => (&lines.late, None),
            ObservationResult::ProberFault => (&lines.own_fault, None),
            ObservationResult::Unknown => (&lines.unknown, None),
            ObservationResult::Implausible => (&lines.implausible, None),
            ObservationResult::OverBudget => (&lines.over_budget, None),
        };
        line.inc();
        if let Some(reason) = discard_reason(result) {
            self.metrics.count_discarded(&recorded.vantage, reason);
            if !self.discarding.contains(&recorded.vantage) {
                self.discarding.insert(recorded.vantage.clone());
            }
        }
        if matches!(
            result,
            ObservationResult::Unknown | ObservationResult::Implausible | ObservationResult::OverBudget
        ) {
            return;
        }
        let Some(series) = self.series.get_mut(target) else {
            return;
        };
        let placement = placement
            .unwrap_or_else(|| topology.placement(&recorded.vantage, front.as_ref(), entry.as_ref()));
        let outcome_label = match outcome {
            Outcome::Ok { .. } => "ok",
            Outcome::Failed { kind, .. } => kind.metric_label(),
            Outcome::NotProbed { .. } => "not_asked",
        };
        series.count(target, (*channel, placement, outcome_label), &self.metrics);
        // Only successes are timed: refusals are fast and timeouts slow, so the times of failures would reflect their
        // number.
        if matches!(channel, Channel::Vip | Channel::Dns) && matches!(outcome, Outcome::Ok { .. }) {
            series.observe_times(target, phase_seconds(times), &self.metrics);
        }
    }

    /// Counts a resent observation, which an earlier process or the other replica has already counted by target.
    pub(crate) fn count_resent(&self, result: ObservationResult) {
        match result {
            ObservationResult::Late => self.lines.late.inc(),
            _ => self.lines.resent.inc(),
        };
    }

    /// Counts an accepted report.
    pub(crate) fn count_report(&self, receipt: ReportReceipt) {
        self.lines.accepted_reports.inc();
        self.lines.duplicate.inc_by(receipt.duplicates);
        self.lines.malformed.inc_by(receipt.malformed);
    }
}

impl TargetSeries {
    fn count(&mut self, target: &TargetId, key: (Channel, Placement, &'static str), metrics: &IngestMetrics) {
        let counter = || metrics.probes.get_or_create_owned(&probe_labels(target, key));
        self.probes.entry(key).or_insert_with(counter).inc();
    }

    fn observe_times(
        &mut self,
        target: &TargetId,
        times: [Option<f64>; PHASES.len()],
        metrics: &IngestMetrics,
    ) {
        for ((histogram, phase), time) in self.phases.iter_mut().zip(PHASES).zip(times) {
            let Some(time) = time else { continue };
            let new = || metrics.phases.get_or_create_owned(&phase_labels(target, phase));
            histogram.get_or_insert_with(new).observe(time);
        }
    }

    fn remove(&self, target: &TargetId, metrics: &IngestMetrics) {
        for key in self.probes.keys() {
            metrics.probes.remove(&probe_labels(target, *key));
        }
        for phase in PHASES {
            metrics.phases.remove(&phase_labels(target, phase));
        }
    }
}

/// Why an observation is no evidence, if that is because of when or how many its vantage sent.
const fn discard_reason(result: ObservationResult) -> Option<DiscardReason> {
    match result {
        ObservationResult::Late => Some(DiscardReason::Late),
        ObservationResult::Implausible => Some(DiscardReason::Implausible),
        ObservationResult::OverBudget => Some(DiscardReason::OverBudget),
        ObservationResult::Accepted { .. } | ObservationResult::ProberFault | ObservationResult::Unknown => {
            None
        }
    }
}

fn probe_labels(target: &TargetId, key: (Channel, Placement, &'static str)) -> ProbeLabels {
    let (channel, placement, result) = key;
    ProbeLabels {
        target: target.to_string(),
        channel: channel.label(),
        placement: placement.label(),
        result,
    }
}

fn phase_labels(target: &TargetId, phase: &'static str) -> PhaseLabels {
    PhaseLabels {
        target: target.to_string(),
        phase,
    }
}

/// Returns the time of each phase that was reached, in seconds.
fn phase_seconds(times: &PhaseTimes) -> [Option<f64>; PHASES.len()] {
    [
        times.resolve,
        times.connect,
        times.tls,
        times.first_byte,
        times.body,
        times.total,
    ]
    .map(|time| Some(time?.as_secs_f64()))
}
