//! Verdicts over time: opened when named, merged where one cause explains several subjects, closed when every failing
//! stream has proved healthy.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Channel, EventTime, Front, Micros, Round, ServiceKey, TargetId};

use crate::{
    cells::{CellKey, Dest, RoundCells},
    hash,
    ids::{NodeIx, PodIx, VantageIx, World},
    judge::Unit,
    recovery::{Crossing, Recovery},
    region::{Alpha, Region, alpha},
    row::Row,
    scene::Scene,
    verdict::{Incident, IncidentState, Subject, Verdict},
    weights::ONE,
};

/// What an incident is about, coarse enough that one cause is one incident.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Causes that concern every subject: nodes, pairs, zones, the overlay, the resolvers.
    Cluster,
    /// All fronts and endpoints of a Service.
    Service(ServiceKey),
    /// A front that no known Service owns.
    Front(Front),
    /// The answers of targets behind one Service that fail alike (by class of failure).
    Answers(ServiceKey, usize),
    /// A target alone.
    Target(TargetId),
    /// The same, slow instead of failing.
    Slow(Box<Scope>),
}

/// A named finding of one subject.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scope: Scope,
    pub(crate) region: Region,
    pub(crate) class: Vec<Region>,
    /// See [`crate::judge::Finding::lead`].
    pub(crate) lead: f64,
    pub(crate) failing: BTreeSet<VantageIx>,
    /// See [`crate::judge::Finding::crossed`].
    pub(crate) crossed: (f64, f64),
    pub(crate) since: EventTime,
    pub(crate) verdict: Verdict,
}

/// What changed with the round just judged.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Named for the first time (or again after it was over), or named otherwise.
    Named {
        incident: Incident,
        at: EventTime,
        first: bool,
    },
    /// Over.
    Closed(Incident),
    /// Failing in a way that no set of regions explains.
    Unexplained { at: EventTime, cells: Vec<String> },
}

/// An incident and what decides about its end.
#[derive(Debug)]
pub(crate) struct Tracked {
    incident: Incident,
    pub(crate) scope: Scope,
    pub(crate) region: Region,
    class: Vec<Region>,
    /// Whose evidence is shown.
    lead: Unit,
    units: BTreeSet<Unit>,
    /// Over all clients together.
    recovery: Recovery,
    /// Successes of each client that failed, since it last did.
    passed: BTreeMap<VantageIx, u64>,
    round: IncidentRound,
    /// Why nothing can prove healthy any more: its subject is gone.
    pub(crate) departed: Option<String>,
}

/// What a round said of the paths that an incident is about.
#[derive(Debug, Default)]
struct IncidentRound {
    all: Crossing,
    /// Failures and successes of those whose paths cross the region.
    crossing: BTreeMap<VantageIx, (u64, u64)>,
    /// The same through the front of those whose paths cannot: the remedy may have led them elsewhere (to an endpoint on
    /// their own node), and they prove healthy there.
    elsewhere: BTreeMap<VantageIx, (u64, u64)>,
}

/// All incidents, open and lately closed.
#[derive(Debug, Default)]
pub(crate) struct Incidents {
    tracked: Vec<Tracked>,
    events: Vec<Event>,
    /// The round that is judged.
    round: Round,
}

/// So much likelier must another of those named together be to come first: it is the one that the sentence is about, and
/// must not change with every answer.
const CLEARLY: f64 = 2.0;

/// Successes that each client which failed has to show before an incident is over.
const PASSES: u64 = 2 * ONE;

/// What comes back within this is the same incident again; later it is another one.
const SAME: Micros = Micros::from_secs(1800);

/// How long after an incident slowness on its paths is its own.
const AFTERMATH: Micros = Micros::from_secs(60);

const KEPT_CLOSED: usize = 100;
const KEPT_FOR: Micros = Micros::from_secs(24 * 3600);

impl Scope {
    /// The same for slow and for failing.
    pub(crate) fn plain(&self) -> &Self {
        match self {
            Self::Slow(inner) => inner,
            other => other,
        }
    }

    const fn is_slow(&self) -> bool {
        matches!(self, Self::Slow(_))
    }
}

impl Tracked {
    /// What it is about, as people know it.
    pub(crate) const fn subject(&self) -> &Subject {
        &self.incident.verdict.subject
    }

    /// The subjects of judgement that it explains.
    pub(crate) fn units(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter()
    }

    /// Whether one subject alone sees it.
    pub(crate) fn is_only(&self, unit: &Unit) -> bool {
        self.units.iter().all(|own| own.plain() == unit)
    }

    /// Those who failed.
    pub(crate) fn clients(&self) -> impl Iterator<Item = VantageIx> {
        self.passed.keys().copied()
    }

    const fn closed(&self) -> Option<EventTime> {
        match self.incident.state {
            IncidentState::Closed { closed } => Some(closed),
            IncidentState::Open | IncidentState::Recovering => None,
        }
    }

    fn is_open(&self) -> bool {
        self.closed().is_none()
    }

    /// The same cause: a region of one is in the class of the other.
    fn matches(&self, report: &Report) -> bool {
        self.scope == report.scope
            && (report.class.contains(&self.region) || self.class.contains(&report.region))
    }

    /// The same cause once more, soon enough to be the same incident.
    fn comes_back_as(&self, report: &Report, at: EventTime) -> bool {
        let cause = |verdict: &Verdict| verdict.causes.first().map(|cause| cause.id.clone());
        let lately = self.closed().is_some_and(|closed| at - closed <= SAME);
        lately
            && self.scope == report.scope
            && self.region == report.region
            && cause(&self.incident.verdict) == cause(&report.verdict)
    }

    /// Takes the round that was collected into the tests of recovery.
    fn settle(&mut self, round: Round) {
        let IncidentRound {
            mut all,
            crossing,
            elsewhere,
        } = std::mem::take(&mut self.round);
        for (client, (failures, successes)) in &crossing {
            if *failures > 0 {
                self.passed.insert(*client, 0);
            } else if let Some(passed) = self.passed.get_mut(client) {
                *passed += successes;
            }
        }
        for (client, passed) in &mut self.passed {
            let Some((failures, successes)) = elsewhere.get(client) else {
                continue;
            };
            if !crossing.contains_key(client) {
                all.add(Alpha::SURE, *failures, *successes);
                *passed = if *failures > 0 { 0 } else { *passed + successes };
            }
        }
        self.recovery.step(round, &all);
    }

    /// Probes that cross the region pass again, from each client that failed.
    fn is_healthy(&self) -> bool {
        let gone = self.passed.is_empty();
        gone || (self.recovery.accepts_healthy() && self.passed.values().all(|passed| *passed >= PASSES))
    }

    fn take(&mut self, unit: &Unit, report: Report, at: EventTime, events: &mut Vec<Event>) {
        self.units.insert(unit.clone());
        for client in report.failing {
            self.passed.entry(client).or_default();
        }
        let mut targets: BTreeSet<TargetId> = self.incident.verdict.targets.iter().cloned().collect();
        targets.extend(report.verdict.targets.iter().cloned());
        let targets: Vec<TargetId> = targets.into_iter().collect();
        // Another subject speaks for the incident only where it knows more.
        if self.lead != *unit && report.class.len() >= self.class.len() {
            self.incident.verdict.targets = targets;
            return;
        }
        // Among those that hardly anything tells apart, which is a little likelier today is no news.
        let same: BTreeSet<Region> = report.class.iter().copied().collect();
        let another = report.region != self.region && report.lead >= CLEARLY;
        if self.lead == *unit && same == self.class.iter().copied().collect() && !another {
            let verdict = &mut self.incident.verdict;
            verdict.probability = report.verdict.probability;
            verdict.evidence = report.verdict.evidence;
            verdict.targets = targets;
            return;
        }
        let renamed = self.incident.verdict.region != report.verdict.region
            || self.incident.verdict.class != report.verdict.class;
        // What decided was decided when it was named so; later evidence that would do as well changes nothing about it.
        let decided_by = if self.incident.verdict.region == report.verdict.region {
            self.incident.verdict.decided_by.take()
        } else {
            report.verdict.decided_by.clone()
        };
        self.lead = unit.clone();
        self.region = report.region;
        self.class = report.class;
        self.scope = report.scope;
        self.incident.verdict = Verdict {
            decided_by,
            targets,
            ..report.verdict
        };
        if renamed {
            events.push(Event::Named {
                incident: self.incident.clone(),
                at,
                first: false,
            });
        }
    }
}

impl Incidents {
    /// Starts a judged round.
    pub(crate) fn begin(&mut self, round: Round) {
        self.events.clear();
        self.round = round;
    }

    pub(crate) fn note(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Takes the named findings of one subject.
    pub(crate) fn report(&mut self, unit: &Unit, reports: Vec<Report>, at: EventTime, world: &World) {
        let mut matched = BTreeSet::new();
        let mut left = Vec::new();
        for report in reports {
            let found = self
                .tracked
                .iter()
                .position(|t| t.is_open() && t.matches(&report));
            if let Some(i) = found {
                matched.insert(i);
                self.tracked[i].take(unit, report, at, &mut self.events);
            } else {
                left.push(report);
            }
        }
        for report in left {
            let orphan = self.tracked.iter().position(|t| {
                t.is_open()
                    && t.units.contains(unit)
                    && t.passed
                        .iter()
                        .any(|(client, passed)| report.failing.contains(client) && *passed == 0)
            });
            match orphan.filter(|i| !matched.contains(i)) {
                // More evidence gave the same failures another name.
                Some(i) if self.tracked[i].units.len() == 1 => {
                    matched.insert(i);
                    self.tracked[i].lead = unit.clone();
                    self.tracked[i].take(unit, report, at, &mut self.events);
                }
                Some(i) => {
                    self.tracked[i].units.remove(unit);
                    self.open(unit, report, at, world);
                }
                None => self.open(unit, report, at, world),
            }
        }
    }

    fn open(&mut self, unit: &Unit, report: Report, at: EventTime, world: &World) {
        let passed = report.failing.iter().map(|client| (*client, 0)).collect();
        let (failures, crossed) = report.crossed;
        let again = self.tracked.iter().position(|t| t.comes_back_as(&report, at));
        let incident = if let Some(i) = again {
            let old = self.tracked.remove(i).incident;
            Incident {
                state: IncidentState::Open,
                since: report.since,
                occurrences: old.occurrences.saturating_add(1),
                departed: None,
                verdict: report.verdict,
                ..old
            }
        } else {
            let region = report.region.describe(world);
            let subject = report.verdict.subject.to_string();
            // Not the time: two aggregators that see the same, each by its own clock, are to say that it is the same.
            let opened = self.round.0.to_string();
            let mut parts = vec![subject.as_str(), region.region.as_str()];
            parts.extend(region.members.iter().map(String::as_str));
            parts.push(&opened);
            Incident {
                id: self.unused(&parts),
                state: IncidentState::Open,
                since: report.since,
                opened: at,
                occurrences: 1,
                departed: None,
                verdict: report.verdict,
            }
        };
        self.events.push(Event::Named {
            incident: incident.clone(),
            at,
            first: true,
        });
        self.tracked.push(Tracked {
            incident,
            scope: report.scope,
            region: report.region,
            class: report.class,
            lead: unit.clone(),
            units: BTreeSet::from([unit.clone()]),
            recovery: Recovery::of(failures, crossed, self.round),
            passed,
            round: IncidentRound::default(),
            departed: None,
        });
    }

    /// An id made of words that no other incident has.
    fn unused(&self, parts: &[&str]) -> String {
        let mut parts = parts.to_vec();
        loop {
            let id = format!("{:016x}", hash::stable(&parts));
            if self.tracked.iter().all(|t| t.incident.id != id) {
                return id;
            }
            parts.push("");
        }
    }

    /// Whether an incident that is open or was until lately says of failures what a subject shows as slowness: a retry
    /// that straddles the begin or the end of a fault is slow, and no fault of its own.
    pub(crate) fn explains_delay(
        &self,
        unit: &Unit,
        region: Region,
        at: EventTime,
        node_of: impl Fn(PodIx) -> Option<NodeIx> + Copy,
    ) -> bool {
        self.tracked.iter().any(|t| {
            let lately = t.closed().is_none_or(|closed| at - closed <= AFTERMATH);
            let concerned = t.region.is_global() || t.units.contains(unit.plain());
            lately && !t.scope.is_slow() && concerned && t.region.covers(region, node_of)
        })
    }

    /// Whether a subject belongs to an open incident.
    pub(crate) fn concerns(&self, unit: &Unit) -> bool {
        self.tracked.iter().any(|t| t.is_open() && t.units.contains(unit))
    }

    /// Whether a subject has an open incident of a region.
    pub(crate) fn is_open(&self, unit: &Unit, region: Region) -> bool {
        self.tracked
            .iter()
            .any(|t| t.is_open() && t.region == region && t.units.contains(unit))
    }

    /// Takes the cells of one subject in one round into the tests that end its incidents.
    pub(crate) fn step(&mut self, unit: &Unit, cells: &RoundCells, scene: &Scene) {
        for tracked in &mut self.tracked {
            if !tracked.is_open() || !tracked.units.contains(unit) {
                continue;
            }
            let regions = [tracked.region];
            for (key, counts) in cells {
                let share = alpha(&regions, key, scene);
                if share.is_zero() {
                    // Not only this time: whatever is chosen, no path of this client crosses the region any more.
                    let any = CellKey {
                        dest: Dest::Unknown,
                        ..*key
                    };
                    if key.channel == Channel::Vip && alpha(&regions, &any, scene).is_zero() {
                        let sum = tracked.round.elsewhere.entry(key.client).or_default();
                        sum.0 += counts.seen_f;
                        sum.1 += counts.seen_n - counts.seen_f;
                    }
                    continue;
                }
                let failures = counts.seen_f;
                let successes = counts.seen_n - counts.seen_f;
                tracked.round.all.add(share, failures, successes);
                let sum = tracked.round.crossing.entry(key.client).or_default();
                sum.0 += failures;
                sum.1 += successes;
            }
        }
    }

    /// Closes what has proved healthy and returns the subjects that start afresh.
    pub(crate) fn close(&mut self, at: EventTime, is_known: impl Fn(VantageIx) -> bool) -> BTreeSet<Unit> {
        let mut freed = BTreeSet::new();
        for tracked in self.tracked.iter_mut().filter(|t| t.is_open()) {
            // A node that left the cluster will never prove healthy.
            tracked.passed.retain(|client, _| is_known(*client));
            tracked.settle(self.round);
            if tracked.departed.is_some() || tracked.is_healthy() {
                tracked.incident.departed = tracked.departed.take();
                tracked.incident.state = IncidentState::Closed { closed: at };
                freed.extend(tracked.units.iter().cloned());
                self.events.push(Event::Closed(tracked.incident.clone()));
            } else if tracked.recovery.leans_healthy() {
                tracked.incident.state = IncidentState::Recovering;
            } else {
                tracked.incident.state = IncidentState::Open;
            }
        }
        self.forget(at);
        freed
    }

    /// Marks or unmarks open incidents whose subject is gone; they are closed with the next round.
    pub(crate) fn mark_departed(&mut self, reason: impl Fn(&Tracked) -> Option<String>) {
        for tracked in self.tracked.iter_mut().filter(|t| t.is_open()) {
            tracked.departed = reason(tracked);
        }
    }

    /// Marks open incidents that no evidence can reach any more.
    pub(crate) fn mark_unvisited(&mut self, reason: impl Fn(&Tracked) -> Option<String>) {
        for tracked in self
            .tracked
            .iter_mut()
            .filter(|t| t.is_open() && t.departed.is_none())
        {
            tracked.departed = reason(tracked);
        }
    }

    fn forget(&mut self, now: EventTime) {
        self.tracked
            .retain(|t| t.closed().is_none_or(|closed| now - closed <= KEPT_FOR));
        let mut closed: Vec<EventTime> = self.tracked.iter().filter_map(Tracked::closed).collect();
        if closed.len() > KEPT_CLOSED {
            closed.sort();
            let oldest_kept = closed[closed.len() - KEPT_CLOSED];
            self.tracked
                .retain(|t| t.closed().is_none_or(|closed| closed >= oldest_kept));
        }
    }

    /// Open ones first, then closed ones, newest first. `stale` says of a subject that nothing fresh is known.
    pub(crate) fn list(
        &self,
        stale: impl Fn(&Unit, &BTreeSet<VantageIx>) -> Option<String>,
    ) -> Vec<Incident> {
        let mut list: Vec<Incident> = self
            .tracked
            .iter()
            .map(|t| {
                let mut incident = t.incident.clone();
                let clients = t.passed.keys().copied().collect();
                if t.is_open()
                    && let Some(note) = stale(&t.lead, &clients)
                {
                    incident.verdict.sentence.push_str(&note);
                }
                incident
            })
            .collect();
        list.sort_by_key(|incident| {
            let (closed, time) = match incident.state {
                IncidentState::Closed { closed } => (true, closed),
                IncidentState::Open | IncidentState::Recovering => (false, incident.opened),
            };
            (closed, std::cmp::Reverse(time), incident.id.clone())
        });
        list
    }
}

/// What keeps a round's time honest: when its last outcome was known.
pub(crate) fn known_at(end: EventTime, rows: &[Row]) -> EventTime {
    rows.iter()
        .filter_map(|row| Some(row.at.plus(row.times.total?)))
        .fold(end, EventTime::max)
}
