//! What the templates show, as finished text.

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
    incident::{IncidentCard, asked},
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

/// An engine that has not moved for this many intervals is said to stand still.
const STALE_INTERVALS: u64 = 3;

/// How long the page says that a corrupt store was moved aside.
const NOTICE_FOR: Micros = Micros::from_secs(24 * 3_600);

/// Everything on the first page, without its frame.
#[derive(Debug, Template)]
#[template(path = "overview.html")]
pub(super) struct OverviewPage {
    headline: StatusSummary,
    warnings: Vec<PageWarning>,
    reporting: String,
    targets: usize,
    newest: String,
    interval: String,
    open: Vec<IncidentCard>,
    findings: Vec<ActionNotice>,
    hazards: Vec<ActionNotice>,
    notes: Vec<(String, String)>,
    not_excluded: Vec<(String, String, String)>,
    names: TruncatedList<NameRows>,
    investigating: Vec<OngoingInvestigation>,
    history: HistoryPage,
    matrix: Matrix,
    silent: TruncatedList<SilentProber>,
    waiting: TruncatedList<String>,
    counters: Vec<PageCounter>,
    probers: TruncatedList<ProberRow>,
    maintenance: MaintenanceSection,
    challenges: TruncatedList<ChallengeRow>,
    renewals: RenewalsSection,
    at: String,
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
    asked: Vec<String>,
}

#[derive(Debug)]
struct SilentProber {
    vantage: String,
    why: String,
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
    heard: String,
    delay: String,
    dropped: u64,
    assignments: String,
}

impl OverviewPage {
    pub(super) fn of(
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
            .filter_map(|cell| cell.last)
            .max();
        Self {
            headline: StatusSummary::of(view, false),
            warnings: warnings(view, topology, store, now),
            reporting: format!("{reporting} of {}", view.vantages.len()),
            targets: topology.topology.targets().len().max(view.matrix.len()),
            newest: newest.map_or_else(|| "none yet".to_owned(), |last| wording::ago(last, now)),
            interval: view.interval.to_string(),
            open: IncidentCard::open(view),
            findings: ActionNotice::findings(view),
            hazards: ActionNotice::hazards(view),
            notes: topology
                .notes
                .iter()
                .map(|note| (note.object.clone(), note.text.clone()))
                .collect(),
            not_excluded: view
                .not_excluded
                .iter()
                .map(|open| (open.id.clone(), open.title.clone(), open.needed.clone()))
                .collect(),
            names: TruncatedList::of(view.names.iter().map(NameRows::of), "name"),
            investigating: view
                .investigating
                .iter()
                .map(|investigation| OngoingInvestigation {
                    subject: investigation.subject.to_string(),
                    sentence: investigation.sentence.clone(),
                    since: wording::clock(investigation.since, now),
                    asked: asked(view, &investigation.subject),
                })
                .collect(),
            history: HistoryPage::of(view, store, now),
            matrix: Matrix::of(view),
            silent: TruncatedList::of(
                of_state(view, VantageState::Silent).filter_map(|vantage| {
                    Some(SilentProber {
                        vantage: vantage.vantage.to_string(),
                        why: matrix::silence(vantage, now)?,
                    })
                }),
                "silent vantage",
            ),
            waiting: TruncatedList::of(
                of_state(view, VantageState::Waiting).map(|vantage| vantage.vantage.to_string()),
                "vantage",
            ),
            counters: counters(view),
            probers: TruncatedList::of(probers.iter().map(|prober| ProberRow::of(prober, now)), "prober"),
            maintenance: MaintenanceSection::default(),
            challenges: TruncatedList::of(std::iter::empty(), "Challenge"),
            renewals: RenewalsSection::of(&RenewalForecastList::missing("not asked yet"), now),
            at: wording::clock(view.at, now),
        }
    }
}

impl OverviewPage {
    /// Leads from each open incident to its dashboards.
    pub(super) fn linked(mut self, view: &View, links: &ExternalLinks) -> Self {
        let open = view.incidents.iter().filter(|incident| is_open(incident));
        for (card, incident) in self.open.iter_mut().zip(open) {
            card.link(incident, links);
        }
        self
    }

    /// Says which Challenges wait.
    pub(super) fn of_challenges(mut self, waiting: &[WaitingChallenge], now: EventTime) -> Self {
        self.challenges =
            TruncatedList::of(waiting.iter().map(|one| ChallengeRow::of(one, now)), "Challenge");
        self
    }

    /// Says who cannot be told of incidents.
    pub(super) fn telling(mut self, told: &ReceiverStatusList, now: EventTime) -> Self {
        for receiver in &told.receivers {
            if let ReceiverState::Failing { since, reason } = &receiver.standing {
                let owed = receiver.pending;
                self.warnings.push(PageWarning {
                    title: format!(
                        "{} hears nothing since {}; it is owed word of {}",
                        receiver.name,
                        (now - *since).rounded(),
                        wording::count(owed, "incident")
                    ),
                    lines: vec![reason.clone()],
                });
            }
        }
        if let (false, Some(why)) = (told.receivers.is_empty(), &told.unkept_because) {
            self.warnings.push(PageWarning {
                title: "What receivers are owed is in memory only".to_owned(),
                lines: vec![why.clone()],
            });
        }
        self
    }

    /// Says which renewals would fail.
    pub(super) fn of_renewals(mut self, renewals: RenewalsSection) -> Self {
        self.renewals = renewals;
        self
    }

    /// Says whether all is well, as the API does.
    pub(super) fn headed(mut self, headline: StatusSummary) -> Self {
        self.headline = headline;
        self
    }

    /// Says what is announced.
    pub(super) fn of_maintenance(mut self, maintenance: MaintenanceSection) -> Self {
        self.maintenance = maintenance;
        self
    }

    /// Says which of several aggregators shows this; of a single one there is nothing to say.
    pub(super) fn of_replica(mut self, replica: &ReplicaView, now: EventTime) -> Self {
        let Some(name) = &replica.name else { return self };
        if let Some(until) = replica.warming {
            let title = format!("{name} is warming up for another {}", (until - now).rounded());
            let line = "It has started a short while ago: what few probes notice is not judged yet. The probers are asked for what they saw before.";
            self.warnings.insert(
                0,
                PageWarning {
                    title,
                    lines: vec![line.to_owned()],
                },
            );
        }
        if replica.part == "stands_by" {
            let title = match &replica.leader {
                Some(leader) => format!("{name} stands by; {leader}, which leads, does not answer"),
                None => format!("{name} stands by; no aggregator leads at present"),
            };
            let line = "Shown is what this aggregator sees and judges by itself. Runs, and whatever is done about incidents, wait for the one that leads.";
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

fn of_state(view: &View, state: VantageState) -> impl Iterator<Item = &VantageView> {
    view.vantages.iter().filter(move |vantage| vantage.state == state)
}

fn warnings(view: &View, topology: &TopologyState, store: &StoreState, now: EventTime) -> Vec<PageWarning> {
    let mut warnings = Vec::new();
    if let Some(trouble) = &topology.trouble {
        warnings.push(PageWarning {
            title: format!(
                "The topology cannot be read; what is shown rests on the one known {} ago",
                (now - trouble.since).rounded()
            ),
            lines: trouble.message.lines().map(ToOwned::to_owned).collect(),
        });
    }
    let age = now - view.at;
    let patience = Micros(view.interval.0.saturating_mul(STALE_INTERVALS).max(5_000_000));
    if age > patience {
        warnings.push(PageWarning {
            title: format!("The diagnosis stands still since {}", age.rounded()),
            lines: vec!["What is shown is the last that was known, not the present.".to_owned()],
        });
    }
    if let Status::Down { since, reason } = &store.status {
        warnings.push(PageWarning {
            title: format!(
                "History is not kept since {}; probing and judging go on without it",
                (now - *since).rounded()
            ),
            lines: vec![reason.clone()],
        });
    }
    let recent = |(at, _): &&(EventTime, String)| now - *at < NOTICE_FOR;
    warnings.extend(store.notices.iter().filter(recent).map(|(at, text)| PageWarning {
        title: format!("The history was begun anew at {}", wording::clock(*at, now)),
        lines: vec![text.clone()],
    }));
    warnings
}

fn counters(view: &View) -> Vec<PageCounter> {
    let counters = &view.counters;
    [
        ("judged", counters.counted, "observations that count"),
        ("late", counters.late, "came after their round was judged"),
        (
            "unknown",
            counters.unknown,
            "of a target or vantage that the topology does not name",
        ),
        (
            "implausible",
            counters.implausible,
            "times or fields that cannot be",
        ),
        (
            "own faults",
            counters.own_faults,
            "the prober's own; they say nothing about a target",
        ),
    ]
    .into_iter()
    .map(|(name, count, meaning)| PageCounter { name, count, meaning })
    .collect()
}

/// What one name is told to be.
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
    asked_as: Option<String>,
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
                asked_as: answer.asked_as.clone(),
                vantages: joined(
                    answer.vantages.iter().map(ToString::to_string).collect(),
                    "nobody",
                ),
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
            heard: wording::ago(prober.heard, now),
            delay: prober.delay.to_string(),
            dropped: prober.dropped,
            assignments: prober
                .assignments
                .map_or_else(|| "–".to_owned(), |n| n.to_string()),
        }
    }
}

/// One incident on a page of its own.
#[derive(Debug, Template)]
#[template(path = "one.html")]
pub(super) struct IncidentPage {
    pub(super) card: Option<IncidentCard>,
    pub(super) handling: Option<ActionsSection>,
    /// Whom it concerns.
    pub(super) targets: Vec<TargetId>,
    id: String,
    /// Why there is none.
    why: String,
}

impl IncidentPage {
    pub(super) fn of(incident: &Incident, view: &View) -> Self {
        Self {
            card: Some(IncidentCard::of(incident, view)),
            handling: None,
            targets: incident.verdict.targets.clone(),
            id: incident.id.clone(),
            why: String::new(),
        }
    }

    /// Leads to its dashboards.
    pub(super) fn linked(mut self, incident: &Incident, links: &ExternalLinks) -> Self {
        if let Some(card) = &mut self.card {
            card.link(incident, links);
        }
        self
    }

    pub(super) fn missing(id: &str, why: String) -> Self {
        Self {
            card: None,
            handling: None,
            targets: Vec::new(),
            id: id.to_owned(),
            why,
        }
    }
}

/// The frame around either.
#[derive(Debug, Template)]
#[template(path = "page.html")]
pub(super) struct PageFrame {
    title: String,
    /// Where the script gets the content anew.
    fragment: String,
    /// Rendered, hence escaped already.
    content: String,
    version: &'static str,
}

impl PageFrame {
    pub(super) fn overview(overview: &OverviewPage) -> Result<Self, askama::Error> {
        Ok(Self {
            title: overview.headline.text.clone(),
            fragment: "/fragment".to_owned(),
            content: overview.render()?,
            version: env!("CARGO_PKG_VERSION"),
        })
    }

    pub(super) fn incident(one: &IncidentPage) -> Result<Self, askama::Error> {
        Ok(Self {
            title: one
                .card
                .as_ref()
                .map_or_else(|| "No such incident".to_owned(), |card| card.sentence.clone()),
            fragment: format!("/incident/{}/fragment", askama::filters::urlencode(&one.id)?),
            content: one.render()?,
            version: env!("CARGO_PKG_VERSION"),
        })
    }
}
