//! Data of the templates, as formatted text.

mod dns_answers;
mod incident_page;
mod warnings;

use askama::Template;
use parallax_api::{challenges::WaitingChallenge, forecasts::RenewalForecastList, links::ExternalLinks};
use parallax_diagnosis::view::{VantageState, VantageView, View};
use parallax_history::store::StoreState;
use parallax_kubernetes::topology_state::TopologyState;
use parallax_model::EventTime;

use super::{
    challenges::ChallengeRow,
    history_page::HistoryPage,
    incident::{IncidentCard, requested_probes},
    maintenance::MaintenanceSection,
    matrix::{self, Matrix},
    notice::ActionNotice,
    renewals::RenewalsSection,
    truncated_list::TruncatedList,
    wording,
};
use crate::{
    ingest::ProberView,
    serve::summary::{StatusSummary, is_open},
};
use dns_answers::NameRows;
pub(super) use incident_page::IncidentPage;
use warnings::{PageWarning, warnings};

/// Content of the start page, without its frame.
#[derive(Debug, Template)]
#[template(path = "overview.html")]
pub(super) struct OverviewPage {
    headline: StatusSummary,
    warnings: Vec<PageWarning>,
    reporting: String,
    targets: usize,
    last_probe: String,
    interval: String,
    incidents: Vec<IncidentCard>,
    findings: Vec<ActionNotice>,
    hazards: Vec<ActionNotice>,
    object_warnings: Vec<(String, String)>,
    not_excluded: Vec<(String, String, String)>,
    dns_answers: TruncatedList<NameRows>,
    investigating: Vec<OngoingInvestigation>,
    history: HistoryPage,
    matrix: Matrix,
    silent_vantages: TruncatedList<SilentProber>,
    waiting_vantages: TruncatedList<String>,
    counters: Vec<PageCounter>,
    probers: TruncatedList<ProberRow>,
    maintenance: MaintenanceSection,
    challenges: TruncatedList<ChallengeRow>,
    renewals: RenewalsSection,
    as_of: String,
}

#[derive(Debug)]
struct OngoingInvestigation {
    subject: String,
    sentence: String,
    since: String,
    requested_probes: Vec<String>,
}

#[derive(Debug)]
struct SilentProber {
    vantage: String,
    reason: String,
}

#[derive(Debug)]
struct PageCounter {
    name: &'static str,
    count: u64,
    meaning: &'static str,
}

#[derive(Debug)]
struct ProberRow {
    vantage: String,
    incarnation: String,
    last_report: String,
    delay: String,
    dropped: u64,
    assignments: String,
}

impl OverviewPage {
    pub(super) fn new(
        view: &View,
        topology: &TopologyState,
        probers: &[ProberView],
        store: &StoreState,
        now: EventTime,
    ) -> Self {
        let reporting = view
            .vantages
            .iter()
            .filter(|v| v.state == VantageState::Reporting)
            .count();
        let newest = view
            .matrix
            .iter()
            .flat_map(|row| &row.cells)
            .filter_map(|cell| cell.last_probe)
            .max();
        Self {
            headline: StatusSummary::of(view, now, false),
            warnings: warnings(view, topology, store, now),
            reporting: format!("{reporting} of {}", view.vantages.len()),
            targets: topology.topology.targets().len().max(view.matrix.len()),
            last_probe: newest.map_or_else(|| "none yet".to_owned(), |last| wording::format_age(last, now)),
            interval: view.interval.to_string(),
            incidents: IncidentCard::open_incidents(view),
            findings: ActionNotice::findings(view),
            hazards: ActionNotice::hazards(view),
            object_warnings: topology
                .notes
                .iter()
                .map(|note| (note.object.clone(), note.text.clone()))
                .collect(),
            not_excluded: view
                .not_excluded
                .iter()
                .map(|open| (open.id.clone(), open.title.clone(), open.requirement.clone()))
                .collect(),
            dns_answers: TruncatedList::new(view.names.iter().map(NameRows::of), "name"),
            investigating: view
                .investigations
                .iter()
                .map(|investigation| OngoingInvestigation {
                    subject: investigation.subject.to_string(),
                    sentence: investigation.sentence.clone(),
                    since: wording::format_time(investigation.since, now),
                    requested_probes: requested_probes(view, &investigation.subject),
                })
                .collect(),
            history: HistoryPage::new(view, store, now),
            matrix: Matrix::new(view),
            silent_vantages: TruncatedList::new(
                in_state(view, VantageState::Silent).filter_map(|vantage| {
                    Some(SilentProber {
                        vantage: vantage.vantage.to_string(),
                        reason: matrix::silence_reason(vantage, now)?,
                    })
                }),
                "silent vantage",
            ),
            waiting_vantages: TruncatedList::new(
                in_state(view, VantageState::Waiting).map(|vantage| vantage.vantage.to_string()),
                "vantage",
            ),
            counters: counters(view),
            probers: TruncatedList::new(probers.iter().map(|prober| ProberRow::of(prober, now)), "prober"),
            maintenance: MaintenanceSection::default(),
            challenges: TruncatedList::new(std::iter::empty(), "Challenge"),
            renewals: RenewalsSection::new(&RenewalForecastList::unavailable("no forecast yet"), now),
            as_of: wording::format_time(view.at, now),
        }
    }
}

impl OverviewPage {
    /// Adds links from each open incident to its dashboards.
    pub(super) fn with_links(mut self, view: &View, links: &ExternalLinks) -> Self {
        let open = view.incidents.iter().filter(|incident| is_open(incident));
        for (card, incident) in self.incidents.iter_mut().zip(open) {
            card.add_dashboards(incident, links);
        }
        self
    }

    /// Adds the pending Challenges.
    pub(super) fn with_challenges(mut self, waiting: &[WaitingChallenge], now: EventTime) -> Self {
        self.challenges =
            TruncatedList::new(waiting.iter().map(|one| ChallengeRow::of(one, now)), "Challenge");
        self
    }

    /// Adds the renewal forecasts.
    pub(super) fn with_renewals(mut self, renewals: RenewalsSection) -> Self {
        self.renewals = renewals;
        self
    }

    /// Sets the headline to the status that the API returns.
    pub(super) fn with_headline(mut self, headline: StatusSummary) -> Self {
        self.headline = headline;
        self
    }

    /// Adds the announced maintenance windows.
    pub(super) fn with_maintenance(mut self, maintenance: MaintenanceSection) -> Self {
        self.maintenance = maintenance;
        self
    }
}

fn in_state(view: &View, state: VantageState) -> impl Iterator<Item = &VantageView> {
    view.vantages.iter().filter(move |vantage| vantage.state == state)
}

fn counters(view: &View) -> Vec<PageCounter> {
    let counters = &view.counters;
    [
        ("judged", counters.accepted, "observations used for diagnosis"),
        ("late", counters.late, "arrived after their round was judged"),
        (
            "unknown",
            counters.unknown,
            "for a target or vantage that is not in the topology",
        ),
        (
            "implausible",
            counters.implausible,
            "with impossible times or fields",
        ),
        (
            "over budget",
            counters.over_budget,
            "beyond the share of the vantage that sent them",
        ),
        (
            "prober faults",
            counters.prober_faults,
            "faults of the prober itself; no evidence about a target",
        ),
    ]
    .into_iter()
    .map(|(name, count, meaning)| PageCounter { name, count, meaning })
    .collect()
}

impl ProberRow {
    fn of(prober: &ProberView, now: EventTime) -> Self {
        Self {
            vantage: prober.vantage.to_string(),
            incarnation: prober.incarnation.to_string(),
            last_report: wording::format_age(prober.last_report, now),
            delay: prober.delay.to_string(),
            dropped: prober.dropped,
            assignments: prober
                .assignments
                .map_or_else(|| "–".to_owned(), |n| n.to_string()),
        }
    }
}

/// Frame around the start page or an incident's page.
#[derive(Debug, Template)]
#[template(path = "page.html")]
pub(super) struct PageFrame {
    title: String,
    /// Path from which the script refreshes the content.
    fragment_path: String,
    /// Rendered HTML, hence already escaped.
    content: String,
    version: &'static str,
}

impl PageFrame {
    pub(super) fn overview(overview: &OverviewPage) -> Result<Self, askama::Error> {
        Ok(Self {
            title: overview.headline.text.clone(),
            fragment_path: "/fragment".to_owned(),
            content: overview.render()?,
            version: env!("CARGO_PKG_VERSION"),
        })
    }

    pub(super) fn incident(one: &IncidentPage) -> Result<Self, askama::Error> {
        Ok(Self {
            title: one
                .card
                .as_ref()
                .map_or_else(|| "Incident not found".to_owned(), |card| card.sentence.clone()),
            fragment_path: format!("/incident/{}/fragment", askama::filters::urlencode(&one.id)?),
            content: one.render()?,
            version: env!("CARGO_PKG_VERSION"),
        })
    }
}
