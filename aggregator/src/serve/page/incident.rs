//! One incident as a card: sentence, evidence, remedies.

use parallax_api::{
    links::{DashboardLink, ExternalLinks},
    severity::IncidentSeverity,
};
use parallax_diagnosis::{
    requests::ProbeRequest,
    verdict::{self, EvidenceRow, Incident, IncidentState, RegionRef, Verdict},
    view::View,
};
use parallax_model::{EventTime, Probability};

use super::wording;
use crate::serve::summary::is_open;

/// Targets shown before the fold, if there are more than [`TARGETS_UNFOLDED`].
const TARGETS_SHOWN: usize = 4;
const TARGETS_UNFOLDED: usize = 7;

#[derive(Debug)]
pub(super) struct IncidentCard {
    pub(super) id: String,
    pub(super) class: &'static str,
    pub(super) state: String,
    pub(super) sentence: String,
    pub(super) probability: String,
    /// The probability as a number, for the meter.
    pub(super) measure: f64,
    pub(super) subject: String,
    pub(super) since: String,
    pub(super) since_iso: String,
    pub(super) lasting: String,
    pub(super) occurrences: Option<String>,
    /// Why it ended, if its subject no longer exists.
    pub(super) departed: Option<String>,
    pub(super) targets: Vec<String>,
    pub(super) more_targets: Vec<String>,
    pub(super) target_count: String,
    pub(super) causes: Vec<Cause>,
    /// Empty without a tie.
    pub(super) tie: Vec<String>,
    pub(super) separating: Vec<String>,
    /// On-demand probes under way, while the incident is open.
    pub(super) asked: Vec<String>,
    /// The result that decided, and other results of on-demand probes.
    pub(super) decided: Vec<String>,
    pub(super) region: String,
    pub(super) evidence: Vec<Evidence>,
    pub(super) locality: Vec<String>,
    pub(super) ruled_out: Vec<(String, String)>,
    pub(super) facts: Vec<(String, String)>,
    pub(super) remedies: Vec<Remedy>,
    /// Dashboards that show it.
    pub(super) dashboards: Vec<DashboardLink>,
    /// Id, title, and what would be needed to rule it out.
    pub(super) not_excluded: Vec<(String, String, String)>,
}

#[derive(Debug)]
pub(super) struct Cause {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) probability: String,
}

#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) who: String,
    pub(super) channel: String,
    pub(super) placement: String,
    pub(super) probes: u64,
    pub(super) failures: u64,
    pub(super) kinds: String,
    /// Whether the named region predicts failure here.
    pub(super) predicted: bool,
}

#[derive(Debug)]
pub(super) struct Remedy {
    pub(super) action: String,
    pub(super) command: Option<String>,
    pub(super) price: String,
    pub(super) not_when: Option<String>,
}

impl Remedy {
    pub(super) fn of(remedy: &verdict::Remedy) -> Self {
        Self {
            action: capitalised(&remedy.action),
            command: remedy.command.clone(),
            price: remedy.price.clone(),
            not_when: remedy.not_when.clone(),
        }
    }
}

/// Lists the on-demand probes of a subject with their purpose.
pub(super) fn asked(view: &View, subject: &verdict::Subject) -> Vec<String> {
    let about = view.asks.iter().filter(|ask| ask.subject == *subject);
    about.map(ProbeRequest::purpose).collect()
}

impl IncidentCard {
    pub(super) fn of(incident: &Incident, view: &View) -> Self {
        let now = view.at;
        let verdict = &incident.verdict;
        let (class, state) = match incident.state {
            IncidentState::Open => {
                let severity = IncidentSeverity::of(incident, view).label();
                (severity, severity.to_owned())
            }
            IncidentState::Recovering => ("recovering", "recovering".to_owned()),
            IncidentState::Closed { closed } => ("closed", format!("closed {}", wording::clock(closed, now))),
        };
        let mut targets: Vec<_> = verdict.targets.iter().map(ToString::to_string).collect();
        let target_count = wording::count(targets.len(), "target");
        let more_targets = if targets.len() > TARGETS_UNFOLDED {
            targets.split_off(TARGETS_SHOWN)
        } else {
            Vec::new()
        };
        Self {
            id: incident.id.clone(),
            class,
            state,
            sentence: capitalised(&verdict.sentence),
            probability: probability(verdict.probability),
            measure: verdict.probability.get(),
            subject: verdict.subject.to_string(),
            since: wording::clock(incident.since, now),
            since_iso: wording::iso(incident.since),
            lasting: (end(incident, now) - incident.since).rounded(),
            departed: incident.departed.clone(),
            occurrences: (incident.occurrences > 1).then(|| incident.occurrences.to_string()),
            targets,
            more_targets,
            target_count,
            causes: causes(verdict),
            tie: if verdict.class.len() > 1 {
                verdict.class.iter().map(RegionRef::description).collect()
            } else {
                Vec::new()
            },
            separating: verdict.separating.clone(),
            asked: if is_open(incident) {
                asked(view, &verdict.subject)
            } else {
                Vec::new()
            },
            decided: verdict
                .decided_by
                .iter()
                .chain(&verdict.answers)
                .cloned()
                .collect(),
            region: verdict.region.description(),
            evidence: verdict.evidence.iter().map(evidence).collect(),
            locality: verdict.locality.clone(),
            ruled_out: verdict
                .ruled_out
                .iter()
                .map(|out| (out.region.description(), out.because.clone()))
                .collect(),
            facts: verdict
                .facts
                .iter()
                .map(|fact| {
                    let by = multiplier(fact.multiplier);
                    let by = match &fact.cause {
                        Some(cause) => format!("{by} for {cause}"),
                        None => by,
                    };
                    (fact.text.clone(), by)
                })
                .collect(),
            dashboards: Vec::new(),
            remedies: verdict.remedies.iter().map(Remedy::of).collect(),
            not_excluded: verdict
                .not_excluded
                .iter()
                .map(|open| (open.id.clone(), open.title.clone(), open.needed.clone()))
                .collect(),
        }
    }

    /// Adds links to the dashboards that show it.
    pub(super) fn link(&mut self, incident: &Incident, links: &ExternalLinks) {
        self.dashboards = links.dashboards(incident);
    }

    pub(super) fn open(view: &View) -> Vec<Self> {
        view.incidents
            .iter()
            .filter(|incident| is_open(incident))
            .map(|incident| Self::of(incident, view))
            .collect()
    }
}

const fn end(incident: &Incident, now: EventTime) -> EventTime {
    match incident.state {
        IncidentState::Closed { closed } => closed,
        IncidentState::Open | IncidentState::Recovering => now,
    }
}

/// Formats a probability with two digits; values that would round to 1 are shown as `> 0.99`.
fn probability(value: Probability) -> String {
    if value.get() >= 0.995 {
        "> 0.99".to_owned()
    } else {
        format!("{value:.2}")
    }
}

fn causes(verdict: &Verdict) -> Vec<Cause> {
    verdict
        .causes
        .iter()
        .map(|cause| Cause {
            id: cause.id.clone(),
            title: cause.title.clone(),
            probability: probability(cause.probability),
        })
        .collect()
}

fn evidence(row: &EvidenceRow) -> Evidence {
    let kinds: Vec<_> = row
        .kinds
        .iter()
        .map(|(kind, n)| format!("{} × {n}", kind.replace('_', " ")))
        .collect();
    Evidence {
        who: row.who.clone(),
        channel: row.channel.to_string(),
        placement: row
            .placement
            .map_or_else(String::new, |placement| placement.to_string()),
        probes: row.probes,
        failures: row.failures,
        kinds: kinds.join(", "),
        predicted: row.predicted,
    }
}

/// Formats how a fact changed the odds: `×3`, `÷4`.
fn multiplier(factor: f64) -> String {
    let plain = |value: f64| {
        let text = format!("{value:.1}");
        text.strip_suffix(".0").map_or(text.clone(), ToOwned::to_owned)
    };
    if factor >= 1.0 || factor <= 0.0 {
        format!("×{}", plain(factor))
    } else {
        format!("÷{}", plain(1.0 / factor))
    }
}

/// Capitalises a sentence unless it starts with a name.
pub(super) fn capitalised(sentence: &str) -> String {
    let first_word = sentence.split_whitespace().next().unwrap_or_default();
    if !first_word.bytes().all(|b| b.is_ascii_lowercase()) {
        return sentence.to_owned();
    }
    let mut chars = sentence.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
