//! The incremental fold of an open round, client by client.
//!
//! A client is folded as soon as its rows of the round are complete, so that closing the round of a large mesh leaves
//! little to do. The cells of a client depend on its own rows only, so the order in which clients are folded does not
//! matter.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::EventTime;

use super::{
    block::{CellBlock, EvidenceKind},
    cells::{ClosedCells, OpenCells},
    row::Row,
};
use crate::ids::VantageIx;

/// The part of a round that is folded already.
#[derive(Debug, Default)]
pub(crate) struct RoundFold {
    pub(crate) blocks: BTreeMap<CellBlock, OpenCells>,
    clients: BTreeSet<VantageIx>,
    probes: usize,
    last_outcome: Option<EventTime>,
}

impl RoundFold {
    /// Records the client of the rows and when the last outcome among them was known.
    pub(crate) fn record_client(&mut self, rows: &[Row]) {
        self.probes += rows.len();
        self.clients.extend(rows.first().map(|row| row.client));
        let known = rows.iter().filter_map(|row| Some(row.at.plus(row.times.total?)));
        self.last_outcome = self.last_outcome.max(known.max());
    }

    /// Clients that are folded.
    pub(crate) fn clients(&self) -> impl Iterator<Item = VantageIx> {
        self.clients.iter().copied()
    }

    /// Number of their probes.
    pub(crate) const fn probes(&self) -> usize {
        self.probes
    }

    /// Returns when the last outcome was known; not before `end`.
    pub(crate) fn last_outcome(&self, end: EventTime) -> EventTime {
        self.last_outcome.map_or(end, |known| known.max(end))
    }

    /// Drops the cells of a restarted object: everything folded so far is from before the restart.
    pub(crate) fn restart(&mut self, of: EvidenceKind) {
        self.blocks.remove(&CellBlock::failures(of));
        self.blocks.remove(&CellBlock::slowness(of));
    }

    /// Drops the cells of removed objects.
    pub(crate) fn retain(&mut self, kept: impl Fn(EvidenceKind) -> bool) {
        self.blocks.retain(|block, _| kept(block.kind));
    }

    pub(crate) fn close(self) -> BTreeMap<CellBlock, ClosedCells> {
        let closed = self
            .blocks
            .into_iter()
            .map(|(block, cells)| (block, cells.close()));
        closed.collect()
    }
}
