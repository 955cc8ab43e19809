//! Which subjects a block of cells is evidence of, which blocks a subject is judged on, and which paths they stand for.

use parallax_model::Front;

use super::Engine;
use crate::{
    evidence::{
        block::{Block, Of},
        ledger::Split,
        routes::default_front,
    },
    inference::unit::Unit,
    topology::{Endpoint, FrontInfo, FrontKind, Service, Topology, TrafficPolicy},
};

impl Engine {
    /// The subjects that a block is evidence of.
    pub(super) fn units_of(&self, block: &Block) -> Vec<Unit> {
        if self.rules.split == Split::Whole {
            // Names asked as a control are targets too, without an entry.
            let targets = self.cluster.topology.targets().iter();
            let main = targets
                .filter(|(_, placed)| placed.entry.is_some())
                .map(|(id, _)| id);
            return main.take(1).cloned().map(Unit::Whole).collect();
        }
        let units: Vec<Unit> = match block.of {
            Of::Dns => vec![Unit::Dns],
            Of::Mesh => vec![Unit::Mesh],
            Of::Vip(front) => vec![Unit::Front(front)],
            Of::Target(target) => vec![Unit::Target(self.world.targets.name(target).clone())],
            Of::Direct(service, port) => {
                let entry = (self.world.services.name(service).clone(), port);
                match self.cluster.topology.fronts_to(&entry) {
                    [] => vec![Unit::Endpoints(entry.0, entry.1)],
                    fronts => fronts.iter().map(|front| Unit::Front(*front)).collect(),
                }
            }
        };
        if block.slow {
            units.into_iter().map(Unit::slow).collect()
        } else {
            units
        }
    }

    /// A subject's own blocks, and those that serve it as controls.
    pub(super) fn blocks_of(&self, unit: &Unit) -> (Vec<Block>, Vec<Block>) {
        let (own, controls) = match unit {
            Unit::Whole(_) => return (self.evidence.blocks.keys().copied().collect(), Vec::new()),
            Unit::Slow(inner) => {
                let slow = |blocks: Vec<Block>| blocks.into_iter().map(|b| Block::slow(b.of)).collect();
                let (own, controls) = self.blocks_of(inner);
                return (slow(own), slow(controls));
            }
            Unit::Dns => (vec![Of::Dns], vec![Of::Mesh]),
            Unit::Mesh => (vec![Of::Mesh], Vec::new()),
            Unit::Target(target) => {
                let target = self.world.targets.get(target);
                (target.map(Of::Target).into_iter().collect(), Vec::new())
            }
            Unit::Endpoints(service, port) => {
                let service = self.world.services.get(service);
                let own = service.map(|service| Of::Direct(service, *port));
                (own.into_iter().collect(), vec![Of::Mesh])
            }
            Unit::Front(front) => {
                let mut own = vec![Of::Vip(*front)];
                let mut controls = vec![Of::Mesh];
                let info = self.cluster.topology.front(front);
                if let Some(direct) = info.and_then(|info| self.direct_of(info)) {
                    // Endpoints that never answered directly while the front works are forbidden to us, not broken.
                    let may = self.experience.worked.contains(&direct)
                        || !self.experience.worked.contains(&Block::plain(own[0]));
                    match info.map(|info| info.kind) {
                        // The pod listens at the front itself, and the others of its Service at fronts of their own.
                        Some(FrontKind::Host) => {}
                        // Which endpoint is broken is the affair of the fronts that are listed.
                        Some(FrontKind::NodePort) if may => controls.push(direct.of),
                        _ if may => own.push(direct.of),
                        _ => {}
                    }
                }
                (own, controls)
            }
        };
        let plain = |of: Vec<Of>| of.into_iter().map(Block::plain).collect();
        (plain(own), plain(controls))
    }

    /// Connections to the endpoints behind a front.
    pub(super) fn direct_of(&self, info: &FrontInfo) -> Option<Block> {
        let service = self.world.services.get(&info.service)?;
        Some(Block::plain(Of::Direct(service, info.target_port)))
    }

    /// The front whose paths a subject's probes take.
    pub(super) fn front_of_unit(&self, unit: &Unit) -> Option<Front> {
        match unit {
            Unit::Front(front) => Some(*front),
            Unit::Target(target) | Unit::Whole(target) => default_front(&self.cluster.topology, target),
            Unit::Slow(inner) => self.front_of_unit(inner),
            Unit::Endpoints(..) | Unit::Dns | Unit::Mesh => None,
        }
    }

    /// The Service whose endpoints a subject's probes reach.
    pub(super) fn service_of_unit(&self, unit: &Unit) -> Option<&Service> {
        if let Some(front) = self.front_of_unit(unit) {
            return self.cluster.topology.service_of(&front);
        }
        let key = match unit.plain() {
            Unit::Endpoints(service, _) => service,
            Unit::Target(target) => &self.cluster.topology.targets().get(target)?.entry.as_ref()?.0,
            _ => return None,
        };
        self.cluster.topology.service(key)
    }

    /// Whether a topology sends probes elsewhere than another did: what they find is another matter then.
    pub(super) fn leads_elsewhere(&self, old: &Topology, of: Of) -> bool {
        let paths = |topology: &Topology| {
            let service = match of {
                Of::Dns | Of::Mesh => None,
                Of::Vip(front) => {
                    let service = topology.service_of(&front)?;
                    // What happens on other nodes is no change of where a node's own address leads.
                    return Some(match topology.machine(&front) {
                        Some(_) => paths_of(topology.entries(&front), service),
                        None => paths_of(service.usable(), service),
                    });
                }
                Of::Direct(service, _) => topology.service(self.world.services.name(service)),
                Of::Target(target) => {
                    let placed = topology.targets().get(self.world.targets.name(target));
                    let entry = placed.and_then(|placed| placed.entry.as_ref());
                    entry.and_then(|(service, _)| topology.service(service))
                }
            };
            service.map(|service| paths_of(service.usable(), service))
        };
        paths(old) != paths(&self.cluster.topology)
    }
}

/// Everything of a Service that decides where its probes end up; a change of it starts its cells over.
fn paths_of(entries: Vec<&Endpoint>, service: &Service) -> (Vec<Endpoint>, TrafficPolicy, TrafficPolicy) {
    (
        entries.into_iter().cloned().collect(),
        service.external_traffic_policy,
        service.internal_traffic_policy,
    )
}
