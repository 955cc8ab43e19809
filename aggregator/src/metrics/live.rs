//! What is, read from the latest view at each scrape.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parallax_diagnosis::{
    findings::{self, FindingKind},
    verdict::{Incident, IncidentState},
    view::{CellState, View},
};
use parallax_model::{EventTime, Micros, Placement};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet},
    metrics::MetricType,
};
use tokio::sync::watch;

use crate::{
    clock::Clock,
    severity::Severity,
    store::{Status, StoreState},
    watch::{
        TopologyState,
        kube::{Condition, Reason, Resource, WatchState, Watches},
    },
};

/// The sources that a scrape reads.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) clock: Clock,
    pub(crate) views: watch::Receiver<Arc<View>>,
    pub(crate) topology: watch::Receiver<TopologyState>,
    pub(crate) store: watch::Receiver<Arc<StoreState>>,
    pub(crate) watches: watch::Receiver<Watches>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct TargetPlacement {
    target: String,
    placement: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct TargetCause {
    target: String,
    cause: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct CauseSeverity {
    cause: String,
    severity: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct FindingLabels {
    finding: &'static str,
    catalogue: &'static str,
    severity: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct HazardLabels {
    hazard: &'static str,
    subject: String,
    severity: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ResourceLabel {
    resource: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ResourceReason {
    resource: &'static str,
    reason: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct VantageLabel {
    vantage: String,
}

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let view = self.views.borrow().clone();
        let now = self.clock.now();
        gauges(
            &mut encoder,
            "target_reachable_ratio",
            "Share of the fresh probes that succeed, as a user would go, by placement of client and entry; absent while nothing fresh is known.",
            reachable(&view),
        )?;
        gauges(
            &mut encoder,
            "verdict_probability",
            "Probability of each cause that open incidents name for a target.",
            verdicts(&view),
        )?;
        gauges(
            &mut encoder,
            "incident_open",
            "Open incidents by likeliest cause; critical where some vantage reaches a target no more, warning otherwise.",
            incidents(&view),
        )?;
        gauges(
            &mut encoder,
            "finding",
            "Findings besides incidents (answers that differ, hosts served where they do not belong) by kind, as they are numbered in the catalogue, and severity.",
            findings(&view),
        )?;
        gauges(
            &mut encoder,
            "hazard",
            "What configuration lets fail though nobody does yet, by kind, subject and severity; 1 while it stands.",
            hazards(&view),
        )?;
        gauges(
            &mut encoder,
            "vantage_silent_seconds",
            "Time since the newest observation of each expected vantage, or since the start of the aggregator.",
            silences(&view, now, self.clock.start()),
        )?;
        let age = self.topology.borrow().age(now);
        let help = "Time since the topology was last known to be current; zero while its source can be read.";
        encoder
            .encode_descriptor("topology_age_seconds", help, None, MetricType::Gauge)?
            .encode_gauge(&age.as_secs_f64())?;
        let notes = self.topology.borrow().notes.len();
        let help =
            "Objects of the cluster whose annotations or references cannot be followed; the page lists them.";
        encoder
            .encode_descriptor("topology_notes", help, None, MetricType::Gauge)?
            .encode_gauge(&u32::try_from(notes).map_or(f64::INFINITY, f64::from))?;
        let watches = self.watches.borrow().clone();
        watched(&mut encoder, &watches)?;
        store(&mut encoder, &self.store.borrow().clone())
    }
}

/// How the watches of the cluster fare; no series without a cluster.
#[expect(
    clippy::cast_precision_loss,
    reason = "objects of one cluster are far below 2^52"
)]
fn watched(encoder: &mut DescriptorEncoder<'_>, watches: &Watches) -> Result<(), fmt::Error> {
    let label = |resource: &Resource| ResourceLabel {
        resource: resource.label(),
    };
    let watches = watches.kinds();
    let up = watches.iter().map(|(resource, watch)| {
        let up = matches!(watch.condition, Condition::Live | Condition::Absent);
        (label(resource), f64::from(u8::from(up)))
    });
    gauges(
        encoder,
        "watch_up",
        "1 while every change of such objects is told, or the API server knows no such objects; 0 while what is known is the last that could be read.",
        up.collect(),
    )?;
    gauges(
        encoder,
        "watch_objects",
        "Objects known, by resource.",
        watches
            .iter()
            .map(|(resource, watch)| (label(resource), watch.objects as f64))
            .collect(),
    )?;
    let mut counters = |name: &str, help: &str, count: fn(&WatchState) -> u64| -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (resource, watch) in &watches {
            family
                .encode_family(&label(resource))?
                .encode_counter::<NoLabelSet, _, u64>(&count(watch), None)?;
        }
        Ok(())
    };
    counters("watch_events", "Changes told by the API server.", |watch| {
        watch.events
    })?;
    counters(
        "watch_lists",
        "Complete lists read: one at the start, one more after each loss of history.",
        |watch| watch.lists,
    )?;
    counters(
        "watch_unreadable",
        "Objects left out because they could not be read; the log names them.",
        |watch| watch.unreadable,
    )?;
    let help = "Lists and watches that failed, by reason.";
    let mut family = encoder.encode_descriptor("watch_errors", help, None, MetricType::Counter)?;
    for (resource, watch) in &watches {
        for reason in Reason::ALL {
            let labels = ResourceReason {
                resource: resource.label(),
                reason: reason.label(),
            };
            let count = watch.errors.get(&reason).copied().unwrap_or(0);
            family
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
    }
    Ok(())
}

/// Without a store there is nothing to be up or down, and no alert to raise.
#[expect(
    clippy::cast_precision_loss,
    reason = "a file of 2^52 bytes is beyond any limit"
)]
fn store(encoder: &mut DescriptorEncoder<'_>, state: &StoreState) -> Result<(), fmt::Error> {
    let up = match state.status {
        Status::Off => None,
        Status::Up => Some(1.0),
        Status::Opening | Status::Down { .. } => Some(0.0),
    };
    for (name, help, value) in [
        (
            "store_up",
            "1 while the store takes what it is given, 0 while it cannot be used; absent without a store.",
            up,
        ),
        (
            "store_bytes",
            "Size of the store on the disk when last looked; absent without a store.",
            up.map(|_| state.bytes as f64),
        ),
    ] {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        if let Some(value) = value {
            family.encode_gauge(&value)?;
        }
    }
    Ok(())
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: BTreeMap<L, f64>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a shown window are far below 2^52"
)]
fn reachable(view: &View) -> BTreeMap<TargetPlacement, f64> {
    let mut counts: BTreeMap<(&str, Placement), (u64, u64)> = BTreeMap::new();
    for row in &view.matrix {
        for cell in row.cells.iter().filter(|cell| cell.state != CellState::Unknown) {
            let count = counts.entry((row.target.as_str(), cell.placement)).or_default();
            count.0 += cell.probes;
            count.1 += cell.failures;
        }
    }
    counts
        .into_iter()
        .filter(|(_, (probes, _))| *probes > 0)
        .map(|((target, placement), (probes, failures))| {
            let labels = TargetPlacement {
                target: target.to_owned(),
                placement: placement.label(),
            };
            (labels, probes.saturating_sub(failures) as f64 / probes as f64)
        })
        .collect()
}

fn open(view: &View) -> impl Iterator<Item = &Incident> {
    view.incidents
        .iter()
        .filter(|incident| !matches!(incident.state, IncidentState::Closed { .. }))
}

/// The likeliest cause of the catalogue, or the region where the catalogue names none.
fn cause(incident: &Incident) -> String {
    incident.verdict.causes.first().map_or_else(
        || incident.verdict.region.region.clone(),
        |cause| cause.id.clone(),
    )
}

fn verdicts(view: &View) -> BTreeMap<TargetCause, f64> {
    let mut verdicts: BTreeMap<TargetCause, f64> = BTreeMap::new();
    for incident in open(view) {
        let class = incident.verdict.probability.get();
        let mut causes: Vec<_> = incident
            .verdict
            .causes
            .iter()
            .map(|cause| (cause.id.clone(), class * cause.probability.get()))
            .collect();
        if causes.is_empty() {
            causes.push((incident.verdict.region.region.clone(), class));
        }
        for target in &incident.verdict.targets {
            for (cause, probability) in &causes {
                let labels = TargetCause {
                    target: target.to_string(),
                    cause: cause.clone(),
                };
                let most = verdicts.entry(labels).or_default();
                *most = most.max(*probability);
            }
        }
    }
    verdicts
}

fn incidents(view: &View) -> BTreeMap<CauseSeverity, f64> {
    let mut counts: BTreeMap<CauseSeverity, f64> = BTreeMap::new();
    for incident in open(view) {
        let labels = CauseSeverity {
            cause: cause(incident),
            severity: Severity::of(incident, view).label(),
        };
        *counts.entry(labels).or_default() += 1.0;
    }
    counts
}

/// Every kind has its series, at zero where there is none: an alert on a rise needs something to rise from.
fn findings(view: &View) -> BTreeMap<FindingLabels, f64> {
    let labels = |kind: FindingKind, severity: &'static str| FindingLabels {
        finding: kind.label(),
        catalogue: kind.catalogue(),
        severity,
    };
    let mut counts: BTreeMap<FindingLabels, f64> = FindingKind::ALL
        .iter()
        .map(|kind| (labels(*kind, usual(*kind).label()), 0.0))
        .collect();
    for finding in &view.findings {
        *counts
            .entry(labels(finding.kind, finding.severity.label()))
            .or_default() += 1.0;
    }
    counts
}

/// The severity that a kind of finding usually has.
const fn usual(kind: FindingKind) -> findings::Severity {
    match kind {
        FindingKind::Exposed => findings::Severity::Critical,
        _ => findings::Severity::Warning,
    }
}

fn hazards(view: &View) -> BTreeMap<HazardLabels, f64> {
    view.hazards
        .iter()
        .map(|hazard| {
            let labels = HazardLabels {
                hazard: hazard.kind.label(),
                subject: hazard.subject.clone(),
                severity: hazard.severity.label(),
            };
            (labels, 1.0)
        })
        .collect()
}

fn silences(view: &View, now: EventTime, start: EventTime) -> BTreeMap<VantageLabel, f64> {
    view.vantages
        .iter()
        .map(|vantage| {
            let silent: Micros = now - vantage.last_seen.unwrap_or(start);
            let labels = VantageLabel {
                vantage: vantage.vantage.to_string(),
            };
            (labels, silent.as_secs_f64())
        })
        .collect()
}
