//! The evidence of a subject in a window: its cells, those that fail, and the failure rates to expect.

use std::collections::BTreeSet;

use parallax_model::Round;

use super::{Engine, state::BackgroundRates};
use crate::{
    evidence::{
        block::CellBlock,
        cells::{CellKey, CellSelection, Destination, MANY_CELLS, RoundCells},
        weights::ONE_PROBE,
    },
    ids::NodeIx,
    inference::{
        judgement::FailingCells,
        judgement_unit::JudgementUnit,
        likelihood::BackgroundRate,
        window::{CausePeriods, WindowCells},
    },
};

/// Failures above which the grid of failure rates is dense. The logit of a rate is known to about 1/√failures, and the points of the
/// coarse grid are up to 0.8 apart: 95 failures of 1 046 (.091) fit one endpoint of three (.25 of its share) a hundred times better
/// than all of them, only because .091 lies halfway between .06 and .12.
const MANY_FAILURES: u64 = 50 * ONE_PROBE;

/// Rounds with failures from which a partial loss has lasted.
const MIN_LASTING_ROUNDS: usize = 6;

impl Engine {
    /// Returns the background failure rate of a subject, from its own past or from that of all. Few failures are not told
    /// from an unlucky minute; only what has lasted is compared with a quiet background.
    pub(super) fn background_rate(
        &self,
        unit: &JudgementUnit,
        own: &[CellBlock],
        floor: Round,
    ) -> BackgroundRate {
        let state = self.judgement.units.get(unit);
        let own_rate = state.and_then(|state| state.background.rate());
        let rate_at_rest = state.and_then(|state| state.background_at_rest.rate());
        // Beside a known cause, what its region explains only in part would look like a further fault.
        let is_alone = || {
            let known = self.incidents.known_causes(unit, self.front_of_unit(unit));
            known.is_empty()
        };
        // Names have other reasons to fail.
        let is_comparable = unit.is_service() || *unit == JudgementUnit::Mesh;
        let of_all = || self.median_background().filter(|_| is_comparable);
        if self.has_lasted(own, floor)
            && is_alone()
            && rate_at_rest.or_else(of_all).is_some_and(BackgroundRate::is_quiet)
        {
            BackgroundRate::Quiet
        } else {
            own_rate.map_or(BackgroundRate::Usual, BackgroundRate::for_rate)
        }
    }

    fn has_lasted(&self, own: &[CellBlock], floor: Round) -> bool {
        self.failing_rounds(own, floor).len() >= MIN_LASTING_ROUNDS
    }

    /// Returns the rounds since `floor` in which probes of a subject failed.
    pub(super) fn failing_rounds(&self, own: &[CellBlock], floor: Round) -> BTreeSet<Round> {
        let rings = own.iter().filter_map(|block| self.evidence.blocks.get(block));
        rings
            .flat_map(|ring| ring.failing_cells(floor))
            .filter(|(_, cells)| !cells.is_empty())
            .map(|(round, _)| round)
            .collect()
    }

    /// Returns the median of the background rates at rest of all Services and targets, once there are enough probes.
    fn median_background(&self) -> Option<f64> {
        let services = self.judgement.units.iter().filter(|(unit, _)| unit.is_service());
        BackgroundRates::median(services.map(|(_, state)| state.background_at_rest))
    }

    /// Reports whether the rates of a subject are known well enough for a dense grid.
    pub(super) fn has_many_failures(&self, own: &[CellBlock], floor: Round) -> bool {
        let rings = own.iter().filter_map(|block| self.evidence.blocks.get(block));
        let cells = rings
            .flat_map(|ring| ring.since(floor))
            .flat_map(|(_, cells)| cells.values());
        cells.map(|counts| counts.failures).sum::<u64>() > MANY_FAILURES
    }

    /// Reports whether the evidence never shows which endpoint a probe reached.
    pub(super) fn endpoints_unknown(&self, own: &[CellBlock], controls: &[CellBlock], floor: Round) -> bool {
        let mut rings = own
            .iter()
            .chain(controls)
            .filter_map(|block| self.evidence.blocks.get(block));
        !rings.any(|ring| {
            let mut keys = ring.since(floor).flat_map(|(_, cells)| cells.keys());
            keys.any(|key| matches!(key.dest, Destination::Entry(_) | Destination::Peer(_)))
        })
    }

    /// Sums the cells of a subject since a round, divided where causes began and were over; `unasked` leaves out follow-up
    /// probes.
    pub(super) fn cells_since(
        &self,
        (own, controls): (&[CellBlock], &[CellBlock]),
        start: Round,
        periods: &CausePeriods,
        unasked: bool,
    ) -> WindowCells {
        // Of very many controls, use those that start or end where the subject's own probes do. The others give every
        // subject the same evidence, and there are tens of thousands of them.
        let many = controls
            .iter()
            .filter_map(|block| self.evidence.blocks.get(block))
            .any(|ring| ring.max_cells() > MANY_CELLS);
        let near = many.then(|| {
            let mut cells = RoundCells::new();
            self.sum_cells(own, (start, None), unasked, &mut cells, None);
            self.nearby_selection(&cells)
        });
        WindowCells::divided(start, periods, |begin, end, cells| {
            self.sum_cells(own, (begin, end), unasked, cells, None);
            self.sum_cells(controls, (begin, end), unasked, cells, near.as_ref());
        })
    }

    fn sum_cells(
        &self,
        blocks: &[CellBlock],
        (start, end): (Round, Option<Round>),
        unasked: bool,
        sums: &mut RoundCells,
        near: Option<&CellSelection>,
    ) {
        for block in blocks {
            let Some(ring) = self.evidence.blocks.get(block) else {
                continue;
            };
            let rounds = ring.since(start);
            for (round, all) in rounds.take_while(|(round, _)| end.is_none_or(|end| *round < end)) {
                let base = self
                    .outstanding_requests
                    .without_requests(block, round)
                    .filter(|_| unasked);
                let cells = base.unwrap_or(all);
                match near {
                    Some(near) => cells.add_selected_to(sums, near),
                    None => cells.add_to(sums),
                }
            }
        }
    }

    /// Returns the clients on, and the paths to, every node at which one of the cells starts or ends.
    fn nearby_selection(&self, cells: &RoundCells) -> CellSelection {
        let ends = |key: &CellKey| {
            [
                self.cluster.nodes.client_node(key.client),
                self.cluster.nodes.destination_node(key.dest),
            ]
        };
        let nodes: BTreeSet<NodeIx> = cells.keys().flat_map(ends).flatten().collect();
        let clients = self.cluster.nodes.clients.iter();
        CellSelection {
            clients: clients
                .filter(|(_, node)| node.is_some_and(|node| nodes.contains(&node)))
                .map(|(client, _)| client)
                .collect(),
            dests: nodes.into_iter().map(Destination::Peer).collect(),
        }
    }

    pub(super) fn failing_cells(
        &self,
        own: &[CellBlock],
        controls: &[CellBlock],
        floor: Round,
        unasked: bool,
    ) -> (BTreeSet<Round>, FailingCells) {
        let mut rounds = BTreeSet::new();
        let mut failing = FailingCells::new();
        for (i, block) in own.iter().chain(controls).enumerate() {
            let Some(ring) = self.evidence.blocks.get(block) else {
                continue;
            };
            for (round, all) in ring.failing_cells(floor) {
                let base = self
                    .outstanding_requests
                    .without_requests(block, round)
                    .filter(|_| unasked);
                if i < own.len() {
                    rounds.insert(round);
                }
                let keys: Vec<CellKey> = match base {
                    None => all.to_vec(),
                    Some(cells) => {
                        let failing = cells.iter().filter(|(_, counts)| counts.failures > 0);
                        failing.map(|(key, _)| *key).collect()
                    }
                };
                if !keys.is_empty() {
                    failing.entry(round).or_default().extend(keys);
                }
            }
        }
        (rounds, failing)
    }
}
