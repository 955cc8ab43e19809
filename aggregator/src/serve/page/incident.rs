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

/// Targets shown before the fold, if there are more than [`MAX_UNFOLDED_TARGETS`].
const FOLDED_TARGETS: usize = 4;
const MAX_UNFOLDED_TARGETS: usize = 7;

#[derive(Debug)]
pub(super) struct IncidentCard {
    pub(super) id: String,
    pub(super) class: &'static str,
    pub(super) state: String,
    pub(super) headline: String,
    /// The explanation in one sentence.
    pub(super) sentence: String,
    pub(super) probability: String,
    /// The probability as a number, for the meter.
    pub(super) probability_value: f64,
    pub(super) subject: String,
    pub(super) since: String,
    pub(super) since_iso: String,
    pub(super) duration: String,
    pub(super) occurrences: Option<String>,
    /// Share of the time in which probes fail, if the cause recurred.
    pub(super) duty_cycle: Option<String>,
    /// Why it ended, if its subject no longer exists.
    pub(super) closed_because: Option<String>,
    pub(super) targets: Vec<String>,
    pub(super) more_targets: Vec<String>,
    pub(super) target_count: String,
    pub(super) causes: Vec<Cause>,
    /// What follows from the cause beside failures of targets.
    pub(super) consequences: Vec<String>,
    /// Empty without a tie.
    pub(super) tied_regions: Vec<String>,
    pub(super) separating_probes: Vec<String>,
    /// Follow-up probes under way, while the incident is open.
    pub(super) requested_probes: Vec<String>,
    /// The result that decided, and other results of follow-up probes.
    pub(super) probe_results: Vec<String>,
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

/// "35 %".
fn percent(share: Probability) -> String {
    format!("{:.0} %", 100.0 * share.get())
}

#[derive(Debug)]
pub(super) struct Cause {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) probability: String,
}

#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) clients: String,
    pub(super) channel: String,
    pub(super) placement: String,
    pub(super) probes: u64,
    pub(super) failures: u64,
    pub(super) failure_kinds: String,
    /// Whether the named region predicts failure here.
    pub(super) predicted: bool,
}

#[derive(Debug)]
pub(super) struct Remedy {
    pub(super) action: String,
    pub(super) command: Option<String>,
    pub(super) trade_off: String,
    pub(super) ineffective_when: Option<String>,
}

impl Remedy {
    pub(super) fn of(remedy: &verdict::Remedy) -> Self {
        Self {
            action: capitalize(&remedy.action),
            command: remedy.command.clone(),
            trade_off: remedy.trade_off.clone(),
            ineffective_when: remedy.ineffective_when.clone(),
        }
    }
}

/// Lists the follow-up probes of a subject with their purpose.
pub(super) fn requested_probes(view: &View, subject: &verdict::Subject) -> Vec<String> {
    let about = view.probe_requests.iter().filter(|ask| ask.subject == *subject);
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
            IncidentState::Closed { closed } => {
                ("closed", format!("closed {}", wording::format_time(closed, now)))
            }
        };
        let mut targets: Vec<_> = verdict.targets.iter().map(ToString::to_string).collect();
        let target_count = wording::format_count(targets.len(), "target");
        let more_targets = if targets.len() > MAX_UNFOLDED_TARGETS {
            targets.split_off(FOLDED_TARGETS)
        } else {
            Vec::new()
        };
        Self {
            id: incident.id.clone(),
            class,
            state,
            headline: capitalize(&verdict.headline()),
            sentence: capitalize(&verdict.sentence),
            probability: probability(verdict.probability),
            probability_value: verdict.probability.get(),
            subject: verdict.subject.to_string(),
            since: wording::format_time(incident.since, now),
            since_iso: wording::format_iso(incident.since),
            duration: (end_time(incident, now) - incident.since).humanize(),
            closed_because: incident.departure_reason.clone(),
            occurrences: (incident.occurrences > 1).then(|| incident.occurrences.to_string()),
            duty_cycle: incident.duty_cycle.map(percent),
            targets,
            more_targets,
            target_count,
            causes: causes(verdict),
            consequences: incident
                .consequences
                .iter()
                .map(|consequence| capitalize(&consequence.to_string()))
                .collect(),
            tied_regions: if verdict.class.len() > 1 {
                verdict.class.iter().map(RegionRef::description).collect()
            } else {
                Vec::new()
            },
            separating_probes: verdict.separating_probes.clone(),
            requested_probes: if is_open(incident) {
                requested_probes(view, &verdict.subject)
            } else {
                Vec::new()
            },
            probe_results: verdict
                .deciding_probe
                .iter()
                .chain(&verdict.follow_up_results)
                .cloned()
                .collect(),
            region: verdict.region.description(),
            evidence: verdict.evidence.iter().map(evidence).collect(),
            locality: verdict.locality.clone(),
            ruled_out: verdict
                .ruled_out
                .iter()
                .map(|out| (out.region.description(), out.reason.clone()))
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
                .map(|open| (open.id.clone(), open.title.clone(), open.requirement.clone()))
                .collect(),
        }
    }

    /// Adds links to the dashboards that show it.
    pub(super) fn add_dashboards(&mut self, incident: &Incident, links: &ExternalLinks) {
        self.dashboards = links.dashboards(incident);
    }

    pub(super) fn open_incidents(view: &View) -> Vec<Self> {
        view.incidents
            .iter()
            .filter(|incident| is_open(incident))
            .map(|incident| Self::of(incident, view))
            .collect()
    }
}

const fn end_time(incident: &Incident, now: EventTime) -> EventTime {
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
        clients: row.clients.clone(),
        channel: row.channel.to_string(),
        placement: row
            .placement
            .map_or_else(String::new, |placement| placement.to_string()),
        probes: row.probes,
        failures: row.failures,
        failure_kinds: kinds.join(", "),
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
pub(super) fn capitalize(sentence: &str) -> String {
    let first_word = sentence.split_whitespace().next().unwrap_or_default();
    if !first_word.bytes().all(|b| b.is_ascii_lowercase()) {
        return sentence.to_owned();
    }
    let mut chars = sentence.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
