//! From topology to what each vantage should probe.
//!
//! Small clusters: every node probes every target. Larger ones: all nodes that host an entry and ⌈max(3, √N)⌉ others
//! per target (at most 22), chosen by consistent hashing so that one node more moves few assignments. The mesh is a union of
//! random rings, so each node has up to eight peers and each peer's view is mutual. Identifiability: every entry is
//! dialled directly by at least two clients, every placement that exists has at least three where there are three.

mod exposure;
mod on_demand;
mod requested;

pub use on_demand::{mesh, on_demand};
pub use requested::with_asks;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use parallax_model::{
    Assignment, AssignmentId, Channel, DialAddress, EntryRef, Micros, NodeName, PlanLine, PlanRevision,
    ProbeSpec, TargetId, Vantage,
};

use crate::topology::{PlacedTarget, Topology, rings::MESH};

pub(crate) use exposure::interval as exposure_interval;

/// What holds for all assignments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanConfig {
    /// Time between two probes of one assignment.
    pub interval: Micros,
    /// Deadline of one probe.
    pub timeout: Micros,
    /// The nonce that the mesh's echoes answer to.
    pub echo_nonce: String,
}

/// Everything one vantage should probe, sorted by id.
#[must_use]
pub fn assignments(topology: &Topology, config: &PlanConfig, vantage: &Vantage) -> Vec<Assignment> {
    let mut planner = Planner::new(topology, config, vantage);
    let index = topology.plan_index();
    let own = number(topology, vantage);
    for ((id, placed), sampled) in topology.targets().iter().zip(index.targets()) {
        if !own.map_or_else(|| may_ask(vantage, placed), |own| index.asks(sampled, own)) {
            continue;
        }
        planner.forbidden(placed);
        if !placed.target.answers(vantage) {
            continue;
        }
        planner.approach(id, placed);
        if sampled.direct && vantage.node().is_some() {
            planner.direct(id, placed, |endpoints| {
                sampled.dials(own, &vantage.to_string(), endpoints)
            });
        }
    }
    planner.mesh();
    planner.exposures();
    planner.out.into_values().collect()
}

/// Each target with the vantages that are to ask for it as a user would.
pub(crate) fn clients(topology: &Topology) -> impl Iterator<Item = (&TargetId, Vec<Vantage>)> {
    let index = topology.plan_index();
    let (on_probers, elsewhere): (Vec<&Vantage>, Vec<&Vantage>) = topology
        .extra_vantages()
        .iter()
        .partition(|vantage| number(topology, vantage).is_some());
    let targets = topology.targets().iter().zip(index.targets());
    targets.map(move |((id, placed), sampled)| {
        let probers = index.asking(sampled).into_iter();
        let mut clients: Vec<Vantage> = probers
            .map(|number| Vantage::pod(index.rings().probers()[number].clone()))
            .collect();
        let also = on_probers
            .iter()
            .filter(|vantage| number(topology, vantage).is_some_and(|own| index.asks(sampled, own)));
        clients.extend(also.copied().cloned());
        let others = elsewhere.iter().filter(|vantage| may_ask(vantage, placed));
        clients.extend(others.copied().cloned());
        clients.retain(|vantage| placed.target.answers(vantage));
        (id, clients)
    })
}

/// The number of the prober on a vantage's node.
fn number(topology: &Topology, vantage: &Vantage) -> Option<usize> {
    topology.plan_index().rings().number(vantage.node()?)
}

/// From outside there are no cluster addresses and no pods: a pass inside is never reported as one outside.
fn may_ask(vantage: &Vantage, placed: &PlacedTarget) -> bool {
    vantage.node().is_some() || placed.dial.is_none()
}

/// What changes a reader of the old plan into a reader of the new one.
#[must_use]
pub fn diff(old: &[Assignment], new: &[Assignment], revision: PlanRevision) -> Vec<PlanLine> {
    let by_id = |plan: &[Assignment]| -> BTreeMap<AssignmentId, Assignment> {
        plan.iter().map(|a| (a.id.clone(), a.clone())).collect()
    };
    let (old, new) = (by_id(old), by_id(new));
    let removed = old
        .keys()
        .filter(|id| !new.contains_key(*id))
        .map(|id| PlanLine::Remove {
            revision,
            id: id.clone(),
        });
    let changed = new
        .iter()
        .filter(|(id, assignment)| old.get(*id) != Some(*assignment))
        .map(|(_, assignment)| PlanLine::Upsert {
            revision,
            assignment: assignment.clone(),
        });
    removed.chain(changed).collect()
}

struct Planner<'a> {
    topology: &'a Topology,
    config: &'a PlanConfig,
    vantage: &'a Vantage,
    out: BTreeMap<AssignmentId, Assignment>,
}

impl<'a> Planner<'a> {
    const fn new(topology: &'a Topology, config: &'a PlanConfig, vantage: &'a Vantage) -> Self {
        Self {
            topology,
            config,
            vantage,
            out: BTreeMap::new(),
        }
    }

    fn add(&mut self, id: &str, assignment: impl FnOnce(AssignmentId) -> Assignment) {
        // An id is made of names and addresses that passed the same check; only a length could be refused, and a
        // target with a URL of two kilobytes is then left out rather than half planned.
        if let Ok(id) = AssignmentId::new(id) {
            self.out.insert(id.clone(), assignment(id));
        }
    }

    /// As a user would.
    fn approach(&mut self, id: &TargetId, placed: &PlacedTarget) {
        let target = &placed.target;
        let channel = match target.probe {
            ProbeSpec::Dns(_) => Channel::Dns,
            _ => Channel::Vip,
        };
        let config = self.config;
        self.add(&format!("{channel}|{id}"), |name| Assignment {
            id: name,
            target: id.clone(),
            channel,
            probe: target.probe.clone(),
            dial: placed.dial.map_or(DialAddress::Resolve, DialAddress::Address),
            entry: None,
            peer: None,
            interval: target.interval.unwrap_or(config.interval),
            timeout: target.timeout.unwrap_or(config.timeout),
        });
    }

    /// Each entry by its own address, with the same Host and SNI; of very many a share.
    fn direct(&mut self, id: &TargetId, placed: &PlacedTarget, share: impl FnOnce(usize) -> (usize, usize)) {
        if self.topology.ends_tls_before(placed) {
            return;
        }
        let Some((service, target_port)) = &placed.entry else {
            return;
        };
        let Some(service) = self.topology.service(service) else {
            return;
        };
        let config = self.config;
        let usable = service.usable();
        let (start, count) = share(usable.len());
        for endpoint in usable.iter().cycle().skip(start).take(count) {
            let target = &placed.target;
            self.add(&format!("direct|{id}|{}", endpoint.pod), |name| Assignment {
                id: name,
                target: id.clone(),
                channel: Channel::Direct,
                probe: target.probe.clone(),
                dial: DialAddress::Address(SocketAddr::new(endpoint.address, *target_port)),
                entry: Some(EntryRef {
                    pod: endpoint.pod.clone(),
                    node: endpoint.node.clone(),
                }),
                peer: None,
                interval: target.interval.unwrap_or(config.interval),
                timeout: target.timeout.unwrap_or(config.timeout),
            });
        }
    }

    /// Other probers' echoes: the control group.
    fn mesh(&mut self) {
        let Some(node) = self.vantage.node() else { return };
        if self.topology.nodes().get(node).is_none_or(|n| n.prober.is_none()) {
            return;
        }
        let config = self.config;
        for peer in mesh_peers(self.topology, node) {
            let Some(prober) = self.topology.nodes().get(peer).and_then(|n| n.prober.as_ref()) else {
                continue;
            };
            let Ok(target) = TargetId::new(format!("echo://{peer}")) else {
                continue;
            };
            self.add(&format!("mesh|{peer}"), |name| Assignment {
                id: name,
                target,
                channel: Channel::Mesh,
                probe: ProbeSpec::Echo {
                    nonce: config.echo_nonce.clone(),
                    size: None,
                },
                dial: DialAddress::Address(prober.address),
                entry: Some(EntryRef {
                    pod: prober.pod.clone(),
                    node: Some(peer.clone()),
                }),
                peer: Some(peer.clone()),
                interval: config.interval,
                timeout: config.timeout,
            });
        }
    }
}

/// Peers of a node: everybody in a small cluster, else its neighbours on the rings.
fn mesh_peers<'a>(topology: &'a Topology, node: &NodeName) -> BTreeSet<&'a NodeName> {
    let rings = topology.plan_index().rings();
    if rings.probers().len() <= 2 * MESH + 1 {
        return rings.probers().iter().filter(|peer| *peer != node).collect();
    }
    rings
        .number(node)
        .map(|number| rings.neighbours(number).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
