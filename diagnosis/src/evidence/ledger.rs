//! Entries of one client and round by subject, weighted so that each group has one vote.

use std::collections::BTreeMap;

use parallax_model::Channel;

use super::{
    block::{CellBlock, EvidenceKind},
    cells::{CellKey, Destination, OpenCells},
    row::Failure,
    weights::{ClientRound, ONE_PROBE},
};
use crate::ids::VantageIx;

/// How the outcome of a probe is attributed to subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeSplit {
    /// Each phase to its own subject.
    PerPhase,
    /// The whole outcome to the channel. For recordings of a single target: its front has no other host that could
    /// separate front and target.
    PerChannel,
}

/// One phase of one probe.
#[derive(Debug, Clone, Copy)]
struct LedgerEntry {
    block: CellBlock,
    /// Entries of a group share one vote; without a destination, the whole block is a group.
    group: Option<Destination>,
    dest: Destination,
    channel: Channel,
    failure: Option<Failure>,
}

/// The entries of one client in one round.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<LedgerEntry>,
}

impl Ledger {
    /// Records an outcome with a vote of its own.
    pub(crate) fn record(
        &mut self,
        of: EvidenceKind,
        channel: Channel,
        dest: Destination,
        failure: Option<Failure>,
    ) {
        self.record_in_group(CellBlock::failures(of), channel, dest, failure, Some(dest));
    }

    /// Records an outcome that shares a vote with the others of its group.
    pub(crate) fn record_in_group(
        &mut self,
        block: CellBlock,
        channel: Channel,
        dest: Destination,
        failure: Option<Failure>,
        group: Option<Destination>,
    ) {
        self.entries.push(LedgerEntry {
            block,
            group,
            dest,
            channel,
            failure,
        });
    }

    /// Distributes one vote over the probes of each group, and one vote over the failures of a stall. Leaves the
    /// ledger empty for the next client.
    pub(crate) fn flush(
        &mut self,
        client: VantageIx,
        split: OutcomeSplit,
        into: &mut BTreeMap<CellBlock, OpenCells>,
    ) {
        self.entries.sort_by_key(|entry| (entry.block, entry.group));
        let groups = || {
            self.entries
                .chunk_by(|a, b| a.block == b.block && a.group == b.group)
        };
        let mut round = ClientRound::default();
        for group in groups() {
            let failed = group.iter().any(|entry| entry.failure.is_some());
            round.failures += u64::from(failed);
            if group[0].block.kind == EvidenceKind::Mesh {
                round.controls += 1;
                round.failed_controls += u64::from(failed);
            }
        }
        let divisor = round.weight_divisor();
        for entries in self.entries.chunk_by(|a, b| a.block == b.block) {
            let cells = into.entry(entries[0].block).or_default();
            let begin = cells.next_start();
            for group in entries.chunk_by(|a, b| a.group == b.group) {
                let share = match split {
                    OutcomeSplit::PerPhase => ONE_PROBE / u64::try_from(group.len()).unwrap_or(u64::MAX),
                    OutcomeSplit::PerChannel => ONE_PROBE,
                };
                for entry in group {
                    let key = CellKey {
                        channel: entry.channel,
                        client,
                        dest: entry.dest,
                    };
                    let counts = cells.cell(begin, key);
                    counts.unweighted_probes += share;
                    if let Some(kind) = entry.failure {
                        let weight = share / divisor;
                        counts.probes += weight;
                        counts.failures += weight;
                        counts.unweighted_failures += share;
                        let sum = counts.kinds.entry(kind).or_default();
                        // There is one kind of slow, which is no evidence about the cause.
                        sum.0 += if entry.block.slow { 0 } else { weight };
                        sum.1 += share;
                    } else {
                        counts.probes += share;
                    }
                }
            }
        }
        self.entries.clear();
    }
}
