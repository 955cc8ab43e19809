//! Another topology while the engine runs: what it touches starts over, what is gone is forgotten, the rest goes on.

use std::sync::Arc;

use parallax_model::{EventTime, Front};

use super::{Engine, is_known};
use crate::{
    evidence::block::{Block, Of},
    inference::unit::Unit,
    topology::Topology,
};

impl Engine {
    /// Endpoints, nodes or targets changed at `at`. Only the cells they touch start over, with the probes that start
    /// from then on.
    pub fn replace_topology(&mut self, topology: Arc<Topology>, at: EventTime) {
        let leading = self.leading();
        let old = std::mem::replace(&mut self.topology, topology);
        self.known = self.topology.vantages().into_iter().collect();
        self.learn_names();
        self.settings.timeout = self.longest_timeout(self.settings.timeout);
        self.rounds.wait_for(self.settings.timeout);
        let touched: Vec<Of> = self
            .blocks
            .keys()
            .filter(|block| !block.slow && self.leads_elsewhere(&old, block.of))
            .map(|block| block.of)
            .collect();
        for of in touched {
            self.restart(of, at);
        }
        // A block without cells yet may have observations of before the change waiting in an open round.
        let hosts = self
            .topology
            .host_fronts()
            .map(|(address, _)| Front::tcp(*address));
        let fronts: Vec<Front> = self.topology.fronts().keys().copied().chain(hosts).collect();
        for front in fronts {
            let of = Of::Vip(front);
            if !self.blocks.contains_key(&Block::plain(of)) && self.leads_elsewhere(&old, of) {
                self.start_over(of, at);
            }
        }
        let topology = Arc::clone(&self.topology);
        let gone = |unit: &Unit| match unit.plain() {
            Unit::Target(target) => !topology.targets().contains_key(target),
            Unit::Front(front) => old.front(front).is_some() && topology.front(front).is_none(),
            Unit::Endpoints(service, _) => topology.service(service).is_none_or(|now| !now.headless),
            Unit::Dns | Unit::Mesh | Unit::Whole(_) | Unit::Slow(_) => false,
        };
        self.units.retain(|unit, _| !gone(unit));
        self.investigating.retain(|unit, _| !gone(unit));
        self.leanings.retain(|unit, _| !gone(unit));
        let world = &self.world;
        let kept = |of: Of| match of {
            Of::Target(target) => topology.targets().contains_key(world.targets.name(target)),
            Of::Vip(front) => !gone(&Unit::Front(front)),
            Of::Direct(service, _) => topology.service(world.services.name(service)).is_some(),
            Of::Dns | Of::Mesh => true,
        };
        self.blocks.retain(|block, _| kept(block.of));
        self.folds.values_mut().for_each(|fold| fold.retain(kept));
        self.pace.retain(kept);
        self.findings.replace_topology(&old, &topology, at);
        self.former.replace_topology(&old, &topology, at);
        self.routes.forget(self.findings.former_addresses());
        self.note_new_names(&leading, at);
        self.note_rollouts(&old, at);
        self.recall(at);
        let known = &self.known;
        self.ttl
            .retain(|(_, vantage), _| is_known(known, &topology, vantage));
        self.note_orphans(&old, at);
        self.mark_departed(&old);
        self.show(&old);
        self.look_ahead(at, true);
    }

    /// Takes over into the matrix what became of a topology.
    pub(super) fn show(&mut self, old: &Topology) {
        let (known, topology, world) = (&self.known, &self.topology, &self.world);
        let topologies = (old, &**topology, &self.former);
        self.matrix.replace_topology(topologies, world, |vantage| {
            is_known(known, topology, world.vantages.name(vantage))
        });
    }

    pub(super) fn restart(&mut self, of: Of, at: EventTime) {
        for block in [Block::plain(of), Block::slow(of)] {
            if let Some(ring) = self.blocks.get_mut(&block) {
                ring.clear();
            }
            self.asking.clear(&block);
            for unit in self.units_of(&block) {
                if let Some(state) = self.units.get_mut(&unit) {
                    state.streams.clear();
                    state.healed.clear();
                    state.floor = Some(at.round(self.settings.interval));
                }
            }
        }
        self.start_over(of, at);
    }

    pub(super) fn start_over(&mut self, of: Of, at: EventTime) {
        self.restarted.insert(of, at);
        self.folds.values_mut().for_each(|fold| fold.restart(of));
    }
}
