//! The possible paths of one subject: endpoints, resolver Pods, and the origins behind its entries.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{FailureKind, Front, ServiceKey};

use super::Engine;
use crate::{
    evidence::cells::{CellKey, RoundCells, is_through_front},
    ids::{NodeIx, PodIx},
    inference::judgement_unit::JudgementUnit,
    regions::{Region, front_origins::FrontOrigins, paths::SubjectPaths},
    topology::Service,
};

impl Engine {
    pub(super) fn subject_paths(&self, unit: &JudgementUnit, cells: &RoundCells) -> SubjectPaths {
        let mut paths = SubjectPaths::of_mesh(&self.cluster.nodes);
        let front = self.front_of_unit(unit);
        match (front, self.service_of_unit(unit)) {
            (Some(front), Some(service)) => {
                let clients = cells.keys().map(|key| key.client).collect();
                paths = paths.with_service(&self.cluster.topology, &self.registry, &front, service, &clients);
            }
            (None, Some(service)) => paths = paths.with_endpoints(&self.registry, service),
            (_, None) => {}
        }
        let pods_of = |service: &Service| self.usable_pods(service);
        match unit.without_latency() {
            JudgementUnit::Dns => {
                let clients = cells.keys().map(|key| key.client);
                let service = self.evidence.resolvers.service(&self.cluster.topology, clients);
                paths.resolver_pods = service.map_or_else(Vec::new, pods_of);
                paths.questions = self.judgement.questions;
            }
            JudgementUnit::Target(_) => {
                paths.origin_pods = self.origin_of_unit(unit).map_or_else(Vec::new, pods_of);
            }
            JudgementUnit::Front(front) => {
                let known = self.incidents.known_causes(unit, Some(*front)).into_keys();
                let named: BTreeSet<Region> = known.filter(|region| region.is_between_nodes()).collect();
                if self.fails_without_first_byte(cells, &named) {
                    paths.front_origins = self.front_origins(front, named);
                }
            }
            _ => {}
        }
        if let Some(state) = self.judgement.units.get(unit) {
            paths.unhealthy_nodes = state.unhealthy_nodes;
        }
        paths.correct_from_cells(cells, self.rules.client_ip_affinity);
        paths
    }

    /// Reports whether connections through a front fail, and at least nine in ten failures are missing first bytes of an
    /// established connection: the only failures of an entry that its origin may cause before the entry answers. The clients on a
    /// node that is named do not count, because they may not reach the entry.
    fn fails_without_first_byte(&self, cells: &RoundCells, named: &BTreeSet<Region>) -> bool {
        let nodes: BTreeSet<NodeIx> = named.iter().filter_map(|region| region.node()).collect();
        let is_elsewhere = |key: &CellKey| {
            let node = self.cluster.nodes.client_node(key.client);
            node.is_none_or(|node| !nodes.contains(&node))
        };
        let through_front = cells
            .iter()
            .filter(|(key, _)| is_through_front(key.channel) && is_elsewhere(key));
        let (mut missing, mut all) = (0, 0);
        for ((kind, _), (weight, _)) in through_front.flat_map(|(_, counts)| &counts.kinds) {
            all += weight;
            if matches!(
                self.registry.kinds.name(*kind),
                FailureKind::FirstByteTimeout | FailureKind::Eof | FailureKind::Reset
            ) {
                missing += weight;
            }
        }
        all > 0 && missing * 10 >= all * 9
    }

    /// Returns the Pods to which the entry forwards the requests of a front's hosts.
    fn front_origins(&self, front: &Front, named: BTreeSet<Region>) -> FrontOrigins {
        let mut hosts: BTreeMap<Option<&ServiceKey>, usize> = BTreeMap::new();
        for origin in self.origins_of_front(front) {
            *hosts.entry(origin).or_default() += 1;
        }
        let all = hosts.values().sum();
        let origins = hosts.into_iter().filter_map(|(origin, count)| {
            let service = self.cluster.topology.service(origin?)?;
            Some((count, self.usable_pods(service)))
        });
        FrontOrigins::new(origins.collect(), all, named)
    }

    fn usable_pods(&self, service: &Service) -> Vec<PodIx> {
        let usable = service.usable();
        usable
            .iter()
            .filter_map(|endpoint| self.registry.pods.get(&endpoint.pod))
            .collect()
    }
}
