//! Writes the state that outlives the process to a [`Checkpoint`] and restores it.
//!
//! A restored engine starts in the middle of events. The probers resend what they observed before, and the engine
//! judges it in retrospect. Rounds that the checkpoint covers are not judged again. A fault in a later round that
//! ended before the start is reported only if something fails after it.

use parallax_model::{EventTime, Micros, Round};

use super::Engine;
use crate::{
    checkpoint::{Checkpoint, FormerAddress, TargetMemory, VERSION},
    evidence::block::{CellBlock, EvidenceKind},
    incident::RestoredIncident,
    topology::Service,
};

/// How long DNS caches may still return a former address.
const FORMER: Micros = Micros::from_secs(600);
/// How long entries that the topology does not contain are kept: parts of the topology may be read later.
const PATIENCE: Micros = Micros::from_secs(3600);

/// Where the engine continued from another process's checkpoint.
#[derive(Debug)]
pub(super) struct ResumePoint {
    at: EventTime,
    /// The last round that had been judged by then.
    judged: Option<Round>,
    /// The part of the checkpoint that the topology does not contain yet.
    left: Checkpoint,
}

impl Engine {
    /// Restores the state of another process at `now`. Must be called before the first observation.
    pub fn restore(&mut self, checkpoint: &Checkpoint, now: EventTime) {
        let judged = checkpoint.judged.map(|judged| {
            let end = judged.min(now);
            Round(end.round(self.settings.interval).0 - 1)
        });
        let restored = RestoredIncident {
            judged: judged.unwrap_or_else(|| now.round(self.settings.interval)),
            at: now,
        };
        let incidents = &checkpoint.incidents;
        self.incidents.restore(incidents, restored, &mut self.world);
        let left = Checkpoint {
            incidents: Vec::new(),
            ..checkpoint.clone()
        };
        self.resumed = Some(ResumePoint {
            at: now,
            judged,
            left,
        });
        self.recall(now);
    }

    /// Reports whether a round was judged before the checkpoint was written.
    pub(super) fn was_judged(&self, round: Round) -> bool {
        let resumed = self.resumed.as_ref();
        resumed
            .and_then(|resumed| resumed.judged)
            .is_some_and(|judged| round <= judged)
    }

    /// Reports whether a round ended before this process started.
    pub(super) fn is_past(&self, round: Round) -> bool {
        let resumed = self.resumed.as_ref();
        resumed.is_some_and(|resumed| round.end(self.settings.interval) <= resumed.at)
    }

    /// Restores the remembered state of everything that the topology contains.
    pub(super) fn recall(&mut self, at: EventTime) {
        let Some(resumed) = &mut self.resumed else { return };
        let left = &mut resumed.left;
        let (topology, world, routes) = (&self.cluster.topology, &self.world, &self.cluster.routes);
        left.targets.retain(|target, memory| {
            if !topology.targets().contains_key(target) {
                return true;
            }
            if memory.worked {
                self.matrix.remember(target.clone());
            }
            if let Some(baseline) = memory.baseline.take() {
                self.experience
                    .answers
                    .baselines
                    .entry(target.clone())
                    .or_insert(baseline);
            }
            if let Some(rollout) = memory.rolled_out {
                self.experience
                    .answers
                    .rollouts
                    .entry(target.clone())
                    .or_insert(rollout);
            }
            if let Some(changed) = memory.changed.take() {
                self.experience
                    .answers
                    .changed
                    .entry(target.clone())
                    .or_insert(changed);
            }
            false
        });
        // The topology does not contain addresses outside the cluster.
        let fronts = left
            .fronts
            .iter()
            .map(|front| CellBlock::plain(EvidenceKind::Vip(*front)));
        self.experience.worked.extend(fronts);
        left.endpoints.retain(|(service, port)| {
            let number = world
                .services
                .get(service)
                .filter(|_| topology.service(service).is_some());
            let of = number.map(|service| EvidenceKind::Direct(service, *port));
            self.experience.worked.extend(of.map(CellBlock::plain));
            of.is_none()
        });
        left.names.retain(
            |name| match world.names.get(name).filter(|name| routes.asks(*name)) {
                Some(name) => {
                    self.experience.resolved.insert(name);
                    self.experience.negative_until.remove(&name);
                    self.experience.worked.insert(CellBlock::plain(EvidenceKind::Dns));
                    false
                }
                None => true,
            },
        );
        left.nodes.retain(|node| {
            match world
                .nodes
                .get(node)
                .filter(|_| topology.nodes().contains_key(node))
            {
                Some(node) => {
                    self.experience.answered.insert(node);
                    self.experience
                        .worked
                        .insert(CellBlock::plain(EvidenceKind::Mesh));
                    false
                }
                None => true,
            }
        });
        if !topology.nodes().is_empty() {
            for (address, FormerAddress { service, until }) in std::mem::take(&mut left.former) {
                self.findings.remember_former(address, service, until);
            }
        }
        if at - resumed.at > PATIENCE {
            resumed.left = Checkpoint::default();
        }
        self.cluster.routes.excuse(self.experience.negative_until.clone());
        self.cluster.routes.forget(self.findings.former_addresses());
    }

    /// Returns the state that must outlive the process, as of `now`.
    #[must_use]
    pub fn checkpoint(&self, now: EventTime) -> Checkpoint {
        let (topology, world) = (&self.cluster.topology, &self.world);
        let mut checkpoint = self
            .resumed
            .as_ref()
            .map(|resumed| resumed.left.clone())
            .unwrap_or_default();
        checkpoint.version = VERSION;
        checkpoint.judged = self
            .evidence
            .rounds
            .judged()
            .map(|round| round.end(self.settings.interval));
        for target in topology.targets().keys() {
            let memory = TargetMemory {
                worked: self.matrix.ever_ok(target, world),
                baseline: self.experience.answers.baselines.get(target).cloned(),
                rolled_out: self.experience.answers.rollouts.get(target).copied(),
                changed: self.experience.answers.changed.get(target).cloned(),
            };
            if memory != TargetMemory::default() {
                checkpoint.targets.insert(target.clone(), memory);
            }
        }
        for block in self.experience.worked.iter().filter(|block| !block.slow) {
            match block.of {
                // Addresses outside the cluster are kept while a target's name leads to them.
                EvidenceKind::Vip(front) => {
                    let visited = || self.matrix.targets_of(&front, world).next().is_some();
                    if topology.service_of(&front).is_some() || visited() {
                        checkpoint.fronts.insert(front);
                    }
                }
                EvidenceKind::Direct(service, port) => {
                    let service = world.services.name(service);
                    if topology.service(service).is_some_and(Service::is_headless) {
                        checkpoint.endpoints.insert((service.clone(), port));
                    }
                }
                EvidenceKind::Dns | EvidenceKind::Mesh | EvidenceKind::Target(_) => {}
            }
        }
        let names = self
            .experience
            .resolved
            .iter()
            .filter(|name| self.cluster.routes.asks(**name));
        checkpoint
            .names
            .extend(names.map(|name| world.names.name(*name).clone()));
        let nodes = self
            .experience
            .answered
            .iter()
            .map(|node| world.nodes.name(*node));
        checkpoint
            .nodes
            .extend(nodes.filter(|node| topology.nodes().contains_key(*node)).cloned());
        for (address, (service, until)) in self.findings.former_since(now.minus(FORMER)) {
            let former = FormerAddress {
                service: service.clone(),
                until,
            };
            checkpoint.former.insert(address, former);
        }
        let listed = self.incidents.list(|_, _| None);
        checkpoint.incidents = self.incidents.remembered(&listed, topology, world);
        checkpoint
    }
}
