//! The cells of one subject over the last rounds.

use std::collections::{BTreeSet, VecDeque};

use parallax_model::{Micros, Round};

use super::cells::{CellCounts, CellKey, ClosedCells, RoundCells};
use crate::ids::VantageIx;

/// The cells of one subject, by round.
#[derive(Debug, Clone, Default)]
pub(crate) struct RoundRing {
    rounds: VecDeque<ClosedRound>,
    /// The last round with a failure.
    last_failed: Option<Round>,
}

/// A closed round of a subject.
#[derive(Debug, Clone)]
struct ClosedRound {
    round: Round,
    cells: ClosedCells,
    /// Failures and probes of all cells.
    total: (u64, u64),
    /// Keys of cells with a failure, sorted.
    failing_cells: Vec<CellKey>,
}

impl ClosedRound {
    fn new(round: Round, cells: ClosedCells) -> Self {
        let failing = cells.iter().filter(|(_, counts)| counts.failures > 0);
        Self {
            round,
            total: total(&cells),
            failing_cells: failing.map(|(key, _)| *key).collect(),
            cells,
        }
    }
}

/// Sums failures and probes of all cells.
fn total(cells: &ClosedCells) -> (u64, u64) {
    let sum = |(f, n), counts: &CellCounts| (f + counts.failures, n + counts.probes);
    cells.values().fold((0, 0), sum)
}

/// Rounds kept of a subject without a failure, which only serves as a control.
const CONTROL_ROUNDS: i64 = 6;
/// Longest evidence window.
const WINDOW: Micros = Micros::from_secs(600);

impl RoundRing {
    /// Appends a closed round and drops rounds that are too old to be evidence.
    pub(crate) fn push(&mut self, round: Round, cells: ClosedCells, interval: Micros) {
        let closed = ClosedRound::new(round, cells);
        if closed.total.0 > 0 {
            self.last_failed = Some(round);
        }
        self.rounds.push_back(closed);
        let cap = i64::try_from(WINDOW.0 / interval.0.max(1))
            .unwrap_or(i64::MAX)
            .max(3);
        let keep = if self.has_failure() {
            cap
        } else {
            CONTROL_ROUNDS.min(cap)
        };
        while self
            .rounds
            .front()
            .is_some_and(|closed| closed.round.0 <= round.0 - keep)
        {
            self.rounds.pop_front();
        }
    }

    /// Drops the reports of some clients from a round.
    pub(crate) fn drop_clients(&mut self, round: Round, clients: &BTreeSet<VantageIx>) {
        let Some(closed) = self.rounds.iter_mut().rev().find(|closed| closed.round == round) else {
            return;
        };
        closed.cells.retain(|key, _| !clients.contains(&key.client));
        closed.failing_cells.retain(|key| !clients.contains(&key.client));
        closed.total = total(&closed.cells);
        let failing = |closed: &&ClosedRound| !closed.failing_cells.is_empty();
        self.last_failed = self.rounds.iter().rev().find(failing).map(|closed| closed.round);
    }

    /// Adds cells to a closed round, unless it is no longer kept.
    pub(crate) fn add_cells(&mut self, round: Round, cells: Vec<(CellKey, CellCounts)>) {
        let Some(closed) = self.rounds.iter_mut().rev().find(|closed| closed.round == round) else {
            return;
        };
        closed.cells.add(cells);
        *closed = ClosedRound::new(round, std::mem::take(&mut closed.cells));
        let failing = |closed: &&ClosedRound| !closed.failing_cells.is_empty();
        self.last_failed = self.rounds.iter().rev().find(failing).map(|closed| closed.round);
    }

    pub(crate) fn clear(&mut self) {
        self.last_failed = None;
        self.rounds.clear();
    }

    pub(crate) fn first(&self) -> Option<Round> {
        self.rounds.front().map(|closed| closed.round)
    }

    pub(crate) fn last(&self) -> Option<Round> {
        self.rounds.back().map(|closed| closed.round)
    }

    /// Returns the cells of one round.
    pub(crate) fn at(&self, round: Round) -> Option<&ClosedCells> {
        self.closed(round).map(|closed| &closed.cells)
    }

    /// Returns failures and probes of one round.
    pub(crate) fn total(&self, round: Round) -> (u64, u64) {
        self.closed(round).map_or((0, 0), |closed| closed.total)
    }

    fn closed(&self, round: Round) -> Option<&ClosedRound> {
        self.rounds.iter().rev().find(|closed| closed.round == round)
    }

    /// Iterates over the rounds from `start` on.
    pub(crate) fn since(&self, start: Round) -> impl Iterator<Item = (Round, &ClosedCells)> {
        self.rounds
            .iter()
            .filter(move |closed| closed.round >= start)
            .map(|closed| (closed.round, &closed.cells))
    }

    /// Iterates over the failing cells of each round from `start` on.
    pub(crate) fn failing_cells(&self, start: Round) -> impl Iterator<Item = (Round, &[CellKey])> {
        let since = self.rounds.iter().filter(move |closed| closed.round >= start);
        since.map(|closed| (closed.round, closed.failing_cells.as_slice()))
    }

    /// Returns the largest number of cells in a round.
    pub(crate) fn max_cells(&self) -> usize {
        let widths = self.rounds.iter().map(|closed| closed.cells.len());
        widths.max().unwrap_or(0)
    }

    /// Reports whether there was a failure since `start`.
    pub(crate) fn fails_since(&self, start: Round) -> bool {
        self.last_failed.is_some_and(|failed| failed >= start)
    }

    fn has_failure(&self) -> bool {
        self.last_failed
            .is_some_and(|failed| self.first().is_some_and(|first| failed >= first))
    }

    /// Adds the cells of all rounds from `start` on to a sum.
    pub(crate) fn sum_into(&self, start: Round, sums: &mut RoundCells) {
        for (_, cells) in self.since(start) {
            cells.add_to(sums);
        }
    }
}
