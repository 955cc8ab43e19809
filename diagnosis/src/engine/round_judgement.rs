//! Closes rounds that are over, and judges the subjects that they touch.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Round};

use super::{Engine, is_known};
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::{ClosedCells, Destination},
        ledger::OutcomeSplit,
        stalls::ClientsWithoutStalls,
    },
    ids::VantageIx,
    incident::outcomes_known_at,
    inference::judgement_unit::JudgementUnit,
    regions::{Region, paths::SubjectPaths, share::alpha},
};

impl Engine {
    /// Closes and judges every round that is over at `now`. Returns whether any round was judged.
    pub fn advance(&mut self, now: EventTime) -> bool {
        let mut judged = false;
        while self.judge_next(now) {
            judged = true;
            // The round that is now the oldest may already be complete for some vantages.
            for vantage in self.evidence.rounds.pending_vantages() {
                self.fold_complete_client(vantage);
            }
        }
        judged
    }

    /// Reports whether a round is over at `now` and still open, as if [`Engine::advance`] was not called or did not finish.
    #[must_use]
    pub fn has_overdue_round(&self, now: EventTime) -> bool {
        self.evidence.rounds.has_overdue(now)
    }

    /// Closes and judges the next round that is over.
    pub(crate) fn judge_next(&mut self, now: EventTime) -> bool {
        let Some((round, waiting)) = self.evidence.rounds.close_next(now, &self.registry) else {
            return false;
        };
        self.incidents.begin_round(round);
        self.cluster.withdrawals.update(round, &self.cluster.topology);
        let mut rows = self.intern_rows(waiting);
        let mut fold = self.evidence.folds.remove(&round).unwrap_or_default();
        let at = outcomes_known_at(fold.last_outcome(round.end(self.settings.interval)), &rows);
        let names = (&self.cluster.routes, &self.registry);
        let start = round.start(self.settings.interval);
        let was_answered = |vantage| self.matrix.was_answered_since(vantage, start);
        self.findings
            .add_rows((round, self.settings.interval), &mut rows, names, was_answered);
        self.findings
            .judge(round, &self.cluster.topology, names, self.settings);
        self.evidence.resolvers.add_round(round, &rows);
        let requested = self
            .outstanding_requests
            .process_results(round, &mut rows, names, &fold);
        let clients: BTreeSet<VantageIx> = rows.iter().map(|row| row.client).chain(fold.clients()).collect();
        self.fold(&rows, &mut fold);
        let mut cells = fold.close();
        let without_stalls = self.clients_without_stalls(round, &cells);
        restore_weights(&mut cells, &without_stalls);
        self.apply_presence(round, &clients, &mut cells);
        if requested.contains(&true) {
            let mut unasked = self.blocks_without_requests(&rows, &requested, &cells);
            restore_weights(&mut unasked, &without_stalls);
            self.outstanding_requests.record_without_requests(round, unasked);
        }
        let interval = self.settings.interval;
        let mut touched = BTreeSet::new();
        for (block, cells) in cells {
            if !block.slow {
                self.record_successes(&block, &cells, round.end(interval));
            }
            touched.extend(self.units_of(&block));
            self.evidence
                .blocks
                .entry(block)
                .or_default()
                .push(round, cells, interval);
        }
        self.evidence
            .restart_times
            .retain(|_, restarted| *restarted > round.end(interval));
        for unit in &touched {
            self.update_detectors(unit, round);
        }
        if self.was_judged(round) {
            self.judgement.clear_related();
            self.learn_answers(round);
            self.settle_requests(round, at);
            return true;
        }
        self.mark_unvisited(round, at);
        let (known, topology, world) = (
            &self.cluster.known_vantages,
            &self.cluster.topology,
            &self.registry,
        );
        let is_known = |client| {
            // No vantage is known before the topology has been read.
            topology.nodes().is_empty() || is_known(known, topology, world.vantages.name(client))
        };
        let is_reporting = |client| self.matrix.is_reporting(client, at, self.settings);
        let freed = self.incidents.close_healthy(at, is_known, is_reporting);
        for (unit, state) in &mut self.judgement.units {
            if freed.units.contains(unit) || freed.of_all && !self.incidents.has_open(unit) {
                state.detectors.clear();
                state.healthy_rounds.clear();
                state.evidence_floor = Some(Round(round.0 + 1));
            }
        }
        self.evidence.visited_node_fronts = self.visited_node_fronts();
        // Causes first: what a fault of the network, or of an origin, entails is judged beside it.
        let mut in_order: Vec<&JudgementUnit> = touched.iter().collect();
        in_order.sort_by_key(|unit| {
            (
                unit.is_latency(),
                unit.judgement_order(),
                self.origin_of_unit(unit).is_some(),
            )
        });
        for unit in in_order {
            self.judge_unit(unit, round, at);
        }
        self.judgement.clear_related();
        self.learn_answers(round);
        self.settle_requests(round, at);
        self.update_hazards(round.end(self.settings.interval), false);
        true
    }

    /// Returns the clients whose failures of a round do not come from stalls.
    fn clients_without_stalls(
        &mut self,
        round: Round,
        cells: &BTreeMap<CellBlock, ClosedCells>,
    ) -> ClientsWithoutStalls {
        let judges_phases = self.rules.outcome_split == OutcomeSplit::PerPhase;
        let controls = cells.get(&CellBlock::failures(EvidenceKind::Mesh));
        let Some(controls) = controls.filter(|_| judges_phases) else {
            return ClientsWithoutStalls::Lasting(BTreeSet::new());
        };
        let lasting = self.evidence.stalls.add_round(round, controls);
        // Echoes explain a failed echo. A cause that another subject named may be refuted by them, and would be supported by the weight
        // that it gives to them.
        let named = self.incidents.named_together(&JudgementUnit::Mesh);
        let named: Vec<Region> = named
            .into_iter()
            .flatten()
            .filter(|region| region.is_between_nodes())
            .collect();
        if named.is_empty() {
            return lasting;
        }
        let paths = SubjectPaths::of_mesh(&self.cluster.nodes);
        lasting.with_explained(controls, |key| !alpha(&named, key, &paths).is_zero())
    }

    fn record_successes(&mut self, block: &CellBlock, cells: &ClosedCells, end: EventTime) {
        if cells.values().any(|c| c.probes > c.failures) {
            self.history.worked_blocks.insert(*block);
        }
        let succeeded = cells.iter().filter(|(_, counts)| counts.probes > counts.failures);
        let dests = succeeded.map(|(key, _)| key.dest);
        match block.kind {
            EvidenceKind::Mesh => self
                .history
                .answering_nodes
                .extend(dests.filter_map(|dest| match dest {
                    Destination::Peer(node) => Some(node),
                    _ => None,
                })),
            EvidenceKind::Dns => {
                for dest in dests {
                    if let Some(name) = dest.name()
                        && self.history.resolved_names.insert(name)
                    {
                        self.record_first_answer(name, end);
                    }
                }
            }
            EvidenceKind::Vip(_) | EvidenceKind::Direct(..) | EvidenceKind::Target(_) => {}
        }
    }
}

fn restore_weights(cells: &mut BTreeMap<CellBlock, ClosedCells>, of: &ClientsWithoutStalls) {
    if of.is_empty() {
        return;
    }
    for (_, cells) in cells.iter_mut().filter(|(block, _)| !block.slow) {
        cells.restore_weights(|client| of.contains(client));
    }
}
