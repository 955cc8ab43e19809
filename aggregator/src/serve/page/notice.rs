//! Findings and hazards as cards: notices that need no failing probe.

use parallax_diagnosis::{findings::Severity, verdict, view::View};

use super::{
    incident::{Remedy, capitalised},
    wording,
};

#[derive(Debug)]
pub(super) struct ActionNotice {
    pub(super) id: String,
    pub(super) class: &'static str,
    pub(super) sort: String,
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
                class: class(finding.severity),
                sort: format!("finding · {}", finding.kind.catalogue()),
                since: Some(wording::clock(finding.since, view.at)),
                sentence: capitalised(&finding.sentence),
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
                class: class(hazard.severity),
                sort: format!("hazard · {} · nothing fails yet", hazard.kind.catalogue()),
                since: None,
                sentence: capitalised(&hazard.sentence),
                subject: hazard.subject.clone(),
                evidence: hazard.evidence.clone(),
                remedies: remedies(&hazard.remedies),
            })
            .collect()
    }
}

const fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Notice => "recovering",
    }
}

fn remedies(all: &[verdict::Remedy]) -> Vec<Remedy> {
    all.iter().map(Remedy::of).collect()
}
