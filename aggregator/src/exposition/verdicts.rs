//! Series of the diagnosis: incidents, the targets that they explain, findings, hazards.

use std::collections::BTreeMap;

use parallax_api::severity::IncidentSeverity;
use parallax_diagnosis::{
    findings::{self, FindingKind},
    verdict::{Incident, IncidentState},
    view::View,
};
use parallax_notify::incident_actions::ActionState;
use prometheus_client::encoding::EncodeLabelSet;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct TargetCause {
    target: String,
    cause: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct CauseSeverity {
    cause: String,
    severity: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct FindingLabels {
    finding: &'static str,
    catalogue: &'static str,
    severity: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct HazardLabels {
    hazard: &'static str,
    subject: String,
    severity: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct IncidentLabels {
    incident: String,
    cause: String,
    severity: &'static str,
    subject: String,
    action: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct TargetIncident {
    target: String,
    incident: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct VantageIncident {
    vantage: String,
    incident: String,
}

fn open_incidents(view: &View) -> impl Iterator<Item = &Incident> {
    view.incidents
        .iter()
        .filter(|incident| !matches!(incident.state, IncidentState::Closed { .. }))
}

/// Returns the likeliest cause of the catalogue, or the region if there is none.
fn cause_label(incident: &Incident) -> String {
    incident.verdict.causes.first().map_or_else(
        || incident.verdict.region.region.clone(),
        |cause| cause.id.clone(),
    )
}

pub(super) fn probabilities(view: &View) -> BTreeMap<TargetCause, f64> {
    let mut verdicts: BTreeMap<TargetCause, f64> = BTreeMap::new();
    for incident in open_incidents(view) {
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

pub(super) fn incident_counts(view: &View) -> BTreeMap<CauseSeverity, f64> {
    let mut counts: BTreeMap<CauseSeverity, f64> = BTreeMap::new();
    for incident in open_incidents(view) {
        let labels = CauseSeverity {
            cause: cause_label(incident),
            severity: IncidentSeverity::of(incident, view).label(),
        };
        *counts.entry(labels).or_default() += 1.0;
    }
    counts
}

/// Counts findings by kind. Kinds without findings have a series at 0, since alerts on an increase need a start value.
pub(super) fn finding_counts(view: &View) -> BTreeMap<FindingLabels, f64> {
    let labels = |kind: FindingKind, severity: &'static str| FindingLabels {
        finding: kind.label(),
        catalogue: kind.catalogue(),
        severity,
    };
    let mut counts: BTreeMap<FindingLabels, f64> = FindingKind::ALL
        .iter()
        .map(|kind| (labels(*kind, default_severity(*kind).label()), 0.0))
        .collect();
    for finding in &view.findings {
        *counts
            .entry(labels(finding.kind, finding.severity.label()))
            .or_default() += 1.0;
    }
    counts
}

/// Returns the default severity of a kind of finding.
const fn default_severity(kind: FindingKind) -> findings::Severity {
    match kind {
        FindingKind::Exposed => findings::Severity::Critical,
        _ => findings::Severity::Warning,
    }
}

pub(super) fn hazard_series(view: &View) -> BTreeMap<HazardLabels, f64> {
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

/// Returns one series per open incident. Its id is stable, while cause and severity may change.
pub(super) fn incident_series(
    view: &View,
    action: impl Fn(&Incident) -> ActionState,
) -> BTreeMap<IncidentLabels, f64> {
    open_incidents(view)
        .map(|incident| {
            let labels = IncidentLabels {
                incident: incident.id.clone(),
                cause: cause_label(incident),
                severity: IncidentSeverity::of(incident, view).label(),
                subject: incident.verdict.subject.to_string(),
                action: action(incident).label(),
            };
            (labels, 1.0)
        })
        .collect()
}

/// Returns the incident that explains the silence of each vantage.
pub(super) fn vantage_incidents(view: &View) -> BTreeMap<VantageIncident, f64> {
    let explained = view.vantages.iter().filter_map(|vantage| {
        let labels = VantageIncident {
            vantage: vantage.vantage.to_string(),
            incident: vantage.explained_by.clone()?,
        };
        Some((labels, 1.0))
    });
    explained.collect()
}

/// Returns the likeliest incident of each affected target, the earlier one on a tie: one series per target, so that
/// other series of targets can be joined with it.
pub(super) fn target_incidents(view: &View) -> BTreeMap<TargetIncident, f64> {
    let mut likeliest: BTreeMap<String, &Incident> = BTreeMap::new();
    for incident in open_incidents(view) {
        for target in &incident.verdict.targets {
            let best = likeliest.entry(target.to_string()).or_insert(incident);
            let rank = |one: &Incident| (one.verdict.probability, std::cmp::Reverse(one.opened));
            if rank(incident) > rank(best) {
                *best = incident;
            }
        }
    }
    likeliest
        .into_iter()
        .map(|(target, incident)| {
            let incident = incident.id.clone();
            (TargetIncident { target, incident }, 1.0)
        })
        .collect()
}
