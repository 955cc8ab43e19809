//! From the named findings of a subject to incidents: which one a finding belongs to, or a new one.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, hash};

use super::{
    IncidentEvent, IncidentLog, Report, TrackedIncident,
    renaming::RenamingEvidence,
    tracked::{ClientRecovery, IncidentRound},
};
use crate::{
    ids::NameRegistry,
    inference::{judgement_unit::JudgementUnit, recovery::RecoveryProgress},
    verdict::{Incident, IncidentState},
};

impl IncidentLog {
    /// Processes the named findings of one subject. Returns the ids of the incidents that they belong to.
    pub(crate) fn report(
        &mut self,
        unit: &JudgementUnit,
        reports: Vec<Report>,
        at: EventTime,
        world: &NameRegistry,
    ) -> BTreeSet<String> {
        let mut matched: BTreeSet<String> = BTreeSet::new();
        let mut left = Vec::new();
        for report in reports {
            let found = self
                .tracked
                .iter()
                .position(|t| t.is_open() && t.matches(&report));
            let widened = || {
                self.tracked
                    .iter()
                    .position(|t| t.is_open() && t.is_widened_by(unit, &report))
            };
            let known = || {
                self.tracked
                    .iter()
                    .position(|t| t.overrules(unit, &report, at) || t.is_open() && t.includes(unit, &report))
            };
            if let Some(i) = found.or_else(widened) {
                matched.insert(self.tracked[i].incident.id.clone());
                for (j, other) in self.tracked.iter_mut().enumerate() {
                    if j != i && other.is_open() && other.is_widened_by(unit, &report) {
                        other.units.remove(unit);
                    }
                }
                self.update(i, unit, report, at);
            } else if let Some(i) = known() {
                matched.insert(self.tracked[i].incident.id.clone());
                self.tracked[i].merge_members(report);
            } else {
                left.push(report);
            }
        }
        for report in left {
            let orphan = self.tracked.iter().position(|t| {
                t.is_open()
                    && t.units.contains(unit)
                    && t.failing_clients.iter().any(|(client, recovery)| {
                        report.failing_clients.contains(client) && recovery.successes == 0
                    })
            });
            match orphan.filter(|i| !matched.contains(&self.tracked[*i].incident.id)) {
                // More evidence gave the same failures another name.
                Some(i) if self.tracked[i].lead_unit == *unit || self.tracked[i].units.len() == 1 => {
                    matched.insert(self.tracked[i].incident.id.clone());
                    self.tracked[i].lead_unit = unit.clone();
                    self.update(i, unit, report, at);
                }
                Some(i) => {
                    self.tracked[i].units.remove(unit);
                    matched.insert(self.open(unit, report, at, world));
                }
                None => {
                    matched.insert(self.open(unit, report, at, world));
                }
            }
        }
        matched
    }

    fn update(&mut self, i: usize, unit: &JudgementUnit, report: Report, at: EventTime) {
        let past = report.before_start;
        let tracked = &mut self.tracked[i];
        // A cause that fails seldom shows in another subject first, and more evidence tells its first failure from an accident.
        tracked.incident.since = tracked.incident.since.min(report.since);
        tracked.update(unit, report, at, &mut self.events);
        if tracked.provisional && !past {
            tracked.provisional = false;
            self.events.push(IncidentEvent::Named {
                incident: tracked.incident.clone(),
                at,
                first: true,
            });
        }
    }

    /// Opens or reopens an incident and returns its id.
    fn open(&mut self, unit: &JudgementUnit, report: Report, at: EventTime, world: &NameRegistry) -> String {
        let clients = report.failing_clients.iter();
        let failing_clients = clients
            .map(|client| (*client, ClientRecovery::default()))
            .collect();
        let (failures, crossed) = report.crossing_counts;
        let again = self.tracked.iter().position(|t| t.recurs_as(&report, at));
        let mut recovery = RecoveryProgress::after_failures(failures, crossed, self.round);
        let incident = if let Some(i) = again {
            let old = self.tracked.remove(i);
            recovery = recovery.resuming(&old.recovery);
            let old = old.incident;
            Incident {
                state: IncidentState::Open,
                since: report.since,
                occurrences: old.occurrences.saturating_add(1),
                departure_reason: None,
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
                id: self.unused_id(&parts),
                state: IncidentState::Open,
                since: report.since,
                opened: at,
                occurrences: 1,
                duty_cycle: None,
                departure_reason: None,
                consequences: Vec::new(),
                verdict: report.verdict,
            }
        };
        if !report.before_start {
            self.events.push(IncidentEvent::Named {
                incident: incident.clone(),
                at,
                first: true,
            });
        }
        let id = incident.id.clone();
        self.tracked.push(TrackedIncident {
            incident,
            scope: report.scope,
            region: report.region,
            class: report.class,
            is_one_way: report.is_one_way,
            renaming: RenamingEvidence::default(),
            failing_endpoints: report.failing_endpoints,
            lead_unit: unit.clone(),
            units: BTreeSet::from([unit.clone()]),
            explanations: BTreeMap::new(),
            recovery,
            failing_clients,
            current_round: IncidentRound::default(),
            departure_reason: None,
            published_fronts: BTreeSet::new(),
            restored: None,
            provisional: report.before_start,
        });
        id
    }

    /// Returns an id derived from `parts` that no other incident has.
    fn unused_id(&self, parts: &[&str]) -> String {
        let mut parts = parts.to_vec();
        loop {
            let id = format!("{:016x}", hash::fnv1a(&parts));
            if self.tracked.iter().all(|t| t.incident.id != id) {
                return id;
            }
            parts.push("");
        }
    }
}
