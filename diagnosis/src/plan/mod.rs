//! Assigns probes to vantages from the topology.
//!
//! In small clusters every node probes every target. In larger ones, each target is probed by all nodes that host
//! one of its entries and by ⌈max(3, √N)⌉ others (at most 22), selected by consistent hashing so that a new node
//! moves few assignments. The mesh is a union of random rings: each node has up to eight peers, and the relation
//! is symmetric. Identifiability: every entry is dialled directly by at least two clients, and every non-empty
//! placement by at least three if it has three.

mod exposure;
mod on_demand;
mod requested;

pub use on_demand::{mesh_run_assignments, run_assignments};
pub use requested::with_requests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use parallax_model::{
    Assignment, AssignmentId, Channel, DialAddress, EntryRef, Micros, NodeName, PlanLine, PlanRevision,
    ProbeSpec, TargetId, Vantage,
};

use crate::topology::{PlacedTarget, Topology, rings::MESH_RINGS};

pub(crate) use exposure::interval as exposure_interval;

/// Settings common to all assignments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanConfig {
    /// Time between two probes of one assignment.
    pub interval: Micros,
    /// Deadline of one probe.
    pub timeout: Micros,
    /// The nonce to which the echoes of the mesh respond.
    pub echo_nonce: String,
}

/// Returns all assignments of one vantage, sorted by id.
#[must_use]
pub fn assignments(topology: &Topology, config: &PlanConfig, vantage: &Vantage) -> Vec<Assignment> {
    let mut planner = Planner::new(topology, config, vantage);
    let index = topology.plan_index();
    let own = prober_index(topology, vantage);
    for ((id, placed), sampled) in topology.targets().iter().zip(index.targets()) {
        if !own.map_or_else(|| may_probe(vantage, placed), |own| index.probes(sampled, own)) {
            continue;
        }
        planner.forbidden(placed);
        if !placed.target.must_answer(vantage) {
            continue;
        }
        planner.user_path(id, placed);
        if sampled.dials_entries && vantage.node().is_some() {
            planner.direct(id, placed, |endpoints| {
                sampled.endpoint_slice(own, &vantage.to_string(), endpoints)
            });
        }
    }
    planner.mesh();
    planner.exposures();
    planner.planned.into_values().collect()
}

/// Returns each target with the vantages that probe it as a user would.
pub(crate) fn clients(topology: &Topology) -> impl Iterator<Item = (&TargetId, Vec<Vantage>)> {
    let index = topology.plan_index();
    let (on_probers, without_prober): (Vec<&Vantage>, Vec<&Vantage>) = topology
        .extra_vantages()
        .iter()
        .partition(|vantage| prober_index(topology, vantage).is_some());
    let targets = topology.targets().iter().zip(index.targets());
    targets.map(move |((id, placed), sampled)| {
        let probers = index.probers_of(sampled).into_iter();
        let mut clients: Vec<Vantage> = probers
            .map(|number| Vantage::pod(index.rings().probers()[number].clone()))
            .collect();
        let also = on_probers
            .iter()
            .filter(|vantage| prober_index(topology, vantage).is_some_and(|own| index.probes(sampled, own)));
        clients.extend(also.copied().cloned());
        let others = without_prober.iter().filter(|vantage| may_probe(vantage, placed));
        clients.extend(others.copied().cloned());
        clients.retain(|vantage| placed.target.must_answer(vantage));
        (id, clients)
    })
}

/// Returns the index of the prober on a vantage's node.
fn prober_index(topology: &Topology, vantage: &Vantage) -> Option<usize> {
    topology.plan_index().rings().index_of(vantage.node()?)
}

/// Outside vantages do not probe cluster addresses or Pods: a success inside is never reported as a success
/// outside.
fn may_probe(vantage: &Vantage, placed: &PlacedTarget) -> bool {
    vantage.node().is_some() || placed.dial_address.is_none()
}

/// Returns the lines that update a reader of the old plan to the new one.
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
    planned: BTreeMap<AssignmentId, Assignment>,
}

impl<'a> Planner<'a> {
    const fn new(topology: &'a Topology, config: &'a PlanConfig, vantage: &'a Vantage) -> Self {
        Self {
            topology,
            config,
            vantage,
            planned: BTreeMap::new(),
        }
    }

    fn add(&mut self, id: &str, assignment: impl FnOnce(AssignmentId) -> Assignment) {
        // Ids consist of validated names and addresses, so only the length can be invalid: a target with a URL of
        // two kilobytes is left out entirely.
        if let Ok(id) = AssignmentId::new(id) {
            self.planned.insert(id.clone(), assignment(id));
        }
    }

    /// Plans the probe that takes a user's path.
    fn user_path(&mut self, id: &TargetId, placed: &PlacedTarget) {
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
            dial: placed
                .dial_address
                .map_or(DialAddress::Resolve, DialAddress::Address),
            entry: None,
            peer: None,
            interval: target.interval.unwrap_or(config.interval),
            timeout: target.timeout.unwrap_or(config.timeout),
        });
    }

    /// Plans probes to each entry's own address, with the same Host and SNI; with many entries, to the vantage's
    /// share of them.
    fn direct(&mut self, id: &TargetId, placed: &PlacedTarget, share: impl FnOnce(usize) -> (usize, usize)) {
        if self.topology.terminates_tls_before(placed) {
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

    /// Plans probes of other probers' echoes, the control group.
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

/// Returns the mesh peers of a node: all probers in a small cluster, otherwise its neighbours on the rings.
#[must_use]
pub fn mesh_peers<'a>(topology: &'a Topology, node: &NodeName) -> BTreeSet<&'a NodeName> {
    let rings = topology.plan_index().rings();
    if rings.probers().len() <= 2 * MESH_RINGS + 1 {
        return rings.probers().iter().filter(|peer| *peer != node).collect();
    }
    rings
        .index_of(node)
        .map(|number| rings.neighbours(number).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
