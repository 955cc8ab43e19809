//! Endpoints whose node left the cluster.
//!
//! The Pod is gone with its node, but its endpoint stays in the EndpointSlices, and so in the Service rules of every
//! node, until the Pod garbage collector removes it (`pkg/controller/podgc` of Kubernetes, every 20 s;
//! `quarantineTime` of 40 s for a node that is gone). Until then a share of the connections is lost. The share
//! depends on the number of endpoints, so it looks like any cause that affects only some clients.

use parallax_model::{EventTime, Micros, ServiceKey};

use super::Engine;
use crate::{inference::judgement_unit::JudgementUnit, regions::Region, topology::Topology};

/// How long an endpoint may outlive its node: one pass of the garbage collector, its quarantine, and the delay of the
/// nodes.
const COLLECTION_TIMEOUT: Micros = Micros::from_secs(75);

impl Engine {
    /// Records the Services with an endpoint whose node the topology change removed.
    pub(super) fn record_orphans(&mut self, old: &Topology, at: EventTime) {
        self.cluster
            .orphans
            .retain(|_, since| at - *since <= COLLECTION_TIMEOUT);
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

    /// Returns how long ago an endpoint of a Service lost its node, while nodes may still select it.
    pub(super) fn orphan_age(&self, service: &ServiceKey, at: EventTime) -> Option<Micros> {
        let since = self.cluster.orphans.get(service)?;
        Some(at - *since).filter(|age| *age <= COLLECTION_TIMEOUT)
    }

    /// Explains why a subject's failures may come from an endpoint that nodes still select although its node is gone.
    /// Incidents that are already open are not withdrawn.
    pub(super) fn orphan_explanation(
        &self,
        unit: &JudgementUnit,
        region: Region,
        at: EventTime,
    ) -> Option<String> {
        if self.incidents.is_open(unit, region) {
            return None;
        }
        let service = self.service_of_unit(unit)?;
        let age = self.orphan_age(&service.key, at)?;
        Some(format!(
            "the node of an endpoint of Service {} left the cluster {} s ago, and nodes select the endpoint until the Pod \
             garbage collector removes it",
            service.key,
            age.0 / 1_000_000
        ))
    }
}
