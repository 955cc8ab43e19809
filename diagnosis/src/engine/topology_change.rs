//! A new topology while the engine runs: restarts the affected cells, forgets removed objects and keeps the rest.

use std::sync::Arc;

use parallax_model::{EventTime, Front};

use super::{Engine, is_known};
use crate::{
    evidence::block::{CellBlock, EvidenceKind},
    inference::unit::JudgementUnit,
    topology::Topology,
};

impl Engine {
    /// Replaces the topology at `at`. Only the affected cells restart, with probes that start from then on.
    pub fn replace_topology(&mut self, topology: Arc<Topology>, at: EventTime) {
        let leading = self.leading();
        let old = std::mem::replace(&mut self.cluster.topology, topology);
        self.cluster.known = self.cluster.topology.vantages().into_iter().collect();
        self.learn_names();
        self.settings.timeout = self.longest_timeout(self.settings.timeout);
        self.evidence.rounds.wait_for(self.settings.timeout);
        let touched: Vec<EvidenceKind> = self
            .evidence
            .blocks
            .keys()
            .filter(|block| !block.slow && self.leads_elsewhere(&old, block.of))
            .map(|block| block.of)
            .collect();
        for of in touched {
            self.restart(of, at);
        }
        // A block without cells yet may have earlier observations waiting in an open round.
        let hosts = self
            .cluster
            .topology
            .host_fronts()
            .map(|(address, _)| Front::tcp(*address));
        let fronts: Vec<Front> = self
            .cluster
            .topology
            .fronts()
            .keys()
            .copied()
            .chain(hosts)
            .collect();
        for front in fronts {
            let of = EvidenceKind::Vip(front);
            if !self.evidence.blocks.contains_key(&CellBlock::plain(of)) && self.leads_elsewhere(&old, of) {
                self.start_over(of, at);
            }
        }
        let topology = Arc::clone(&self.cluster.topology);
        let gone = |unit: &JudgementUnit| match unit.plain() {
            JudgementUnit::Target(target) => !topology.targets().contains_key(target),
            JudgementUnit::Front(front) => old.front(front).is_some() && topology.front(front).is_none(),
            JudgementUnit::Endpoints(service, _) => topology.service(service).is_none_or(|now| !now.headless),
            JudgementUnit::Dns | JudgementUnit::Mesh | JudgementUnit::Whole(_) | JudgementUnit::Slow(_) => {
                false
            }
        };
        self.judgement.units.retain(|unit, _| !gone(unit));
        self.judgement.investigating.retain(|unit, _| !gone(unit));
        self.judgement.leanings.retain(|unit, _| !gone(unit));
        let world = &self.world;
        let kept = |of: EvidenceKind| match of {
            EvidenceKind::Target(target) => topology.targets().contains_key(world.targets.name(target)),
            EvidenceKind::Vip(front) => !gone(&JudgementUnit::Front(front)),
            EvidenceKind::Direct(service, _) => topology.service(world.services.name(service)).is_some(),
            EvidenceKind::Dns | EvidenceKind::Mesh => true,
        };
        self.evidence.blocks.retain(|block, _| kept(block.of));
        self.evidence
            .folds
            .values_mut()
            .for_each(|fold| fold.retain(kept));
        self.evidence.pace.retain(kept);
        self.findings.replace_topology(&old, &topology, at);
        self.cluster.former.replace_topology(&old, &topology, at);
        self.cluster.routes.forget(self.findings.former_addresses());
        self.note_new_names(&leading, at);
        self.note_rollouts(&old, at);
        self.recall(at);
        let known = &self.cluster.known;
        self.evidence
            .ttl
            .retain(|(_, vantage), _| is_known(known, &topology, vantage));
        self.note_orphans(&old, at);
        self.mark_departed(&old);
        self.show(&old);
        self.look_ahead(at, true);
    }

    /// Updates the matrix for the current topology.
    pub(super) fn show(&mut self, old: &Topology) {
        let (known, topology, world) = (&self.cluster.known, &self.cluster.topology, &self.world);
        let topologies = (old, &**topology, &self.cluster.former);
        self.matrix.replace_topology(topologies, world, |vantage| {
            is_known(known, topology, world.vantages.name(vantage))
        });
    }

    pub(super) fn restart(&mut self, of: EvidenceKind, at: EventTime) {
        for block in [CellBlock::plain(of), CellBlock::slow(of)] {
            if let Some(ring) = self.evidence.blocks.get_mut(&block) {
                ring.clear();
            }
            self.asking.clear(&block);
            for unit in self.units_of(&block) {
                if let Some(state) = self.judgement.units.get_mut(&unit) {
                    state.streams.clear();
                    state.healed.clear();
                    state.floor = Some(at.round(self.settings.interval));
                }
            }
        }
        self.start_over(of, at);
    }

    pub(super) fn start_over(&mut self, of: EvidenceKind, at: EventTime) {
        self.evidence.restarted.insert(of, at);
        self.evidence.folds.values_mut().for_each(|fold| fold.restart(of));
    }
}
