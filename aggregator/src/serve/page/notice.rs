//! Findings and hazards as cards: notices that need no failing probe.

use parallax_diagnosis::{findings::Severity, verdict, view::View};

use super::{
    incident::{Remedy, capitalize},
    wording,
};

#[derive(Debug)]
pub(super) struct ActionNotice {
    pub(super) id: String,
    pub(super) class: &'static str,
    pub(super) kind: String,
    pub(super) since: Option<String>,
    pub(super) sentence: String,
    pub(super) subject: String,
    pub(super) evidence: Vec<String>,
    pub(super) remedies: Vec<Remedy>,
}

impl ActionNotice {
    pub(super) fn findings(view: &View) -> Vec<Self> {
        view.findings
            .iter()
            .map(|finding| Self {
                id: finding.id.clone(),
                class: severity_class(finding.severity),
                kind: format!("finding · {}", finding.kind.catalogue()),
                since: Some(wording::format_time(finding.since, view.at)),
                sentence: capitalize(&finding.sentence),
                subject: finding.subject.clone(),
                evidence: finding.evidence.clone(),
                remedies: remedies(&finding.remedies),
            })
            .collect()
    }

    pub(super) fn hazards(view: &View) -> Vec<Self> {
        view.hazards
            .iter()
            .map(|hazard| Self {
                id: hazard.id.clone(),
                class: severity_class(hazard.severity),
                kind: format!("hazard · {} · nothing fails yet", hazard.kind.catalogue()),
                since: None,
                sentence: capitalize(&hazard.sentence),
                subject: hazard.subject.clone(),
                evidence: hazard.evidence.clone(),
                remedies: remedies(&hazard.remedies),
            })
            .collect()
    }
}

const fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Notice => "recovering",
    }
}

fn remedies(all: &[verdict::Remedy]) -> Vec<Remedy> {
    all.iter().map(Remedy::of).collect()
}
