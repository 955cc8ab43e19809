//! One incident, and the state that decides when it closes.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Front, Micros, Probability, Round, TargetId};

use super::{Report, Scope, UNVISITED_ROUNDS, renaming::RenamingEvidence};
use crate::{
    evidence::weights::ONE_PROBE,
    ids::{PodIx, VantageIx},
    inference::{
        judgement_unit::JudgementUnit,
        recovery::{RecoveryProgress, RegionCrossing},
    },
    regions::{Region, share::PathShare},
    verdict::{Incident, IncidentState, Subject},
};

/// Successes that each failing client must show before an incident closes.
const REQUIRED_SUCCESSES: u64 = 2 * ONE_PROBE;

/// How long a restarted process has too little evidence to overrule the previous one: until every prober has found it
/// and each endpoint has been reached several times.
const RESTORE_GRACE: Micros = Micros::from_secs(60);

/// A cause that recurs within this time reopens the incident; later it opens a new one.
const REOPEN_WINDOW: Micros = Micros::from_secs(1800);

/// An incident and the state that decides when it closes.
#[derive(Debug)]
pub(crate) struct TrackedIncident {
    pub(super) incident: Incident,
    pub(crate) scope: Scope,
    pub(crate) region: Region,
    pub(super) class: Vec<Region>,
    /// Whether its evidence shows that the direction opposite to the region works.
    pub(super) is_one_way: bool,
    /// The endpoints that fail, if it names all endpoints of a Service. Other subjects meet them as origins.
    pub(super) failing_endpoints: BTreeSet<PodIx>,
    pub(super) renaming: RenamingEvidence,
    /// The subject whose evidence is shown.
    pub(super) lead_unit: JudgementUnit,
    pub(super) units: BTreeSet<JudgementUnit>,
    /// The regions that explain the failures of members that did not name it.
    pub(super) explanations: BTreeMap<JudgementUnit, Region>,
    /// Recovery over all clients together.
    pub(super) recovery: RecoveryProgress,
    /// The clients that failed.
    pub(super) failing_clients: BTreeMap<VantageIx, ClientRecovery>,
    pub(super) current_round: IncidentRound,
    /// Reason why nothing can prove it healthy: its subject is gone.
    pub(crate) departure_reason: Option<String>,
    /// Fronts of Services that another process knew.
    pub(crate) published_fronts: BTreeSet<Front>,
    /// Set if it was restored from another process.
    pub(crate) restored: Option<RestoredIncident>,
    /// Named in retrospect, with no failure since; not reported.
    pub(super) provisional: bool,
}

/// Recovery of one client that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClientRecovery {
    /// Successes since its last failure.
    pub(super) successes: u64,
    /// The last round in which it probed a path of the incident, or that in which it joined; none before that has ended.
    last_probe: Option<Round>,
    /// Whether its plan does not contain paths of the incident any more.
    is_unasked: bool,
}

/// Origin of a restored incident.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestoredIncident {
    /// The last round that the other process judged.
    pub(crate) judged: Round,
    /// When this process restored it.
    pub(crate) at: EventTime,
}

/// Results of one round on the paths of an incident.
#[derive(Debug, Default)]
pub(super) struct IncidentRound {
    pub(super) total: RegionCrossing,
    /// Failures and successes of clients whose paths cross the region.
    pub(super) crossing_clients: BTreeMap<VantageIx, (u64, u64)>,
    /// The same through the front, of clients whose paths cannot cross the region. The fix may have moved them
    /// elsewhere (to an endpoint on their own node), where they prove healthy.
    pub(super) moved_clients: BTreeMap<VantageIx, (u64, u64)>,
}

impl ClientRecovery {
    fn add(&mut self, round: Round, failures: u64, successes: u64) {
        self.last_probe = Some(round);
        self.successes = if failures > 0 {
            0
        } else {
            self.successes + successes
        };
    }
}

impl TrackedIncident {
    /// The subject as shown to people.
    pub(crate) const fn subject(&self) -> &Subject {
        &self.incident.verdict.subject
    }

    /// The judged subjects that it explains.
    pub(crate) fn units(&self) -> impl Iterator<Item = &JudgementUnit> {
        self.units.iter()
    }

    /// Reports whether only one subject shows it.
    pub(crate) fn is_only_seen_by(&self, unit: &JudgementUnit) -> bool {
        self.units.iter().all(|own| own.without_latency() == unit)
    }

    /// The clients that failed.
    pub(crate) fn clients(&self) -> impl Iterator<Item = VantageIx> {
        self.failing_clients.keys().copied()
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

    /// Reports whether a report has the same cause: the region of one is in the class of the other. Withdrawn
    /// endpoints of unready nodes are one cause, whichever region shows it.
    pub(super) fn matches(&self, report: &Report) -> bool {
        let is_candidate = report.class.contains(&self.region);
        let names_candidate = self.class.contains(&report.region);
        let is_withdrawn = self.scope == Scope::Withdrawn;
        // A subject that names a fault of the cluster decides the tie of another subject, whichever is first.
        self.scope.decides_tie_of(&report.scope) && is_candidate
            || report.scope.decides_tie_of(&self.scope) && names_candidate
            || self.scope == report.scope && (is_withdrawn || is_candidate || names_candidate)
    }

    /// Reports whether a report names a region that contains this one: a report of the subject that named this incident, or
    /// of one nearer to the cause.
    pub(super) fn is_widened_by(&self, unit: &JudgementUnit, report: &Report) -> bool {
        self.scope == report.scope
            && (self.lead_unit == *unit || unit.depth() < self.lead_unit.depth())
            && self.region != report.region
            && report.region.covers(self.region, |_| None)
    }

    /// Reports whether this incident, named by the previous process on more evidence, explains a report. It does as
    /// long as the new evidence does not separate the two, and in any case during the first minute: otherwise the
    /// clients that report first after a start, and the endpoints that they happened to reach, would be blamed for a
    /// fault that affects all.
    pub(super) fn overrules(&self, unit: &JudgementUnit, report: &Report, at: EventTime) -> bool {
        let Some(restored) = self.restored.filter(|_| self.is_open()) else {
            return false;
        };
        let targets = &self.incident.verdict.targets;
        let explained = || {
            let mut affected = report.verdict.targets.iter();
            !report.verdict.targets.is_empty() && affected.all(|target| targets.contains(target))
        };
        if at - restored.at <= RESTORE_GRACE {
            self.units.contains(unit) || explained()
        } else {
            self.units.contains(unit) && report.class.contains(&self.region)
        }
    }

    /// Reports whether a report of another subject is part of this incident, although it names another region.
    pub(super) fn includes(&self, unit: &JudgementUnit, report: &Report) -> bool {
        self.lead_unit != *unit
            && !report.scope.is_slow()
            && !self.scope.is_slow()
            && (self.is_workload_of(report) || self.is_cause_of_same_targets(unit, report))
    }

    /// Reports whether every Pod of a workload fails, of which the report names one: a host that reaches the Pods through an
    /// entry cannot tell how many of them fail.
    fn is_workload_of(&self, report: &Report) -> bool {
        self.region == Region::Target
            && matches!(report.region, Region::Backend(_))
            && self.scope.service().is_some()
            && self.scope.service() == report.scope.service()
    }

    /// Reports whether an address and a target behind it have the same cause, such as an expired certificate: one fails in
    /// the connection, the other in the request that needs it.
    fn is_cause_of_same_targets(&self, unit: &JudgementUnit, report: &Report) -> bool {
        let verdict = &self.incident.verdict;
        let are_front_and_target = matches!(
            (&self.lead_unit, unit),
            (JudgementUnit::Front(_), JudgementUnit::Target(_))
                | (JudgementUnit::Target(_), JudgementUnit::Front(_))
        );
        are_front_and_target
            && verdict.cause().is_some()
            && verdict.cause() == report.verdict.cause()
            && report
                .verdict
                .targets
                .iter()
                .any(|target| verdict.targets.contains(target))
    }

    /// Adds the clients and targets of a report without changing the verdict.
    pub(super) fn merge_members(&mut self, report: Report) {
        self.add_members(report.failing_clients, report.verdict.targets);
    }

    /// Adds clients that failed, which must recover, and targets that the cause affects.
    pub(super) fn add_members(
        &mut self,
        failing_clients: impl IntoIterator<Item = VantageIx>,
        targets: impl IntoIterator<Item = TargetId>,
    ) {
        for client in failing_clients {
            self.failing_clients.entry(client).or_default();
        }
        let verdict = &mut self.incident.verdict;
        let mut all: BTreeSet<TargetId> = std::mem::take(&mut verdict.targets).into_iter().collect();
        all.extend(targets);
        verdict.targets = all.into_iter().collect();
    }

    /// Reports whether the same cause recurs soon enough to be the same incident.
    pub(super) fn recurs_as(&self, report: &Report, at: EventTime) -> bool {
        let lately = self.closed().is_some_and(|closed| at - closed <= REOPEN_WINDOW);
        lately
            && self.scope == report.scope
            && self.region == report.region
            && self.incident.verdict.shares_cause(&report.verdict)
    }

    /// Reports whether people are told of the incident as the cause of failures that go on.
    pub(super) fn is_standing(&self) -> bool {
        self.is_open() && self.is_reported() && self.departure_reason.is_none() && !self.scope.is_slow()
    }

    /// Reports whether the incident is reported to people.
    pub(super) fn is_reported(&self) -> bool {
        !(self.provisional && self.is_open())
    }

    /// Adds the collected round to the recovery tests.
    pub(super) fn finish_round(&mut self, round: Round) {
        let IncidentRound {
            total: mut all,
            crossing_clients: crossing,
            moved_clients,
        } = std::mem::take(&mut self.current_round);
        for (client, (failures, _)) in &crossing {
            if *failures > 0 {
                self.failing_clients.entry(*client).or_default();
            }
        }
        for (client, recovery) in &mut self.failing_clients {
            let moved = moved_clients
                .get(client)
                .filter(|_| !crossing.contains_key(client));
            if let Some((failures, successes)) = moved {
                all.add(PathShare::FULL, *failures, *successes);
            }
            if let Some((failures, successes)) = moved.or_else(|| crossing.get(client)) {
                recovery.add(round, *failures, *successes);
            }
            recovery.last_probe.get_or_insert(round);
        }
        let before = self.recovery.resumptions();
        self.recovery.step(round, &all);
        let resumed = self.recovery.resumptions() - before;
        self.incident.occurrences = self.incident.occurrences.saturating_add(resumed);
        let share = self
            .recovery
            .duty_cycle()
            .filter(|_| self.incident.occurrences > 1);
        self.incident.duty_cycle = share.and_then(|share| Probability::new(share).ok());
    }

    /// Reports whether probes that cross the region succeed again, from each client that failed.
    pub(super) fn is_healthy(&self) -> bool {
        // What is not reported need not wait for a fault to come back.
        let is_over = if self.provisional {
            self.recovery.accepts_healthy()
        } else {
            self.recovery.is_over()
        };
        is_over
            && self
                .failing_clients
                .values()
                .all(|client| client.is_unasked || client.successes >= REQUIRED_SUCCESSES)
    }

    /// Marks the clients that report and do not probe the paths of the incident any more. Since their plan changed, they cannot
    /// prove the paths healthy.
    pub(super) fn mark_unasked_clients(&mut self, round: Round, is_reporting: impl Fn(VantageIx) -> bool) {
        for (client, recovery) in &mut self.failing_clients {
            let quiet = recovery
                .last_probe
                .is_some_and(|last| round.0 - last.0 >= UNVISITED_ROUNDS);
            recovery.is_unasked = quiet && is_reporting(*client);
        }
    }
}
