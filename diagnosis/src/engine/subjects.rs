//! Maps blocks of cells to subjects, subjects to the blocks they are judged on, and subjects to their fronts and
//! Services.

use std::collections::BTreeSet;

use parallax_model::{Front, PodName, ServiceKey, TargetId};

use super::Engine;
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        ledger::OutcomeSplit,
        routes::default_front,
    },
    inference::judgement_unit::JudgementUnit,
    topology::{Endpoint, FrontInfo, FrontKind, Service, Topology, TrafficPolicy},
};

impl Engine {
    /// Returns the subjects that a block is evidence about.
    pub(super) fn units_of(&self, block: &CellBlock) -> Vec<JudgementUnit> {
        if self.rules.outcome_split == OutcomeSplit::PerChannel {
            // Names that are resolved as a control are targets too, without an entry.
            let targets = self.cluster.topology.targets().iter();
            let main = targets
                .filter(|(_, placed)| placed.entry.is_some())
                .map(|(id, _)| id);
            return main.take(1).cloned().map(JudgementUnit::SingleTarget).collect();
        }
        let units: Vec<JudgementUnit> = match block.kind {
            EvidenceKind::Dns => vec![JudgementUnit::Dns],
            EvidenceKind::Mesh => vec![JudgementUnit::Mesh],
            EvidenceKind::Vip(front) => vec![JudgementUnit::Front(front)],
            EvidenceKind::Target(target) => {
                vec![JudgementUnit::Target(self.registry.targets.name(target).clone())]
            }
            EvidenceKind::Direct(service, port) => {
                let entry = (self.registry.services.name(service).clone(), port);
                match self.cluster.topology.fronts_to(&entry) {
                    [] => vec![JudgementUnit::Endpoints(entry.0, entry.1)],
                    fronts => fronts.iter().map(|front| JudgementUnit::Front(*front)).collect(),
                }
            }
        };
        if block.slow {
            units.into_iter().map(JudgementUnit::into_latency).collect()
        } else {
            units
        }
    }

    /// Returns a subject's own blocks, and the blocks that serve as its controls.
    pub(super) fn blocks_of(&self, unit: &JudgementUnit) -> (Vec<CellBlock>, Vec<CellBlock>) {
        let (own, controls) = match unit {
            JudgementUnit::SingleTarget(_) => {
                return (self.evidence.blocks.keys().copied().collect(), Vec::new());
            }
            JudgementUnit::Latency(inner) => {
                let slow = |blocks: Vec<CellBlock>| {
                    blocks.into_iter().map(|b| CellBlock::slowness(b.kind)).collect()
                };
                let (own, controls) = self.blocks_of(inner);
                return (slow(own), slow(controls));
            }
            JudgementUnit::Dns => (vec![EvidenceKind::Dns], vec![EvidenceKind::Mesh]),
            JudgementUnit::Mesh => (vec![EvidenceKind::Mesh], Vec::new()),
            JudgementUnit::Target(target) => {
                let target = self.registry.targets.get(target);
                (target.map(EvidenceKind::Target).into_iter().collect(), Vec::new())
            }
            JudgementUnit::Endpoints(service, port) => {
                let service = self.registry.services.get(service);
                let own = service.map(|service| EvidenceKind::Direct(service, *port));
                (own.into_iter().collect(), vec![EvidenceKind::Mesh])
            }
            JudgementUnit::Front(front) => {
                let mut own = vec![EvidenceKind::Vip(*front)];
                let mut controls = vec![EvidenceKind::Mesh];
                let info = self.cluster.topology.front(front);
                if let Some(direct) = info.and_then(|info| self.direct_block(info)) {
                    // If endpoints never accepted a direct connection while the front works, direct access is
                    // forbidden, not broken.
                    let may = self.history.worked_blocks.contains(&direct)
                        || !self.history.worked_blocks.contains(&CellBlock::failures(own[0]));
                    match info.map(|info| info.kind) {
                        // The Pod listens at the front itself, and the other Pods of its Service at fronts of their
                        // own.
                        Some(FrontKind::Host) => {}
                        // Broken endpoints are judged at the published fronts of the Service, not at each node port.
                        Some(FrontKind::NodePort) if may => controls.push(direct.kind),
                        _ if may => own.push(direct.kind),
                        _ => {}
                    }
                }
                (own, controls)
            }
        };
        let plain = |of: Vec<EvidenceKind>| of.into_iter().map(CellBlock::failures).collect();
        (plain(own), plain(controls))
    }

    /// Returns the block of direct connections to the endpoints behind a front.
    pub(super) fn direct_block(&self, info: &FrontInfo) -> Option<CellBlock> {
        let service = self.registry.services.get(&info.service)?;
        Some(CellBlock::failures(EvidenceKind::Direct(
            service,
            info.target_port,
        )))
    }

    /// Returns the front on the paths of a subject's probes.
    pub(super) fn front_of_unit(&self, unit: &JudgementUnit) -> Option<Front> {
        match unit {
            JudgementUnit::Front(front) => Some(*front),
            JudgementUnit::Target(target) | JudgementUnit::SingleTarget(target) => {
                default_front(&self.cluster.topology, target)
            }
            JudgementUnit::Latency(inner) => self.front_of_unit(inner),
            JudgementUnit::Endpoints(..) | JudgementUnit::Dns | JudgementUnit::Mesh => None,
        }
    }

    /// Returns the Service whose endpoints a subject's probes reach.
    pub(super) fn service_of_unit(&self, unit: &JudgementUnit) -> Option<&Service> {
        if let Some(front) = self.front_of_unit(unit) {
            return self.cluster.topology.service_of(&front);
        }
        let key = match unit.without_latency() {
            JudgementUnit::Endpoints(service, _) => service,
            JudgementUnit::Target(target) => &self.cluster.topology.targets().get(target)?.entry.as_ref()?.0,
            _ => return None,
        };
        self.cluster.topology.service(key)
    }

    /// Returns the Service to which the entry of a host forwards its requests; for a front, the one to which it forwards those of
    /// every host.
    pub(super) fn origin_of_unit(&self, unit: &JudgementUnit) -> Option<&Service> {
        let origin = match unit.without_latency() {
            JudgementUnit::Target(target) => self.origin_of_host(target)?,
            JudgementUnit::Front(front) => {
                let mut origins = self.origins_of_front(front);
                let first = origins.next()??;
                origins.all(|other| other == Some(first)).then_some(first)?
            }
            _ => return None,
        };
        self.cluster.topology.service(origin)
    }

    fn origin_of_host(&self, host: &TargetId) -> Option<&ServiceKey> {
        self.cluster.topology.targets().get(host)?.origin.as_ref()
    }

    /// Returns the origin of each host of a front, if known.
    pub(super) fn origins_of_front(&self, front: &Front) -> impl Iterator<Item = Option<&ServiceKey>> {
        let topology = &self.cluster.topology;
        let entry = topology
            .front(front)
            .map(|info| (info.service.clone(), info.target_port));
        let of_entry = entry.and_then(|entry| self.cluster.hosts.get(&entry));
        // The entry itself answers at its other addresses, for names that it does not serve.
        let own = of_entry
            .into_iter()
            .flatten()
            .filter(|host| default_front(topology, host) == Some(*front));
        own.map(|host| self.origin_of_host(host))
    }

    /// Reports whether the current topology sends probes to other destinations than the old one, which makes earlier
    /// results incomparable.
    pub(super) fn destination_changed(&self, old: &Topology, of: EvidenceKind) -> bool {
        if of == EvidenceKind::Dns {
            return self.resolver_pods_left(old);
        }
        let paths = |topology: &Topology| {
            let service = match of {
                EvidenceKind::Dns | EvidenceKind::Mesh => None,
                EvidenceKind::Vip(front) => {
                    let service = topology.service_of(&front)?;
                    // Changes on other nodes do not affect the destination of a node's own address.
                    return Some(match topology.node_serving(&front) {
                        Some(_) => destination_of(topology.entries(&front), service),
                        None => destination_of(service.usable(), service),
                    });
                }
                EvidenceKind::Direct(service, _) => topology.service(self.registry.services.name(service)),
                EvidenceKind::Target(target) => {
                    let placed = topology.targets().get(self.registry.targets.name(target));
                    let entry = placed.and_then(|placed| placed.entry.as_ref());
                    entry.and_then(|(service, _)| topology.service(service))
                }
            };
            service.map(|service| destination_of(service.usable(), service))
        };
        paths(old) != paths(&self.cluster.topology)
    }

    /// Reports whether a resolver Pod left its Service. Which Pod answered a question is not observed, so that the questions it
    /// lost would be attributed to those that are left.
    fn resolver_pods_left(&self, old: &Topology) -> bool {
        let pods = |topology: &Topology| -> BTreeSet<PodName> {
            let service = self.evidence.resolvers.service_of_all(topology);
            let usable = service.map(Service::usable).unwrap_or_default();
            usable.into_iter().map(|endpoint| endpoint.pod.clone()).collect()
        };
        !pods(old).is_subset(&pods(&self.cluster.topology))
    }
}

/// Everything of a Service that decides where its probes end up; a change restarts its cells.
fn destination_of(
    entries: Vec<&Endpoint>,
    service: &Service,
) -> (Vec<Endpoint>, TrafficPolicy, TrafficPolicy) {
    (
        entries.into_iter().cloned().collect(),
        service.external_traffic_policy,
        service.internal_traffic_policy,
    )
}
