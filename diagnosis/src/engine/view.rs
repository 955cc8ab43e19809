//! Assembles the view of the engine's state.

use std::collections::BTreeSet;

use parallax_model::{EventTime, Vantage};

use super::Engine;
use crate::{evidence::rounds::OpenRounds, matrix::not_excluded_by_mesh, view::View};

impl Engine {
    fn all_findings(&self) -> Vec<crate::findings::Finding> {
        let mut all = self.findings.list();
        all.extend(self.changed_answers());
        all.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// Returns the state at `now`.
    #[must_use]
    pub fn view(&self, now: EventTime) -> View {
        let world = &self.registry;
        let mut vantages = self
            .matrix
            .vantages(&self.cluster.known_vantages, world, now, self.settings);
        let silent: BTreeSet<&Vantage> = vantages
            .iter()
            .filter(|v| v.state != crate::view::VantageState::Reporting)
            .map(|v| &v.vantage)
            .collect();
        let mut incidents = self.incidents.list(|unit, clients| {
            let own = self.blocks_of(unit).0;
            let last = own
                .iter()
                .filter_map(|b| self.evidence.blocks.get(b)?.last())
                .max()?;
            let end = last.end(self.settings.interval);
            let all_silent = !clients.is_empty()
                && clients
                    .iter()
                    .all(|c| silent.contains(self.registry.vantages.name(*c)));
            (all_silent || now - end > OpenRounds::silence_timeout(self.settings))
                .then(|| " (no fresh evidence: the vantages that saw it are silent)".to_owned())
        });
        let mut hazards = self.hazards.hazards.clone();
        self.attribute_consequences(&mut incidents, &mut vantages, &mut hazards);
        let not_excluded = not_excluded_by_mesh(&self.cluster.topology, &vantages);
        View {
            at: now,
            interval: self.settings.interval,
            last_judged_round: self.evidence.rounds.last_judged(),
            matrix: self.matrix.rows(
                &self.cluster.topology,
                (world, &self.cluster.routes, &self.history.answers.baselines),
                &vantages,
                now,
                self.settings,
            ),
            vantages,
            incidents,
            investigations: self.judgement.investigating.values().cloned().collect(),
            findings: self.all_findings(),
            hazards,
            not_excluded,
            names: self.findings.names(&self.cluster.topology, &self.registry),
            exposures: self.findings.exposures(&self.cluster.topology),
            forbidden: self.findings.forbidden(&self.cluster.topology),
            probe_requests: self.outstanding_requests.probe_requests().to_vec(),
            counters: self.counters,
        }
    }
}
