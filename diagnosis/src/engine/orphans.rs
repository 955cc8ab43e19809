//! Endpoints whose node left the cluster.
//!
//! The Pod went with its node, and its endpoint stays in the slices, and so in the rules of every node, until the Pod garbage
//! collector comes by (`pkg/controller/podgc` of Kubernetes, every 20 s; `quarantineTime` of 40 s for a node that is gone).
//! Until then a share of the connections is lost, and which share depends on how many endpoints there are: it reads like any
//! cause that strikes some clients only.

use parallax_model::{EventTime, Micros, ServiceKey};

use super::Engine;
use crate::{inference::unit::JudgementUnit, regions::Region, topology::Topology};

/// How long an endpoint may outlive its node: a round of the collector, its quarantine, and the nodes' own delay.
const COLLECTED: Micros = Micros::from_secs(75);

impl Engine {
    /// Notes the Services that have an endpoint whose node the change took away.
    pub(super) fn note_orphans(&mut self, old: &Topology, at: EventTime) {
        self.cluster.orphans.retain(|_, since| at - *since <= COLLECTED);
        for (key, service) in self.cluster.topology.services() {
            let Some(before) = old.service(key) else { continue };
            let orphan = service
                .endpoints
                .iter()
                .any(|endpoint| endpoint.node.is_none() && before.node_of(&endpoint.pod).is_some());
            if orphan {
                self.cluster.orphans.insert(key.clone(), at);
            }
        }
    }

    /// How long ago an endpoint of a Service lost its node, while nodes may still choose it.
    pub(super) fn orphaned_for(&self, service: &ServiceKey, at: EventTime) -> Option<Micros> {
        let since = self.cluster.orphans.get(service)?;
        Some(at - *since).filter(|age| *age <= COLLECTED)
    }

    /// Why a subject's failures may be those of an endpoint that nodes still choose although its node is gone.
    /// What was named before stays.
    pub(super) fn may_be_orphan(
        &self,
        unit: &JudgementUnit,
        region: Region,
        at: EventTime,
    ) -> Option<String> {
        if self.incidents.is_open(unit, region) {
            return None;
        }
        let service = self.service_of_unit(unit)?;
        let age = self.orphaned_for(&service.key, at)?;
        Some(format!(
            "an endpoint of Service {} went with its node {} s ago, and nodes choose it until the Pod garbage collector removes it",
            service.key,
            age.0 / 1_000_000
        ))
    }
}
