//! Verdicts over time: opened when named, merged if one cause explains several subjects, closed when every failing
//! client has proved healthy.

mod remembered;
mod scope;
mod tracked;

use std::collections::BTreeSet;

use parallax_model::{Channel, EventTime, Micros, Round};

pub use remembered::RememberedIncident;
pub(crate) use scope::Scope;
use tracked::IncidentRound;

pub(crate) use tracked::{RestoredIncident, TrackedIncident};

use parallax_model::hash;

use crate::{
    evidence::{
        cells::{CellKey, Destination, RoundCells},
        row::Row,
    },
    ids::{NameRegistry, NodeIx, PodIx, VantageIx},
    inference::{recovery::RecoveryProgress, unit::JudgementUnit},
    regions::{Region, paths::SubjectPaths, share::alpha},
    verdict::{Incident, IncidentState, Verdict},
};

/// A named finding of one subject.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scope: Scope,
    pub(crate) region: Region,
    pub(crate) class: Vec<Region>,
    /// See [`crate::inference::judgement::Finding::lead`].
    pub(crate) lead: f64,
    pub(crate) failing: BTreeSet<VantageIx>,
    /// See [`crate::inference::judgement::Finding::crossed`].
    pub(crate) crossed: (f64, f64),
    pub(crate) since: EventTime,
    /// Whether all failures occurred before this process started.
    pub(crate) past: bool,
    pub(crate) verdict: Verdict,
}

/// A change in the round that was just judged.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Named for the first time (or again after it was closed), or renamed.
    Named {
        incident: Incident,
        at: EventTime,
        first: bool,
    },
    /// Closed.
    Closed(Incident),
    /// Failures that no set of regions explains.
    Unexplained { at: EventTime, cells: Vec<String> },
}

/// All incidents, open and recently closed.
#[derive(Debug, Default)]
pub(crate) struct IncidentLog {
    tracked: Vec<TrackedIncident>,
    events: Vec<Event>,
    /// The round that is being judged.
    round: Round,
}

/// How long after an incident slowness on its paths is attributed to it.
const AFTERMATH: Micros = Micros::from_secs(60);

const KEPT_CLOSED: usize = 100;
const KEPT_FOR: Micros = Micros::from_secs(24 * 3600);

impl IncidentLog {
    /// Begins a judged round.
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

    /// Processes the named findings of one subject.
    pub(crate) fn report(
        &mut self,
        unit: &JudgementUnit,
        reports: Vec<Report>,
        at: EventTime,
        world: &NameRegistry,
    ) {
        let mut matched = BTreeSet::new();
        let mut left = Vec::new();
        for report in reports {
            let found = self
                .tracked
                .iter()
                .position(|t| t.is_open() && t.matches(&report));
            let known = || {
                self.tracked
                    .iter()
                    .position(|t| t.knows_better(unit, &report, at))
            };
            if let Some(i) = found {
                matched.insert(i);
                self.take(i, unit, report, at);
            } else if let Some(i) = known() {
                matched.insert(i);
                self.tracked[i].join(report);
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
                    self.take(i, unit, report, at);
                }
                Some(i) => {
                    self.tracked[i].units.remove(unit);
                    self.open(unit, report, at, world);
                }
                None => self.open(unit, report, at, world),
            }
        }
    }

    fn take(&mut self, i: usize, unit: &JudgementUnit, report: Report, at: EventTime) {
        let past = report.past;
        let tracked = &mut self.tracked[i];
        tracked.take(unit, report, at, &mut self.events);
        if tracked.provisional && !past {
            tracked.provisional = false;
            self.events.push(Event::Named {
                incident: tracked.incident.clone(),
                at,
                first: true,
            });
        }
    }

    fn open(&mut self, unit: &JudgementUnit, report: Report, at: EventTime, world: &NameRegistry) {
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
            // Not the time: two aggregators that see the same, each by its own clock, must derive the same id.
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
        if !report.past {
            self.events.push(Event::Named {
                incident: incident.clone(),
                at,
                first: true,
            });
        }
        self.tracked.push(TrackedIncident {
            incident,
            scope: report.scope,
            region: report.region,
            class: report.class,
            lead: unit.clone(),
            units: BTreeSet::from([unit.clone()]),
            recovery: RecoveryProgress::of(failures, crossed, self.round),
            passed,
            round: IncidentRound::default(),
            departed: None,
            published: BTreeSet::new(),
            restored: None,
            provisional: report.past,
        });
    }

    /// Returns an id derived from `parts` that no other incident has.
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

    /// Reports whether an open or recent incident of failures explains a subject's slowness: a retry that straddles
    /// the start or the end of a fault is slow without a fault of its own.
    pub(crate) fn explains_delay(
        &self,
        unit: &JudgementUnit,
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

    /// Reports whether a subject belongs to an open incident.
    pub(crate) fn concerns(&self, unit: &JudgementUnit) -> bool {
        self.tracked.iter().any(|t| t.is_open() && t.units.contains(unit))
    }

    /// Reports whether a subject has an open incident of a region.
    pub(crate) fn is_open(&self, unit: &JudgementUnit, region: Region) -> bool {
        self.tracked
            .iter()
            .any(|t| t.is_open() && t.region == region && t.units.contains(unit))
    }

    /// Adds the cells of one subject in one round to the recovery tests of its incidents.
    pub(crate) fn step(&mut self, unit: &JudgementUnit, cells: &RoundCells, scene: &SubjectPaths) {
        for tracked in &mut self.tracked {
            if !tracked.is_open() || !tracked.units.contains(unit) {
                continue;
            }
            let regions = [tracked.region];
            for (key, counts) in cells {
                let share = alpha(&regions, key, scene);
                if share.is_zero() {
                    // Whatever endpoint is selected, no path of this client crosses the region now.
                    let any = CellKey {
                        dest: Destination::Unknown,
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

    /// Closes incidents that proved healthy and returns the subjects whose evidence restarts.
    pub(crate) fn close(
        &mut self,
        at: EventTime,
        is_known: impl Fn(VantageIx) -> bool,
    ) -> BTreeSet<JudgementUnit> {
        let mut freed = BTreeSet::new();
        for tracked in self.tracked.iter_mut().filter(|t| t.is_open()) {
            // A node that left the cluster will never prove healthy.
            tracked.passed.retain(|client, _| is_known(*client));
            if tracked.passed.is_empty() && tracked.departed.is_none() {
                tracked.departed = Some("every vantage that failed left the mesh".to_owned());
            }
            tracked.settle(self.round);
            if tracked.departed.is_some() || tracked.is_healthy() {
                tracked.incident.departed = tracked.departed.take();
                tracked.incident.state = IncidentState::Closed { closed: at };
                freed.extend(tracked.units.iter().cloned());
                if !tracked.provisional {
                    self.events.push(Event::Closed(tracked.incident.clone()));
                }
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
    pub(crate) fn mark_departed(&mut self, reason: impl Fn(&TrackedIncident) -> Option<String>) {
        for tracked in self.tracked.iter_mut().filter(|t| t.is_open()) {
            tracked.departed = reason(tracked);
        }
    }

    /// Marks open incidents that no evidence can reach.
    pub(crate) fn mark_unvisited(&mut self, reason: impl Fn(&TrackedIncident) -> Option<String>) {
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
        let mut closed: Vec<EventTime> = self.tracked.iter().filter_map(TrackedIncident::closed).collect();
        if closed.len() > KEPT_CLOSED {
            closed.sort();
            let oldest_kept = closed[closed.len() - KEPT_CLOSED];
            self.tracked
                .retain(|t| t.closed().is_none_or(|closed| closed >= oldest_kept));
        }
    }

    /// Lists open incidents first, then closed ones, each newest first. `stale` returns a note if a subject has no
    /// fresh evidence.
    pub(crate) fn list(
        &self,
        stale: impl Fn(&JudgementUnit, &BTreeSet<VantageIx>) -> Option<String>,
    ) -> Vec<Incident> {
        let mut list: Vec<Incident> = self
            .tracked
            .iter()
            .filter(|t| t.is_told())
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

/// Returns when the last outcome of a round was known; this keeps the time of its verdicts honest.
pub(crate) fn known_at(end: EventTime, rows: &[Row]) -> EventTime {
    rows.iter()
        .filter_map(|row| Some(row.at.plus(row.times.total?)))
        .fold(end, EventTime::max)
}
