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
const FORMER_ADDRESS_RETENTION: Micros = Micros::from_secs(600);
/// How long entries that the topology does not contain are kept: parts of the topology may be read later.
const UNMATCHED_RETENTION: Micros = Micros::from_secs(3600);

/// Where the engine continued from another process's checkpoint.
#[derive(Debug)]
pub(super) struct ResumePoint {
    at: EventTime,
    /// The last round that had been judged by then.
    last_judged: Option<Round>,
    /// The part of the checkpoint that the topology does not contain yet.
    remaining: Checkpoint,
}

impl Engine {
    /// Restores the state of another process at `now`. Must be called before the first observation.
    pub fn restore(&mut self, checkpoint: &Checkpoint, now: EventTime) {
        let judged = checkpoint.judged_until.map(|judged| {
            let end = judged.min(now);
            Round(end.round(self.settings.interval).0 - 1)
        });
        let restored = RestoredIncident {
            judged: judged.unwrap_or_else(|| now.round(self.settings.interval)),
            at: now,
        };
        let incidents = &checkpoint.incidents;
        self.incidents.restore(incidents, restored, &mut self.registry);
        let left = Checkpoint {
            incidents: Vec::new(),
            ..checkpoint.clone()
        };
        self.resume_point = Some(ResumePoint {
            at: now,
            last_judged: judged,
            remaining: left,
        });
        self.restore_matching(now);
    }

    /// Reports whether a round was judged before the checkpoint was written.
    pub(super) fn was_judged(&self, round: Round) -> bool {
        let resumed = self.resume_point.as_ref();
        resumed
            .and_then(|resumed| resumed.last_judged)
            .is_some_and(|judged| round <= judged)
    }

    /// Reports whether a round ended before this process started.
    pub(super) fn ended_before_start(&self, round: Round) -> bool {
        let resumed = self.resume_point.as_ref();
        resumed.is_some_and(|resumed| round.end(self.settings.interval) <= resumed.at)
    }

    /// Restores the remembered state of everything that the topology contains.
    pub(super) fn restore_matching(&mut self, at: EventTime) {
        let Some(resumed) = &mut self.resume_point else {
            return;
        };
        let left = &mut resumed.remaining;
        let (topology, world, routes) = (&self.cluster.topology, &self.registry, &self.cluster.routes);
        left.targets.retain(|target, memory| {
            if !topology.targets().contains_key(target) {
                return true;
            }
            if memory.worked {
                self.matrix.mark_succeeded(target.clone());
            }
            if let Some(baseline) = memory.baseline.take() {
                self.history
                    .answers
                    .baselines
                    .entry(target.clone())
                    .or_insert(baseline);
            }
            if let Some(rollout) = memory.last_rollout {
                self.history
                    .answers
                    .rollouts
                    .entry(target.clone())
                    .or_insert(rollout);
            }
            if let Some(changed) = memory.answer_change.take() {
                self.history
                    .answers
                    .changes
                    .entry(target.clone())
                    .or_insert(changed);
            }
            false
        });
        // The topology does not contain addresses outside the cluster.
        let fronts = left
            .fronts
            .iter()
            .map(|front| CellBlock::failures(EvidenceKind::Vip(*front)));
        self.history.worked_blocks.extend(fronts);
        left.endpoints.retain(|(service, port)| {
            let number = world
                .services
                .get(service)
                .filter(|_| topology.service(service).is_some());
            let of = number.map(|service| EvidenceKind::Direct(service, *port));
            self.history.worked_blocks.extend(of.map(CellBlock::failures));
            of.is_none()
        });
        left.names.retain(
            |name| match world.names.get(name).filter(|name| routes.resolves(*name)) {
                Some(name) => {
                    self.history.resolved_names.insert(name);
                    self.history.negative_until.remove(&name);
                    self.history
                        .worked_blocks
                        .insert(CellBlock::failures(EvidenceKind::Dns));
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
                    self.history.answering_nodes.insert(node);
                    self.history
                        .worked_blocks
                        .insert(CellBlock::failures(EvidenceKind::Mesh));
                    false
                }
                None => true,
            }
        });
        if !topology.nodes().is_empty() {
            for (address, FormerAddress { service, until }) in std::mem::take(&mut left.former_addresses) {
                self.findings.remember_former(address, service, until);
            }
        }
        if at - resumed.at > UNMATCHED_RETENTION {
            resumed.remaining = Checkpoint::default();
        }
        self.cluster
            .routes
            .set_negative_until(self.history.negative_until.clone());
        self.cluster.routes.set_former(self.findings.former_addresses());
    }

    /// Returns the state that must outlive the process, as of `now`.
    #[must_use]
    pub fn checkpoint(&self, now: EventTime) -> Checkpoint {
        let (topology, world) = (&self.cluster.topology, &self.registry);
        let mut checkpoint = self
            .resume_point
            .as_ref()
            .map(|resumed| resumed.remaining.clone())
            .unwrap_or_default();
        checkpoint.version = VERSION;
        checkpoint.judged_until = self
            .evidence
            .rounds
            .last_judged()
            .map(|round| round.end(self.settings.interval));
        for target in topology.targets().keys() {
            let memory = TargetMemory {
                worked: self.matrix.ever_succeeded(target, world),
                baseline: self.history.answers.baselines.get(target).cloned(),
                last_rollout: self.history.answers.rollouts.get(target).copied(),
                answer_change: self.history.answers.changes.get(target).cloned(),
            };
            if memory != TargetMemory::default() {
                checkpoint.targets.insert(target.clone(), memory);
            }
        }
        for block in self.history.worked_blocks.iter().filter(|block| !block.slow) {
            match block.kind {
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
            .history
            .resolved_names
            .iter()
            .filter(|name| self.cluster.routes.resolves(**name));
        checkpoint
            .names
            .extend(names.map(|name| world.names.name(*name).clone()));
        let nodes = self
            .history
            .answering_nodes
            .iter()
            .map(|node| world.nodes.name(*node));
        checkpoint
            .nodes
            .extend(nodes.filter(|node| topology.nodes().contains_key(*node)).cloned());
        for (address, (service, until)) in self.findings.former_since(now.minus(FORMER_ADDRESS_RETENTION)) {
            let former = FormerAddress {
                service: service.clone(),
                until,
            };
            checkpoint.former_addresses.insert(address, former);
        }
        let listed = self.incidents.list(|_, _| None);
        checkpoint.incidents = self.incidents.remembered(&listed, topology, world);
        checkpoint
    }
}
