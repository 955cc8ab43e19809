//! Folds the rows of a round into cells: for each client as soon as its rows are complete, the rest when the round
//! closes.

use std::collections::{BTreeMap, BTreeSet};

use super::Engine;
use crate::{
    evidence::{
        attribution::book, block::CellBlock, cells::ClosedCells, fold::RoundFold, ledger::OutcomeSplit,
        rounds::PendingRow, row::Row,
    },
    ids::VantageIx,
};

impl Engine {
    /// Folds the rows of a vantage whose round is complete. Rows of on-demand probes, and rows that are judged as a
    /// whole, wait until the round closes.
    pub(super) fn fold_whole(&mut self, vantage: VantageIx) {
        if self.rules.split == OutcomeSplit::Whole {
            return;
        }
        let plain = |row: &Row| row.assigned && row.whole.is_none();
        if let Some((round, mut rows)) = self.evidence.rounds.whole(vantage, plain) {
            let mut fold = self.evidence.folds.remove(&round).unwrap_or_default();
            fold.note(&rows);
            self.findings
                .take(round, &mut rows, &self.cluster.routes, &self.world);
            self.evidence.resolvers.take(round, &rows);
            self.fold(&rows, &mut fold);
            self.evidence.folds.insert(round, fold);
        }
    }

    /// Interns new names in the order of the fold.
    pub(super) fn numbered(&mut self, waiting: Vec<PendingRow>) -> Vec<Row> {
        let number = |waiting| match waiting {
            PendingRow::Row(row) => Some(row),
            PendingRow::Strange(vantage, recorded) => {
                Row::learn(&recorded, vantage, &mut self.world, &self.cluster.routes)
            }
        };
        waiting.into_iter().filter_map(number).collect()
    }

    /// Returns the blocks as they would be without on-demand probes. Only cells of clients that made such probes can
    /// differ.
    pub(super) fn unasked(
        &mut self,
        rows: &[Row],
        asked: &[bool],
        booked: &BTreeMap<CellBlock, ClosedCells>,
    ) -> BTreeMap<CellBlock, ClosedCells> {
        let of_asked = rows.iter().zip(asked).filter(|(_, asked)| **asked);
        let clients: BTreeSet<VantageIx> = of_asked.map(|(row, _)| row.client).collect();
        let base = rows.iter().zip(asked);
        let base = base.filter(|(row, asked)| !**asked && clients.contains(&row.client));
        let mut fold = RoundFold::default();
        self.book(base.map(|(row, _)| row), &mut fold);
        let mut base = fold.close();
        let touches = |cells: &ClosedCells| cells.keys().any(|key| clients.contains(&key.client));
        let mut unasked = BTreeMap::new();
        for (block, cells) in booked {
            if !block.slow && touches(cells) {
                let instead = base.remove(block).unwrap_or_default();
                unasked.insert(*block, cells.with(&clients, instead));
            }
        }
        unasked
    }

    /// Folds rows of a round; the rows of one client must be adjacent.
    pub(super) fn fold(&mut self, rows: &[Row], fold: &mut RoundFold) {
        self.book(rows.iter(), fold);
        if self.rules.split == OutcomeSplit::Phases {
            self.evidence.pace.book(
                rows,
                &self.cluster.routes,
                &mut self.world,
                &self.evidence.restarted,
                &mut fold.blocks,
            );
        }
    }

    pub(super) fn book<'r>(&mut self, rows: impl Iterator<Item = &'r Row>, fold: &mut RoundFold) {
        let (routes, world) = (&self.cluster.routes, &mut self.world);
        book(
            rows,
            routes,
            world,
            self.rules.split,
            &self.evidence.restarted,
            &self.experience.worked,
            &mut fold.blocks,
        );
    }
}
