//! A new topology while the engine runs: restarts the affected cells, forgets removed objects and keeps the rest.

use std::sync::Arc;

use parallax_model::{EventTime, Front};

use super::{Engine, is_known};
use crate::{
    evidence::block::{CellBlock, EvidenceKind},
    inference::judgement_unit::JudgementUnit,
    topology::Topology,
};

impl Engine {
    /// Replaces the topology at `at`. Only the affected cells restart, with probes that start from then on.
    pub fn replace_topology(&mut self, topology: Arc<Topology>, at: EventTime) {
        let leading = self.names_with_destination();
        let old = std::mem::replace(&mut self.cluster.topology, topology);
        self.cluster.known_vantages = self.cluster.topology.vantages().into_iter().collect();
        self.intern_names();
        self.settings.timeout = self.longest_timeout(self.settings.timeout);
        self.evidence.rounds.set_timeout(self.settings.timeout);
        let touched: Vec<EvidenceKind> = self
            .evidence
            .blocks
            .keys()
            .filter(|block| !block.slow && self.destination_changed(&old, block.kind))
            .map(|block| block.kind)
            .collect();
        for of in touched {
            self.restart_blocks(of, at);
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
            if !self.evidence.blocks.contains_key(&CellBlock::failures(of))
                && self.destination_changed(&old, of)
            {
                self.restart_evidence(of, at);
            }
        }
        let topology = Arc::clone(&self.cluster.topology);
        let gone = |unit: &JudgementUnit| match unit.without_latency() {
            JudgementUnit::Target(target) => !topology.targets().contains_key(target),
            JudgementUnit::Front(front) => old.front(front).is_some() && topology.front(front).is_none(),
            JudgementUnit::Endpoints(service, _) => topology.service(service).is_none_or(|now| !now.headless),
            JudgementUnit::Dns
            | JudgementUnit::Mesh
            | JudgementUnit::SingleTarget(_)
            | JudgementUnit::Latency(_) => false,
        };
        self.judgement.units.retain(|unit, _| !gone(unit));
        self.judgement.investigating.retain(|unit, _| !gone(unit));
        self.judgement.tentative_causes.retain(|unit, _| !gone(unit));
        let world = &self.registry;
        let kept = |of: EvidenceKind| match of {
            EvidenceKind::Target(target) => topology.targets().contains_key(world.targets.name(target)),
            EvidenceKind::Vip(front) => !gone(&JudgementUnit::Front(front)),
            EvidenceKind::Direct(service, _) => topology.service(world.services.name(service)).is_some(),
            EvidenceKind::Dns | EvidenceKind::Mesh => true,
        };
        self.evidence.blocks.retain(|block, _| kept(block.kind));
        self.evidence
            .folds
            .values_mut()
            .for_each(|fold| fold.retain(kept));
        self.evidence.latency.retain(kept);
        self.findings.replace_topology(&old, &topology, at);
        self.cluster.former_pods.replace_topology(&old, &topology, at);
        self.cluster.routes.set_former(self.findings.former_addresses());
        self.record_new_names(&leading, at);
        self.record_rollouts(&old, at);
        self.restore_matching(at);
        let known = &self.cluster.known_vantages;
        self.evidence
            .ttl
            .retain(|(_, vantage), _| is_known(known, &topology, vantage));
        self.record_orphans(&old, at);
        self.mark_departed(&old);
        self.update_matrix(&old);
        self.update_hazards(at, true);
    }

    /// Updates the matrix for the current topology.
    pub(super) fn update_matrix(&mut self, old: &Topology) {
        let (known, topology, world) = (
            &self.cluster.known_vantages,
            &self.cluster.topology,
            &self.registry,
        );
        let topologies = (old, &**topology, &self.cluster.former_pods);
        self.matrix.replace_topology(topologies, world, |vantage| {
            is_known(known, topology, world.vantages.name(vantage))
        });
    }

    pub(super) fn restart_blocks(&mut self, of: EvidenceKind, at: EventTime) {
        for block in [CellBlock::failures(of), CellBlock::slowness(of)] {
            if let Some(ring) = self.evidence.blocks.get_mut(&block) {
                ring.clear();
            }
            self.outstanding_requests.reset_block(&block);
            for unit in self.units_of(&block) {
                if let Some(state) = self.judgement.units.get_mut(&unit) {
                    state.detectors.clear();
                    state.healthy_rounds.clear();
                    state.evidence_floor = Some(at.round(self.settings.interval));
                }
            }
        }
        self.restart_evidence(of, at);
    }

    pub(super) fn restart_evidence(&mut self, of: EvidenceKind, at: EventTime) {
        self.evidence.restart_times.insert(of, at);
        self.evidence.folds.values_mut().for_each(|fold| fold.restart(of));
    }
}
