//! Closes incidents whose subject left the cluster with that reason, since nothing can prove them healthy any more.

use parallax_model::{EventTime, Round};

use super::Engine;
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        round_ring::RoundRing,
    },
    incident::{Scope, TrackedIncident, UNVISITED_ROUNDS},
    inference::judgement_unit::JudgementUnit,
    regions::Region,
    topology::Topology,
};

impl Engine {
    /// Marks the open incidents whose subject is missing from the current topology; `old` is the topology before it.
    pub(super) fn mark_departed(&mut self, old: &Topology) {
        // The topology has not been read yet.
        if self.cluster.topology.nodes().is_empty() {
            return;
        }
        let mut incidents = std::mem::take(&mut self.incidents);
        incidents.mark_departed(|tracked| self.departure_reason(tracked, old));
        self.incidents = incidents;
    }

    fn departure_reason(&self, tracked: &TrackedIncident, old: &Topology) -> Option<String> {
        let topology = &self.cluster.topology;
        let left = |node| {
            let name = self.registry.nodes.name(node);
            (!topology.nodes().contains_key(name)).then(|| format!("node {name} left the cluster"))
        };
        if let Some(reason) = tracked.region.nodes().into_iter().flatten().find_map(left) {
            return Some(reason);
        }
        match tracked.region {
            // The mesh observes a node through its prober only.
            Region::Bnode(node) | Region::BnodeRemote(node)
                if tracked.is_only_seen_by(&JudgementUnit::Mesh) =>
            {
                let name = self.registry.nodes.name(node);
                let has_prober = topology
                    .nodes()
                    .get(name)
                    .is_some_and(|node| node.prober.is_some());
                return (!has_prober).then(|| format!("node {name} no longer has a prober"));
            }
            Region::Backend(pod) => {
                let name = self.registry.pods.name(pod);
                let mut endpoints = topology
                    .services()
                    .values()
                    .flat_map(|service| &service.endpoints);
                if !endpoints.any(|endpoint| endpoint.pod == *name) {
                    return Some(format!("endpoint {name} is gone"));
                }
            }
            Region::DnsName(name) if !self.cluster.routes.resolves(name) => {
                return Some(format!(
                    "{} is no longer resolved by any target",
                    self.registry.names.name(name)
                ));
            }
            _ => {}
        }
        let scope = match tracked.scope.base() {
            Scope::Service(key) | Scope::Answers(key, _) if topology.service(key).is_none() => {
                Some(format!("Service {key} is gone"))
            }
            Scope::Target(target) if !topology.targets().contains_key(target) => {
                Some(format!("{target} is no longer a target"))
            }
            _ => None,
        };
        if scope.is_some() {
            return scope;
        }
        let gone = |unit: &JudgementUnit| match unit.without_latency() {
            JudgementUnit::Target(target) => !topology.targets().contains_key(target),
            JudgementUnit::Front(front) => {
                let published = old.front(front).is_some() || tracked.published_fronts.contains(front);
                topology.front(front).is_none() && (published || tracked.departure_reason.is_some())
            }
            JudgementUnit::Endpoints(service, _) => topology.service(service).is_none(),
            JudgementUnit::Dns
            | JudgementUnit::Mesh
            | JudgementUnit::SingleTarget(_)
            | JudgementUnit::Latency(_) => false,
        };
        let subject = tracked.subject();
        tracked
            .units()
            .all(gone)
            .then(|| format!("{subject} is no longer published"))
    }

    /// Marks incidents about addresses that belong to no Service and to which no name leads any more.
    pub(super) fn mark_unvisited(&mut self, round: Round, at: EventTime) {
        let mut incidents = std::mem::take(&mut self.incidents);
        incidents.mark_unvisited(|tracked| {
            let Scope::Front(front) = tracked.scope.base() else {
                return None;
            };
            let visits = self
                .evidence
                .blocks
                .get(&CellBlock::failures(EvidenceKind::Vip(*front)));
            let last = visits
                .and_then(RoundRing::last)
                .max(tracked.restored.map(|restored| restored.judged))?;
            let reports = |client| {
                let vantage = self.registry.vantages.name(client);
                self.matrix.is_reporting(client, at, self.settings)
                    && self.cluster.known_vantages.contains(vantage)
            };
            let unvisited = round.0 - last.0 >= UNVISITED_ROUNDS && tracked.clients().all(reports);
            unvisited.then(|| format!("no client connects to {front} any more"))
        });
        self.incidents = incidents;
    }
}
