//! Folds the rows of a round into cells: for each client as soon as its rows are complete, the rest when the round
//! closes.

use std::collections::{BTreeMap, BTreeSet};

use super::Engine;
use crate::{
    evidence::{
        attribution::attribute_rows, block::CellBlock, cells::ClosedCells, fold::RoundFold,
        ledger::OutcomeSplit, rounds::PendingRow, row::Row,
    },
    ids::VantageIx,
};

impl Engine {
    /// Folds the rows of a vantage whose round is complete. Rows of follow-up probes, and rows that are judged as a
    /// whole, wait until the round closes.
    pub(super) fn fold_complete_client(&mut self, vantage: VantageIx) {
        if self.rules.outcome_split == OutcomeSplit::PerChannel {
            return;
        }
        let plain = |row: &Row| row.has_assignment && row.full_observation.is_none();
        if let Some((round, mut rows)) = self.evidence.rounds.take_complete(vantage, plain) {
            let mut fold = self.evidence.folds.remove(&round).unwrap_or_default();
            fold.record_client(&rows);
            let start = round.start(self.settings.interval);
            let was_answered = |vantage| self.matrix.was_answered_since(vantage, start);
            let names = (&self.cluster.routes, &self.registry);
            self.findings
                .add_rows((round, self.settings.interval), &mut rows, names, was_answered);
            self.evidence.resolvers.add_round(round, &rows);
            self.fold(&rows, &mut fold);
            self.evidence.folds.insert(round, fold);
        }
    }

    /// Interns new names in the order of the fold.
    pub(super) fn intern_rows(&mut self, waiting: Vec<PendingRow>) -> Vec<Row> {
        let number = |waiting| match waiting {
            PendingRow::Row(row) => Some(row),
            PendingRow::NewName(vantage, recorded) => {
                Row::interned(&recorded, vantage, &mut self.registry, &self.cluster.routes)
            }
        };
        waiting.into_iter().filter_map(number).collect()
    }

    /// Returns the blocks as they would be without follow-up probes. Only cells of clients that made such probes can
    /// differ.
    pub(super) fn blocks_without_requests(
        &mut self,
        rows: &[Row],
        requested: &[bool],
        booked: &BTreeMap<CellBlock, ClosedCells>,
    ) -> BTreeMap<CellBlock, ClosedCells> {
        let of_asked = rows.iter().zip(requested).filter(|(_, requested)| **requested);
        let clients: BTreeSet<VantageIx> = of_asked.map(|(row, _)| row.client).collect();
        let base = rows.iter().zip(requested);
        let base = base.filter(|(row, requested)| !**requested && clients.contains(&row.client));
        let mut fold = RoundFold::default();
        self.attribute(base.map(|(row, _)| row), &mut fold);
        let mut base = fold.close();
        let touches = |cells: &ClosedCells| cells.keys().any(|key| clients.contains(&key.client));
        let mut unasked = BTreeMap::new();
        for (block, cells) in booked {
            if !block.slow && touches(cells) {
                let instead = base.remove(block).unwrap_or_default();
                unasked.insert(*block, cells.with_clients_replaced(&clients, instead));
            }
        }
        unasked
    }

    /// Folds rows of a round; the rows of one client must be adjacent.
    pub(super) fn fold(&mut self, rows: &[Row], fold: &mut RoundFold) {
        self.attribute(rows.iter(), fold);
        if self.rules.outcome_split == OutcomeSplit::PerPhase {
            self.evidence.latency.count_slow(
                rows,
                &self.cluster.routes,
                &mut self.registry,
                &self.evidence.restart_times,
                &mut fold.blocks,
            );
        }
    }

    pub(super) fn attribute<'r>(&mut self, rows: impl Iterator<Item = &'r Row>, fold: &mut RoundFold) {
        let (routes, world) = (&self.cluster.routes, &mut self.registry);
        attribute_rows(
            rows,
            routes,
            world,
            self.rules.outcome_split,
            &self.evidence.restart_times,
            &self.history.worked_blocks,
            &mut fold.blocks,
        );
    }
}
