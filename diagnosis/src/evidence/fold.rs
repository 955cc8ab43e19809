//! The fold of a round in the making, client by client.
//!
//! A client that has no more to say about a round is folded at once, so that closing the round of a large mesh leaves
//! little to do. The cells of one client rest on its own rows only: in which order clients are folded never shows.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::EventTime;

use super::{
    block::{CellBlock, EvidenceKind},
    cells::{ClosedCells, OpenCells},
    row::Row,
};
use crate::ids::VantageIx;

/// What is folded of a round.
#[derive(Debug, Default)]
pub(crate) struct RoundFold {
    pub(crate) blocks: BTreeMap<CellBlock, OpenCells>,
    clients: BTreeSet<VantageIx>,
    probes: usize,
    known: Option<EventTime>,
}

impl RoundFold {
    /// Notes whose rows are folded, and when the last of them was known.
    pub(crate) fn note(&mut self, rows: &[Row]) {
        self.probes += rows.len();
        self.clients.extend(rows.first().map(|row| row.client));
        let known = rows.iter().filter_map(|row| Some(row.at.plus(row.times.total?)));
        self.known = self.known.max(known.max());
    }

    /// Clients that are folded.
    pub(crate) fn clients(&self) -> impl Iterator<Item = VantageIx> {
        self.clients.iter().copied()
    }

    /// Their probes.
    pub(crate) const fn probes(&self) -> usize {
        self.probes
    }

    /// When the last probe's outcome was known; not before `end`.
    pub(crate) fn known(&self, end: EventTime) -> EventTime {
        self.known.map_or(end, |known| known.max(end))
    }

    /// Forgets cells of what starts over: everything folded was before.
    pub(crate) fn restart(&mut self, of: EvidenceKind) {
        self.blocks.remove(&CellBlock::plain(of));
        self.blocks.remove(&CellBlock::slow(of));
    }

    /// Forgets what is gone.
    pub(crate) fn retain(&mut self, kept: impl Fn(EvidenceKind) -> bool) {
        self.blocks.retain(|block, _| kept(block.of));
    }

    pub(crate) fn close(self) -> BTreeMap<CellBlock, ClosedCells> {
        let closed = self
            .blocks
            .into_iter()
            .map(|(block, cells)| (block, cells.close()));
        closed.collect()
    }
}
