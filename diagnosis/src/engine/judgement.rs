//! Judges one subject after a round: selects windows, cells and related subjects, and compares the regions.

use std::collections::BTreeSet;
use std::sync::Arc;

use parallax_model::{Channel, EventTime, Round};

use super::{Engine, inquiry::Inquiry};
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::{CellKey, Destination, MANY_CELLS, RoundCells, SmallSample},
        ledger::OutcomeSplit,
    },
    ids::NodeIx,
    inference::{
        judgement::{FailingCells, Judgement, JudgementInput, judge},
        likelihood::{Likelihood, RateGrid},
        look_elsewhere::ResidualDoubt,
        prior::PriorFact,
        unit::JudgementUnit,
    },
    regions::paths::SubjectPaths,
};

impl Engine {
    /// Adds the subject's own cells of a round to its change detectors and to the recovery tests of its incidents.
    pub(super) fn step(&mut self, unit: &JudgementUnit, round: Round) {
        let (own, _) = self.blocks_of(unit);
        let totals = own
            .iter()
            .filter_map(|b| Some(self.evidence.blocks.get(b)?.total(round)));
        let (failures, all) = totals.fold((0, 0), |(f, n), total| (f + total.0, n + total.1));
        let fails = failures > 0;
        let rising = self
            .judgement
            .units
            .get(unit)
            .is_some_and(|state| state.streams.any());
        let concerned = self.incidents.concerns(unit);
        if !concerned && !self.judgement.investigating.contains_key(unit) {
            self.judgement
                .units
                .entry(unit.clone())
                .or_default()
                .quiet
                .learn(failures, all);
        }
        if !fails && !rising && !concerned {
            return;
        }
        let mut cells = RoundCells::new();
        for block in &own {
            if let Some(found) = self.evidence.blocks.get(block).and_then(|ring| ring.at(round)) {
                found.add_to(&mut cells);
            }
        }
        self.judgement
            .units
            .entry(unit.clone())
            .or_default()
            .streams
            .step(round, &cells);
        if concerned && !self.was_judged(round) {
            let scene = self.scene(unit, &cells);
            self.incidents.step(unit, &cells, &scene);
        }
    }

    pub(super) fn scene(&self, unit: &JudgementUnit, cells: &RoundCells) -> SubjectPaths {
        let mut scene = SubjectPaths {
            nodes: Arc::clone(&self.cluster.nodes),
            ..SubjectPaths::default()
        };
        let front = self.front_of_unit(unit);
        match (front, self.service_of_unit(unit)) {
            (Some(front), Some(service)) => {
                let clients = cells.keys().map(|key| key.client).collect();
                scene = scene.with_service(&self.cluster.topology, &self.world, &front, service, &clients);
            }
            (None, Some(service)) => scene = scene.with_endpoints(&self.world, service),
            (_, None) => {}
        }
        scene.learn_from(cells, self.rules.affinity);
        scene
    }

    pub(super) fn judge_unit(&mut self, unit: &JudgementUnit, round: Round, at: EventTime) {
        let Some(state) = self.judgement.units.get(unit) else {
            return;
        };
        let (own, controls) = self.blocks_of(unit);
        let first = own
            .iter()
            .filter_map(|b| self.evidence.blocks.get(b)?.first())
            .min()
            .unwrap_or(round);
        let floor = state.floor.map_or(first, |floor| floor.max(first));
        let fails = own
            .iter()
            .filter_map(|b| self.evidence.blocks.get(b))
            .any(|ring| ring.fails_since(floor));
        if !state.streams.any() || !fails {
            self.leave(unit);
            return;
        }
        let windows = state.streams.windows(floor);
        let background = state.quiet.background();
        let facts = self.facts(unit);
        let grid = RateGrid {
            fine: self.is_blind(&own, &controls, floor),
            background,
        };
        let mut likelihood = self
            .judgement
            .likelihoods
            .remove(&grid)
            .unwrap_or_else(|| Likelihood::on(grid));
        let blocks = (own.as_slice(), controls.as_slice());
        let mut judged = self.judge_windows(unit, blocks, (windows, floor), &facts, &mut likelihood);
        if let Some((judgement, _)) = &mut judged
            && let Some(fresh) = self.void(unit, judgement, blocks)
        {
            let fails = own.iter().filter_map(|b| self.evidence.blocks.get(b));
            let mut fails = fails.map(|ring| ring.fails_since(fresh));
            judged = if fails.any(|fails| fails) {
                self.judge_windows(
                    unit,
                    blocks,
                    (BTreeSet::from([fresh]), fresh),
                    &facts,
                    &mut likelihood,
                )
            } else {
                None
            };
        }
        if let Some((judgement, failing)) = judged {
            // On-demand probes of a slow path add nothing to the planned ones.
            let inquiry = if unit.is_slow() {
                Inquiry::default()
            } else {
                self.inquire(unit, &judgement, &failing, &facts, round, &mut likelihood)
            };
            self.conclude(unit, &judgement, &inquiry, &facts, at);
        } else {
            self.leave(unit);
        }
        self.judgement.likelihoods.insert(grid, likelihood);
    }

    /// Clears the state of a subject about which nothing is open.
    fn leave(&mut self, unit: &JudgementUnit) {
        self.judgement.investigating.remove(unit);
        self.judgement.leanings.remove(unit);
        self.judgement.unexplained.remove(unit);
        self.asking.forget(unit);
    }

    /// Judges a subject on the window with the strongest evidence, with evidence from a round on.
    fn judge_windows(
        &mut self,
        unit: &JudgementUnit,
        (own, controls): (&[CellBlock], &[CellBlock]),
        (windows, floor): (BTreeSet<Round>, Round),
        facts: &[PriorFact],
        likelihood: &mut Likelihood,
    ) -> Option<(Judgement, FailingCells)> {
        let mut cases = Vec::new();
        for start in windows {
            let cells = self.cells_since(own, controls, start, false);
            cases.push(self.case(unit, start, cells, facts, likelihood));
        }
        let (rounds, failing) = self.failing_cells(own, controls, floor, false);
        let judgement = judge(cases, &rounds, &failing, self.doubt(unit), likelihood)?;
        Some((judgement, failing))
    }

    /// Counts the node addresses that any client connected to; the others are not hypotheses.
    pub(super) fn machines_met(&self) -> usize {
        let met = |block: &&CellBlock| {
            !block.slow
                && matches!(block.of, EvidenceKind::Vip(front) if self.cluster.topology.machine(&front).is_some())
        };
        self.evidence.blocks.keys().filter(met).count()
    }

    /// Residual doubt for multiple comparisons: fronts and targets are each judged separately.
    pub(crate) fn doubt(&self, unit: &JudgementUnit) -> ResidualDoubt {
        match (self.rules.split, unit.plain()) {
            (
                OutcomeSplit::Phases,
                JudgementUnit::Front(_) | JudgementUnit::Endpoints(..) | JudgementUnit::Target(_),
            ) => {
                let fronts = self.cluster.topology.fronts().len() + self.evidence.met;
                ResidualDoubt::among(fronts + self.cluster.topology.targets().len())
            }
            _ => ResidualDoubt::among(1),
        }
    }

    /// Reports whether the evidence never shows which endpoint a probe reached.
    fn is_blind(&self, own: &[CellBlock], controls: &[CellBlock], floor: Round) -> bool {
        let mut rings = own
            .iter()
            .chain(controls)
            .filter_map(|block| self.evidence.blocks.get(block));
        !rings.any(|ring| {
            let mut keys = ring.since(floor).flat_map(|(_, cells)| cells.keys());
            keys.any(|key| matches!(key.dest, Destination::Entry(_) | Destination::Peer(_)))
        })
    }

    /// Sums the cells of a subject since a round; `unasked` leaves out on-demand probes.
    pub(super) fn cells_since(
        &self,
        own: &[CellBlock],
        controls: &[CellBlock],
        start: Round,
        unasked: bool,
    ) -> RoundCells {
        let mut cells = RoundCells::new();
        self.sum(own, start, unasked, &mut cells, None);
        // Of very many controls, use those that start or end where the subject's own probes do. The others give every
        // subject the same evidence, and there are tens of thousands of them.
        let many = controls
            .iter()
            .filter_map(|block| self.evidence.blocks.get(block))
            .any(|ring| ring.width() > MANY_CELLS);
        let near = many.then(|| self.near(&cells));
        self.sum(controls, start, unasked, &mut cells, near.as_ref());
        cells
    }

    fn sum(
        &self,
        blocks: &[CellBlock],
        start: Round,
        unasked: bool,
        sums: &mut RoundCells,
        near: Option<&SmallSample>,
    ) {
        for block in blocks {
            let Some(ring) = self.evidence.blocks.get(block) else {
                continue;
            };
            for (round, all) in ring.since(start) {
                let base = self.asking.unasked(block, round).filter(|_| unasked);
                let cells = base.unwrap_or(all);
                match near {
                    Some(near) => cells.add_near_to(sums, near),
                    None => cells.add_to(sums),
                }
            }
        }
    }

    /// Returns the clients on, and the paths to, every node at which one of the cells starts or ends.
    fn near(&self, cells: &RoundCells) -> SmallSample {
        let ends = |key: &CellKey| {
            [
                self.cluster.nodes.of_client(key.client),
                self.cluster.nodes.of_dest(key.dest),
            ]
        };
        let nodes: BTreeSet<NodeIx> = cells.keys().flat_map(ends).flatten().collect();
        let clients = self.cluster.nodes.clients.iter();
        SmallSample {
            clients: clients
                .filter(|(_, node)| node.is_some_and(|node| nodes.contains(&node)))
                .map(|(client, _)| client)
                .collect(),
            dests: nodes.into_iter().map(Destination::Peer).collect(),
        }
    }

    /// Builds the input of a judgement from a window of the subject's cells.
    pub(super) fn case(
        &mut self,
        unit: &JudgementUnit,
        start: Round,
        cells: RoundCells,
        facts: &[PriorFact],
        likelihood: &mut Likelihood,
    ) -> JudgementInput {
        let scene = self.scene(unit, &cells);
        let channels: BTreeSet<Channel> = cells.keys().map(|key| key.channel).collect();
        let kinds = unit.kinds(&scene, &channels);
        let case = JudgementInput::new(start, cells, scene, &self.world, &kinds, facts);
        if matches!(
            unit.plain(),
            JudgementUnit::Front(_) | JudgementUnit::Endpoints(..) | JudgementUnit::Target(_)
        ) {
            case.with_pool(self.pool(unit, start), likelihood)
        } else {
            case
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
            for (round, all) in ring.failing(floor) {
                let base = self.asking.unasked(block, round).filter(|_| unasked);
                if i < own.len() {
                    rounds.insert(round);
                }
                let keys: Vec<CellKey> = match base {
                    None => all.to_vec(),
                    Some(cells) => {
                        let failing = cells.iter().filter(|(_, counts)| counts.f > 0);
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
