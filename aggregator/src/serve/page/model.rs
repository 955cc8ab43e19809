//! Data of the templates, as formatted text.

use askama::Template;
use parallax_api::{
    challenges::WaitingChallenge,
    forecasts::RenewalForecastList,
    links::ExternalLinks,
    notifications::{ReceiverState, ReceiverStatusList},
};
use parallax_diagnosis::{
    findings::NameView,
    verdict::Incident,
    view::{VantageState, VantageView, View},
};
use parallax_history::store::{Status, StoreState};
use parallax_kubernetes::{replicas::ReplicaView, topology_state::TopologyState};
use parallax_model::{EventTime, Micros, TargetId};

use super::{
    actions::ActionsSection,
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

/// Intervals without a new view after which the page warns that the diagnosis is stale.
const STALE_INTERVALS: u64 = 3;

/// How long the page reports that a corrupt store was moved aside.
const NOTICE_PERIOD: Micros = Micros::from_secs(24 * 3_600);

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
struct PageWarning {
    title: String,
    lines: Vec<String>,
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
            headline: StatusSummary::of(view, false),
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

    /// Adds a warning for each receiver whose deliveries fail.
    pub(super) fn with_notifications(mut self, told: &ReceiverStatusList, now: EventTime) -> Self {
        for receiver in &told.receivers {
            if let ReceiverState::Failing { since, reason } = &receiver.state {
                let owed = receiver.pending;
                self.warnings.push(PageWarning {
                    title: format!(
                        "Notifications to {} have failed for {}; pending: {}",
                        receiver.name,
                        (now - *since).humanize(),
                        wording::format_count(owed, "incident")
                    ),
                    lines: vec![reason.clone()],
                });
            }
        }
        if let (false, Some(why)) = (told.receivers.is_empty(), &told.not_persisted_because) {
            self.warnings.push(PageWarning {
                title: "Pending notifications are kept in memory only".to_owned(),
                lines: vec![why.clone()],
            });
        }
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

    /// Adds warnings if this replica is warming up or on standby; none for a single aggregator.
    pub(super) fn with_replica(mut self, replica: &ReplicaView, now: EventTime) -> Self {
        let Some(name) = &replica.name else { return self };
        if let Some(until) = replica.warming_until {
            let title = format!("{name} is warming up for another {}", (until - now).humanize());
            let line = "It started recently and does not yet judge failures that only few probes see. It is requesting earlier observations from the probers.";
            self.warnings.insert(
                0,
                PageWarning {
                    title,
                    lines: vec![line.to_owned()],
                },
            );
        }
        if replica.role == "stands_by" {
            let title = match &replica.leader {
                Some(leader) => format!("{name} is on standby; the leader {leader} does not respond"),
                None => format!("{name} is on standby; there is no leader at present"),
            };
            let line = "This page shows what this aggregator observes and diagnoses on its own. Runs and actions on incidents require the leader.";
            self.warnings.insert(
                0,
                PageWarning {
                    title,
                    lines: vec![line.to_owned()],
                },
            );
        }
        self
    }
}

fn in_state(view: &View, state: VantageState) -> impl Iterator<Item = &VantageView> {
    view.vantages.iter().filter(move |vantage| vantage.state == state)
}

fn warnings(view: &View, topology: &TopologyState, store: &StoreState, now: EventTime) -> Vec<PageWarning> {
    let mut warnings = Vec::new();
    if let Some(trouble) = &topology.error {
        warnings.push(PageWarning {
            title: format!(
                "Reading the topology has failed for {}; this page uses the last known topology",
                (now - trouble.since).humanize()
            ),
            lines: trouble.message.lines().map(ToOwned::to_owned).collect(),
        });
    }
    let age = now - view.at;
    let patience = Micros(view.interval.0.saturating_mul(STALE_INTERVALS).max(5_000_000));
    if age > patience {
        warnings.push(PageWarning {
            title: format!("The diagnosis has not advanced for {}", age.humanize()),
            lines: vec!["This page shows the last known state, not the present one.".to_owned()],
        });
    }
    if let Status::Down { since, reason } = &store.status {
        warnings.push(PageWarning {
            title: format!(
                "History has not been stored for {}; probing and diagnosis continue",
                (now - *since).humanize()
            ),
            lines: vec![reason.clone()],
        });
    }
    let recent = |(at, _): &&(EventTime, String)| now - *at < NOTICE_PERIOD;
    warnings.extend(store.notices.iter().filter(recent).map(|(at, text)| PageWarning {
        title: format!(
            "A new history store was started at {}",
            wording::format_time(*at, now)
        ),
        lines: vec![text.clone()],
    }));
    warnings
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
            "prober faults",
            counters.prober_faults,
            "faults of the prober itself; no evidence about a target",
        ),
    ]
    .into_iter()
    .map(|(name, count, meaning)| PageCounter { name, count, meaning })
    .collect()
}

/// DNS answers for one name.
#[derive(Debug)]
struct NameRows {
    name: String,
    answers: Vec<NameRow>,
}

#[derive(Debug)]
struct NameRow {
    resolver: String,
    public: bool,
    addresses: String,
    meaning: String,
    queried_as: Option<String>,
    vantages: String,
}

impl NameRows {
    fn of(view: &NameView) -> Self {
        let joined = |words: Vec<String>, none: &str| {
            if words.is_empty() {
                none.to_owned()
            } else {
                words.join(", ")
            }
        };
        let answers = view
            .answers
            .iter()
            .map(|answer| NameRow {
                resolver: answer.resolver.to_string(),
                public: answer.public,
                addresses: joined(answer.addresses.iter().map(ToString::to_string).collect(), "none"),
                meaning: answer.meaning.clone(),
                queried_as: answer.queried_name.clone(),
                vantages: joined(answer.vantages.iter().map(ToString::to_string).collect(), "none"),
            })
            .collect();
        Self {
            name: view.name.clone(),
            answers,
        }
    }
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

/// Page of one incident.
#[derive(Debug, Template)]
#[template(path = "one.html")]
pub(super) struct IncidentPage {
    pub(super) card: Option<IncidentCard>,
    pub(super) actions: Option<ActionsSection>,
    /// Affected targets.
    pub(super) targets: Vec<TargetId>,
    id: String,
    /// Why there is no such incident.
    missing_because: String,
}

impl IncidentPage {
    pub(super) fn of(incident: &Incident, view: &View) -> Self {
        Self {
            card: Some(IncidentCard::of(incident, view)),
            actions: None,
            targets: incident.verdict.targets.clone(),
            id: incident.id.clone(),
            missing_because: String::new(),
        }
    }

    /// Adds links to its dashboards.
    pub(super) fn with_links(mut self, incident: &Incident, links: &ExternalLinks) -> Self {
        if let Some(card) = &mut self.card {
            card.add_dashboards(incident, links);
        }
        self
    }

    pub(super) fn missing(id: &str, why: String) -> Self {
        Self {
            card: None,
            actions: None,
            targets: Vec::new(),
            id: id.to_owned(),
            missing_because: why,
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
