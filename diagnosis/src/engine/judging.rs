//! One subject after a round: which windows, which cells, which other subjects, and what they say together.

use std::collections::BTreeSet;
use std::sync::Arc;

use parallax_model::{Channel, EventTime, Round};

use super::Engine;
use crate::{
    booking::Block,
    causes::facts,
    cells::RoundCells,
    judge::{Case, FailingCells, Other, Unit, judge, pool},
    prior::{PriorFact, hypotheses},
    scene::Scene,
};

/// Other subjects that are asked about a cause that would concern all of them.
const POOLED: usize = 32;

impl Engine {
    /// Takes the subject's own cells of a round into its sums and into the tests that end its incidents.
    pub(super) fn step(&mut self, unit: &Unit, round: Round) {
        let (own, _) = self.blocks_of(unit);
        let fails = own
            .iter()
            .filter_map(|b| self.blocks.get(b)?.at(round))
            .any(|cells| cells.values().any(|c| c.f > 0));
        let rising = self.units.get(unit).is_some_and(|state| state.streams.any());
        let concerned = self.incidents.concerns(unit);
        if !fails && !rising && !concerned {
            return;
        }
        let mut cells = RoundCells::new();
        for block in &own {
            if let Some(found) = self.blocks.get(block).and_then(|ring| ring.at(round)) {
                for (key, counts) in found {
                    cells.entry(*key).or_default().add(counts);
                }
            }
        }
        self.units
            .entry(unit.clone())
            .or_default()
            .streams
            .step(round, &cells);
        if concerned {
            let scene = self.scene(unit, &cells);
            self.incidents.step(unit, &cells, &scene);
        }
    }

    fn scene(&self, unit: &Unit, cells: &RoundCells) -> Scene {
        let mut scene = Scene {
            nodes: Arc::clone(&self.nodes),
            ..Scene::default()
        };
        let front = self.front_of_unit(unit);
        if let Some((front, service)) = front.and_then(|f| Some((f, self.topology.service_of(&f)?))) {
            let clients = cells.keys().map(|key| key.client).collect();
            scene = scene.with_service(&self.topology, &self.world, &front, service, &clients);
        }
        scene.learn_from(cells, self.rules.affinity);
        scene
    }

    pub(super) fn judge_unit(&mut self, unit: &Unit, round: Round, at: EventTime) {
        let Some(state) = self.units.get(unit) else { return };
        let (own, controls) = self.blocks_of(unit);
        let first = own
            .iter()
            .filter_map(|b| self.blocks.get(b)?.first())
            .min()
            .unwrap_or(round);
        let floor = state.floor.map_or(first, |floor| floor.max(first));
        let fails = own
            .iter()
            .filter_map(|b| self.blocks.get(b))
            .any(|ring| ring.fails_since(floor));
        if !state.streams.any() || !fails {
            self.investigating.remove(unit);
            self.unexplained.remove(unit);
            self.asking.forget(unit);
            return;
        }
        let windows = state.streams.windows(floor);
        let front = self.front_of_unit(unit);
        let facts = facts(
            &self.topology,
            front.as_ref(),
            &self.world,
            self.rules.foreign_proxy,
        );
        let mut cases = Vec::new();
        for start in windows {
            let cells = self.cells_since(&own, &controls, start, false);
            cases.push(self.case(unit, start, cells, &facts));
        }
        let (rounds, failing) = self.failing_cells(&own, &controls, floor, false);
        let Some(judgement) = judge(cases, &rounds, &failing, &mut self.likelihood) else {
            return;
        };
        let inquiry = self.inquire(unit, &judgement, &failing, &facts, round);
        self.conclude(unit, &judgement, &inquiry, &facts, at);
    }

    /// The cells of a subject since a round; `unasked` leaves out what was asked for beyond the plan.
    pub(super) fn cells_since(
        &self,
        own: &[Block],
        controls: &[Block],
        start: Round,
        unasked: bool,
    ) -> RoundCells {
        let mut cells = RoundCells::new();
        for block in own.iter().chain(controls) {
            let Some(ring) = self.blocks.get(block) else {
                continue;
            };
            if !unasked {
                ring.sum_into(start, &mut cells);
                continue;
            }
            for (round, all) in ring.since(start) {
                for (key, counts) in self.asking.unasked(block, round).unwrap_or(all) {
                    cells.entry(*key).or_default().add(counts);
                }
            }
        }
        cells
    }

    /// A window of a subject's cells as a case to judge.
    pub(super) fn case(&mut self, unit: &Unit, start: Round, cells: RoundCells, facts: &[PriorFact]) -> Case {
        let scene = self.scene(unit, &cells);
        let channels: BTreeSet<Channel> = cells.keys().map(|key| key.channel).collect();
        let kinds = unit.kinds(&scene, &channels);
        let mut case = Case::new(start, cells, scene, &self.world, &kinds, facts);
        if matches!(unit, Unit::Front(_)) {
            let others = self.others(unit, start);
            let Case {
                hypotheses,
                data,
                scene,
                ..
            } = &mut case;
            pool(hypotheses, data, scene, &others, &mut self.likelihood);
        }
        case
    }

    pub(super) fn failing_cells(
        &self,
        own: &[Block],
        controls: &[Block],
        floor: Round,
        unasked: bool,
    ) -> (BTreeSet<Round>, FailingCells) {
        let mut rounds = BTreeSet::new();
        let mut failing = FailingCells::new();
        for (i, block) in own.iter().chain(controls).enumerate() {
            let Some(ring) = self.blocks.get(block) else {
                continue;
            };
            for (round, all) in ring.since(floor) {
                let base = self.asking.unasked(block, round).filter(|_| unasked);
                let cells = base.unwrap_or(all);
                if i < own.len() {
                    rounds.insert(round);
                }
                let keys = cells.iter().filter(|(_, c)| c.f > 0).map(|(key, _)| *key);
                let mut keys = keys.peekable();
                if keys.peek().is_some() {
                    failing.entry(round).or_default().extend(keys);
                }
            }
        }
        (rounds, failing)
    }

    /// What the other fronts saw since a round.
    fn others(&mut self, unit: &Unit, start: Round) -> Vec<Other> {
        let mut units: Vec<(bool, Unit)> = self
            .blocks
            .iter()
            .filter_map(|(block, ring)| match block {
                Block::Vip(front) if Unit::Front(*front) != *unit => {
                    Some((!ring.fails_since(start), Unit::Front(*front)))
                }
                _ => None,
            })
            .collect();
        // Failing ones first: they have more to say.
        units.sort();
        let own = self.blocks_of(unit).0;
        let mut others = Vec::new();
        for (_, other) in units.into_iter().take(POOLED) {
            let mut cells = RoundCells::new();
            for block in self.blocks_of(&other).0.iter().filter(|b| !own.contains(b)) {
                if let Some(ring) = self.blocks.get(block) {
                    ring.sum_into(start, &mut cells);
                }
            }
            let scene = self.scene(&other, &cells);
            let channels = cells.keys().map(|key| key.channel).collect();
            let front = self.front_of_unit(&other);
            let facts = facts(
                &self.topology,
                front.as_ref(),
                &self.world,
                self.rules.foreign_proxy,
            );
            let data =
                crate::data::Data::new(&cells, &scene, |kind, status| self.world.class_of(kind, status));
            others.push(Other {
                hypotheses: hypotheses(&other.kinds(&scene, &channels), &scene, &data, &facts),
                data,
                scene,
            });
        }
        others
    }
}
