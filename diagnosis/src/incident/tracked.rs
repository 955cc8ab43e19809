//! One incident, and what decides about its end.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Front, Micros, Round, TargetId};

use super::{Event, Report, Scope};
use crate::{
    evidence::weights::ONE,
    ids::VantageIx,
    inference::{
        recovery::{RecoveryProgress, RegionCrossing},
        unit::JudgementUnit,
    },
    regions::{Region, share::PathShare},
    verdict::{Incident, IncidentState, Subject, Verdict},
};

/// So much likelier must another of those named together be to come first: it is the one that the sentence is about, and
/// must not change with every answer.
const CLEARLY: f64 = 2.0;

/// Successes that each client which failed has to show before an incident is over.
const PASSES: u64 = 2 * ONE;

/// How long a process has seen too little to know better than the one before it: until every prober has found it, and each
/// endpoint has been reached several times.
const YOUNG: Micros = Micros::from_secs(60);

/// What comes back within this is the same incident again; later it is another one.
const SAME: Micros = Micros::from_secs(1800);

/// An incident and what decides about its end.
#[derive(Debug)]
pub(crate) struct TrackedIncident {
    pub(super) incident: Incident,
    pub(crate) scope: Scope,
    pub(crate) region: Region,
    pub(super) class: Vec<Region>,
    /// Whose evidence is shown.
    pub(super) lead: JudgementUnit,
    pub(super) units: BTreeSet<JudgementUnit>,
    /// Over all clients together.
    pub(super) recovery: RecoveryProgress,
    /// Successes of each client that failed, since it last did.
    pub(super) passed: BTreeMap<VantageIx, u64>,
    pub(super) round: IncidentRound,
    /// Why nothing can prove healthy any more: its subject is gone.
    pub(crate) departed: Option<String>,
    /// Fronts of Services of which another process knew.
    pub(crate) published: BTreeSet<Front>,
    /// Left to this process by the one before it.
    pub(crate) restored: Option<RestoredIncident>,
    /// Named of the past, and nothing has failed since: nobody is told.
    pub(super) provisional: bool,
}

/// How an incident came from another process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestoredIncident {
    /// The last round that the other process judged.
    pub(crate) judged: Round,
    /// When this one took it over.
    pub(crate) at: EventTime,
}

/// What a round said of the paths that an incident is about.
#[derive(Debug, Default)]
pub(super) struct IncidentRound {
    pub(super) all: RegionCrossing,
    /// Failures and successes of those whose paths cross the region.
    pub(super) crossing: BTreeMap<VantageIx, (u64, u64)>,
    /// The same through the front of those whose paths cannot: the remedy may have led them elsewhere (to an endpoint on
    /// their own node), and they prove healthy there.
    pub(super) elsewhere: BTreeMap<VantageIx, (u64, u64)>,
}

impl TrackedIncident {
    /// What it is about, as people know it.
    pub(crate) const fn subject(&self) -> &Subject {
        &self.incident.verdict.subject
    }

    /// The subjects of judgement that it explains.
    pub(crate) fn units(&self) -> impl Iterator<Item = &JudgementUnit> {
        self.units.iter()
    }

    /// Whether one subject alone sees it.
    pub(crate) fn is_only(&self, unit: &JudgementUnit) -> bool {
        self.units.iter().all(|own| own.plain() == unit)
    }

    /// Those who failed.
    pub(crate) fn clients(&self) -> impl Iterator<Item = VantageIx> {
        self.passed.keys().copied()
    }

    pub(super) const fn closed(&self) -> Option<EventTime> {
        match self.incident.state {
            IncidentState::Closed { closed } => Some(closed),
            IncidentState::Open | IncidentState::Recovering => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.closed().is_none()
    }

    /// The same cause: a region of one is in the class of the other. What nodes lost that are not ready is one whatever the
    /// region that shows it.
    pub(super) fn matches(&self, report: &Report) -> bool {
        let withdrawn = self.scope == Scope::Withdrawn;
        self.scope == report.scope
            && (withdrawn || report.class.contains(&self.region) || self.class.contains(&report.region))
    }

    /// Named by the process before this one, on more evidence. That is so while nothing that this one has seen tells the two
    /// apart, and in its first minute whatever it has seen: those who report first after a start, and the endpoints that
    /// they happened to reach, would otherwise be blamed for what fails for everybody.
    pub(super) fn knows_better(&self, unit: &JudgementUnit, report: &Report, at: EventTime) -> bool {
        let Some(restored) = self.restored.filter(|_| self.is_open()) else {
            return false;
        };
        let targets = &self.incident.verdict.targets;
        let explained = || {
            let mut affected = report.verdict.targets.iter();
            !report.verdict.targets.is_empty() && affected.all(|target| targets.contains(target))
        };
        if at - restored.at <= YOUNG {
            self.units.contains(unit) || explained()
        } else {
            self.units.contains(unit) && report.class.contains(&self.region)
        }
    }

    /// Takes over who fails, and what; its name stays.
    pub(super) fn join(&mut self, report: Report) {
        for client in report.failing {
            self.passed.entry(client).or_default();
        }
        let verdict = &mut self.incident.verdict;
        let mut targets: BTreeSet<TargetId> = verdict.targets.iter().cloned().collect();
        targets.extend(report.verdict.targets);
        verdict.targets = targets.into_iter().collect();
    }

    /// The same cause once more, soon enough to be the same incident.
    pub(super) fn comes_back_as(&self, report: &Report, at: EventTime) -> bool {
        let lately = self.closed().is_some_and(|closed| at - closed <= SAME);
        lately
            && self.scope == report.scope
            && self.region == report.region
            && self.incident.verdict.cause() == report.verdict.cause()
    }

    /// Whether people are told of it.
    pub(super) fn is_told(&self) -> bool {
        !(self.provisional && self.is_open())
    }

    /// Takes the round that was collected into the tests of recovery.
    pub(super) fn settle(&mut self, round: Round) {
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
                all.add(PathShare::SURE, *failures, *successes);
                *passed = if *failures > 0 { 0 } else { *passed + successes };
            }
        }
        self.recovery.step(round, &all);
    }

    /// Probes that cross the region pass again, from each client that failed.
    pub(super) fn is_healthy(&self) -> bool {
        self.recovery.accepts_healthy() && self.passed.values().all(|passed| *passed >= PASSES)
    }

    pub(super) fn take(
        &mut self,
        unit: &JudgementUnit,
        report: Report,
        at: EventTime,
        events: &mut Vec<Event>,
    ) {
        self.units.insert(unit.clone());
        for client in report.failing {
            self.passed.entry(client).or_default();
        }
        let mut targets: BTreeSet<TargetId> = self.incident.verdict.targets.iter().cloned().collect();
        targets.extend(report.verdict.targets.iter().cloned());
        let targets: Vec<TargetId> = targets.into_iter().collect();
        // Another subject speaks for the incident only where it knows more.
        let withdrawn = self.scope == Scope::Withdrawn;
        if self.lead != *unit && (withdrawn || report.class.len() >= self.class.len()) {
            self.incident.verdict.targets = targets;
            return;
        }
        // Among those that hardly anything tells apart, which is a little likelier today is no news.
        let same: BTreeSet<Region> = report.class.iter().copied().collect();
        let another = report.region != self.region && report.lead >= CLEARLY;
        let known = self.lead == *unit && same == self.class.iter().copied().collect();
        if known && !another && report.region != self.region {
            let verdict = &mut self.incident.verdict;
            verdict.probability = report.verdict.probability;
            verdict.evidence = report.verdict.evidence;
            verdict.targets = targets;
            return;
        }
        let renamed = self.incident.verdict.region != report.verdict.region
            || self.incident.verdict.class != report.verdict.class
            || self.incident.verdict.cause() != report.verdict.cause();
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
        if renamed && self.is_told() {
            events.push(Event::Named {
                incident: self.incident.clone(),
                at,
                first: false,
            });
        }
    }
}
