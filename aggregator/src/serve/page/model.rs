//! What the templates show, as finished text.

use askama::Template;
use parallax_diagnosis::{
    findings::NameView,
    verdict::Incident,
    view::{VantageState, VantageView, View},
};
use parallax_model::{EventTime, Micros, TargetId};

use super::{
    challenges::Waiting,
    handled::Handled,
    incident::{Card, asked},
    listed::Listed,
    maintenance::Maintenance,
    matrix::{self, Matrix},
    notice::Notice,
    past::History,
    renewals::Renewals,
    words,
};
use crate::{
    challenges::api::WaitingChallenge,
    forecast::Forecasts,
    ingest::ProberView,
    links::Links,
    notify::api::{Notifications, Standing},
    replicas::ReplicaView,
    serve::summary::{Summary, is_open},
    store::{Status, StoreState},
    topology_state::TopologyState,
};

/// An engine that has not moved for this many intervals is said to stand still.
const STALE_INTERVALS: u64 = 3;

/// How long the page says that a corrupt store was moved aside.
const NOTICE_FOR: Micros = Micros::from_secs(24 * 3_600);

/// Everything on the first page, without its frame.
#[derive(Debug, Template)]
#[template(path = "overview.html")]
pub(super) struct Overview {
    headline: Summary,
    warnings: Vec<Warning>,
    reporting: String,
    targets: usize,
    newest: String,
    interval: String,
    open: Vec<Card>,
    findings: Vec<Notice>,
    hazards: Vec<Notice>,
    notes: Vec<(String, String)>,
    not_excluded: Vec<(String, String, String)>,
    names: Listed<NameRows>,
    investigating: Vec<Investigating>,
    history: History,
    matrix: Matrix,
    silent: Listed<Silent>,
    waiting: Listed<String>,
    counters: Vec<Counter>,
    probers: Listed<Prober>,
    maintenance: Maintenance,
    challenges: Listed<Waiting>,
    renewals: Renewals,
    at: String,
}

#[derive(Debug)]
struct Warning {
    title: String,
    lines: Vec<String>,
}

#[derive(Debug)]
struct Investigating {
    subject: String,
    sentence: String,
    since: String,
    asked: Vec<String>,
}

#[derive(Debug)]
struct Silent {
    vantage: String,
    why: String,
}

#[derive(Debug)]
struct Counter {
    name: &'static str,
    count: u64,
    meaning: &'static str,
}

#[derive(Debug)]
struct Prober {
    vantage: String,
    incarnation: String,
    heard: String,
    delay: String,
    dropped: u64,
    assignments: String,
}

impl Overview {
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
            headline: Summary::of(view, false),
            warnings: warnings(view, topology, store, now),
            reporting: format!("{reporting} of {}", view.vantages.len()),
            targets: topology.topology.targets().len().max(view.matrix.len()),
            newest: newest.map_or_else(|| "none yet".to_owned(), |last| words::ago(last, now)),
            interval: view.interval.to_string(),
            open: Card::open(view),
            findings: Notice::findings(view),
            hazards: Notice::hazards(view),
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
            names: Listed::of(view.names.iter().map(NameRows::of), "name"),
            investigating: view
                .investigating
                .iter()
                .map(|investigation| Investigating {
                    subject: investigation.subject.to_string(),
                    sentence: investigation.sentence.clone(),
                    since: words::clock(investigation.since, now),
                    asked: asked(view, &investigation.subject),
                })
                .collect(),
            history: History::of(view, store, now),
            matrix: Matrix::of(view),
            silent: Listed::of(
                of_state(view, VantageState::Silent).filter_map(|vantage| {
                    Some(Silent {
                        vantage: vantage.vantage.to_string(),
                        why: matrix::silence(vantage, now)?,
                    })
                }),
                "silent vantage",
            ),
            waiting: Listed::of(
                of_state(view, VantageState::Waiting).map(|vantage| vantage.vantage.to_string()),
                "vantage",
            ),
            counters: counters(view),
            probers: Listed::of(probers.iter().map(|prober| Prober::of(prober, now)), "prober"),
            maintenance: Maintenance::default(),
            challenges: Listed::of(std::iter::empty(), "Challenge"),
            renewals: Renewals::of(&Forecasts::missing("not asked yet"), now),
            at: words::clock(view.at, now),
        }
    }
}

impl Overview {
    /// Leads from each open incident to its dashboards.
    pub(super) fn linked(mut self, view: &View, links: &Links) -> Self {
        let open = view.incidents.iter().filter(|incident| is_open(incident));
        for (card, incident) in self.open.iter_mut().zip(open) {
            card.link(incident, links);
        }
        self
    }

    /// Says which Challenges wait.
    pub(super) fn of_challenges(mut self, waiting: &[WaitingChallenge], now: EventTime) -> Self {
        self.challenges = Listed::of(waiting.iter().map(|one| Waiting::of(one, now)), "Challenge");
        self
    }

    /// Says who cannot be told of incidents.
    pub(super) fn telling(mut self, told: &Notifications, now: EventTime) -> Self {
        for receiver in &told.receivers {
            if let Standing::Failing { since, reason } = &receiver.standing {
                let owed = receiver.pending;
                self.warnings.push(Warning {
                    title: format!(
                        "{} hears nothing since {}; it is owed word of {}",
                        receiver.name,
                        words::span(now - *since),
                        words::count(owed, "incident")
                    ),
                    lines: vec![reason.clone()],
                });
            }
        }
        if let (false, Some(why)) = (told.receivers.is_empty(), &told.unkept_because) {
            self.warnings.push(Warning {
                title: "What receivers are owed is in memory only".to_owned(),
                lines: vec![why.clone()],
            });
        }
        self
    }

    /// Says which renewals would fail.
    pub(super) fn of_renewals(mut self, renewals: Renewals) -> Self {
        self.renewals = renewals;
        self
    }

    /// Says whether all is well, as the API does.
    pub(super) fn headed(mut self, headline: Summary) -> Self {
        self.headline = headline;
        self
    }

    /// Says what is announced.
    pub(super) fn of_maintenance(mut self, maintenance: Maintenance) -> Self {
        self.maintenance = maintenance;
        self
    }

    /// Says which of several aggregators shows this; of a single one there is nothing to say.
    pub(super) fn of_replica(mut self, replica: &ReplicaView, now: EventTime) -> Self {
        let Some(name) = &replica.name else { return self };
        if let Some(until) = replica.warming {
            let title = format!("{name} is warming up for another {}", words::span(until - now));
            let line = "It has started a short while ago: what few probes notice is not judged yet. The probers are asked for what they saw before.";
            self.warnings.insert(
                0,
                Warning {
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
                Warning {
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

fn warnings(view: &View, topology: &TopologyState, store: &StoreState, now: EventTime) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(trouble) = &topology.trouble {
        warnings.push(Warning {
            title: format!(
                "The topology cannot be read; what is shown rests on the one known {} ago",
                words::span(now - trouble.since)
            ),
            lines: trouble.message.lines().map(ToOwned::to_owned).collect(),
        });
    }
    let age = now - view.at;
    let patience = Micros(view.interval.0.saturating_mul(STALE_INTERVALS).max(5_000_000));
    if age > patience {
        warnings.push(Warning {
            title: format!("The diagnosis stands still since {}", words::span(age)),
            lines: vec!["What is shown is the last that was known, not the present.".to_owned()],
        });
    }
    if let Status::Down { since, reason } = &store.status {
        warnings.push(Warning {
            title: format!(
                "History is not kept since {}; probing and judging go on without it",
                words::span(now - *since)
            ),
            lines: vec![reason.clone()],
        });
    }
    let recent = |(at, _): &&(EventTime, String)| now - *at < NOTICE_FOR;
    warnings.extend(store.notices.iter().filter(recent).map(|(at, text)| Warning {
        title: format!("The history was begun anew at {}", words::clock(*at, now)),
        lines: vec![text.clone()],
    }));
    warnings
}

fn counters(view: &View) -> Vec<Counter> {
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
    .map(|(name, count, meaning)| Counter { name, count, meaning })
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

impl Prober {
    fn of(prober: &ProberView, now: EventTime) -> Self {
        Self {
            vantage: prober.vantage.to_string(),
            incarnation: prober.incarnation.to_string(),
            heard: words::ago(prober.heard, now),
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
pub(super) struct One {
    pub(super) card: Option<Card>,
    pub(super) handling: Option<Handled>,
    /// Whom it concerns.
    pub(super) targets: Vec<TargetId>,
    id: String,
    /// Why there is none.
    why: String,
}

impl One {
    pub(super) fn of(incident: &Incident, view: &View) -> Self {
        Self {
            card: Some(Card::of(incident, view)),
            handling: None,
            targets: incident.verdict.targets.clone(),
            id: incident.id.clone(),
            why: String::new(),
        }
    }

    /// Leads to its dashboards.
    pub(super) fn linked(mut self, incident: &Incident, links: &Links) -> Self {
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
pub(super) struct Page {
    title: String,
    /// Where the script gets the content anew.
    fragment: String,
    /// Rendered, hence escaped already.
    content: String,
    version: &'static str,
}

impl Page {
    pub(super) fn overview(overview: &Overview) -> Result<Self, askama::Error> {
        Ok(Self {
            title: overview.headline.text.clone(),
            fragment: "/fragment".to_owned(),
            content: overview.render()?,
            version: env!("CARGO_PKG_VERSION"),
        })
    }

    pub(super) fn incident(one: &One) -> Result<Self, askama::Error> {
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
