//! What follows from the causes of open incidents beside failures of targets: vantages whose reports do not arrive, and
//! hazards that a cause produces or that say the same.

use std::collections::BTreeSet;

use parallax_model::{NodeName, ServiceKey};

use super::Engine;
use crate::{
    evidence::rounds::OpenRounds,
    findings::{Hazard, HazardKind},
    ids::NodeIx,
    incident::OpenCause,
    regions::{Region, paths::SubjectPaths},
    verdict::{Consequence, Incident, Subject},
    view::{VantageState, VantageView},
};

impl Engine {
    /// Adds to each open incident what follows from its cause. Marks the vantages that it silences, and takes the hazards
    /// that belong to it out of the list.
    pub(super) fn attribute_consequences(
        &self,
        incidents: &mut [Incident],
        vantages: &mut [VantageView],
        hazards: &mut Vec<Hazard>,
    ) {
        let paths = SubjectPaths::of_mesh(&self.cluster.nodes);
        for cause in self.incidents.open_causes() {
            let Some(incident) = incidents.iter_mut().find(|incident| incident.id == cause.id) else {
                continue;
            };
            for view in vantages.iter_mut().filter(|view| view.explained_by.is_none()) {
                if self.silences(&cause, view, &paths) {
                    view.explained_by = Some(cause.id.to_owned());
                    incident.consequences.push(Consequence::SilentVantage {
                        vantage: view.vantage.clone(),
                    });
                }
            }
            let node = cause.region.node().map(|node| self.registry.nodes.name(node));
            let lost = node.filter(|_| cause.region.is_between_nodes());
            let (part, others): (Vec<Hazard>, Vec<Hazard>) =
                std::mem::take(hazards).into_iter().partition(|hazard| {
                    self.is_said_by(hazard, incident, node)
                        || lost.is_some_and(|lost| self.is_shadow_of(hazard, lost))
                });
            *hazards = others;
            incident
                .consequences
                .extend(part.into_iter().map(|hazard| Consequence::Hazard {
                    id: hazard.id,
                    sentence: hazard.sentence,
                }));
        }
    }

    /// Reports whether reports of a silent vantage cross a region of the cause on their way to the aggregator. A vantage that
    /// was silent before the first failure has a reason of its own.
    fn silences(&self, cause: &OpenCause<'_>, view: &VantageView, paths: &SubjectPaths) -> bool {
        let margin = OpenRounds::silence_timeout(self.settings);
        let lately = view
            .last_seen
            .is_some_and(|last| last.plus(margin) >= cause.since);
        let node = self
            .registry
            .vantages
            .get(&view.vantage)
            .and_then(|vantage| self.cluster.nodes.client_node(vantage));
        let aggregator = self.aggregator_node();
        view.state == VantageState::Silent
            && lately
            && node.is_some()
            && cause
                .possible_regions
                .iter()
                .any(|region| region.contains_connection_between((node, aggregator), paths))
    }

    /// Returns the node of the aggregator, if it is known.
    pub(super) fn aggregator_node(&self) -> Option<NodeIx> {
        self.registry.nodes.get(self.cluster.topology.aggregator_node()?)
    }

    /// Reports whether a region contains the way of a node's reports to the aggregator, or one of its possible ways if the
    /// aggregator's node is unknown.
    pub(super) fn may_silence(&self, region: Region, node: NodeIx, paths: &SubjectPaths) -> bool {
        let contains = |to: NodeIx| region.contains_connection_between((Some(node), Some(to)), paths);
        match self.aggregator_node() {
            Some(aggregator) => contains(aggregator),
            None => paths.mesh.node_set.iter().any(|to| *to != node && contains(*to)),
        }
    }

    /// Reports whether an incident already says what a hazard says, about the same node or Service.
    fn is_said_by(&self, hazard: &Hazard, incident: &Incident, node: Option<&NodeName>) -> bool {
        let says = |cause: &str| hazard.kind.causes().contains(&cause);
        let same_node = || node.is_some_and(|node| hazard.affected.nodes.contains(node));
        let same_service = || {
            let services = self.services_of(incident);
            services.iter().any(|service| is_about(hazard, service))
        };
        incident.verdict.cause().is_some_and(says) && (same_node() || same_service())
    }

    /// Reports whether a hazard warns of the loss of a node that is lost, or exists because of the loss.
    fn is_shadow_of(&self, hazard: &Hazard, lost: &NodeName) -> bool {
        match hazard.kind {
            HazardKind::SingleNode => {
                let mut services = self.cluster.topology.services().values();
                let own = services.find(|service| is_about(hazard, &service.key));
                own.is_some_and(|service| {
                    let mut endpoints = service.endpoints.iter();
                    endpoints.any(|endpoint| endpoint.node.as_ref() == Some(lost))
                })
            }
            HazardKind::StaleProxy | HazardKind::Conntrack | HazardKind::OwnSources => {
                hazard.affected.nodes == [lost.clone()]
            }
            HazardKind::LocalPolicy
            | HazardKind::Loopback
            | HazardKind::Quota
            | HazardKind::ProxyBypass
            | HazardKind::Hairpin
            | HazardKind::UnservedIpv6 => false,
        }
    }

    fn services_of(&self, incident: &Incident) -> BTreeSet<ServiceKey> {
        let topology = &self.cluster.topology;
        let subject = match &incident.verdict.subject {
            Subject::Service(service) => Some(service.clone()),
            Subject::Front(front) => topology.service_of(front).map(|service| service.key.clone()),
            Subject::Target(_) | Subject::Name(_) | Subject::Node(_) | Subject::Network => None,
        };
        let placed = incident
            .verdict
            .targets
            .iter()
            .filter_map(|target| topology.targets().get(target));
        let entries = placed.filter_map(|placed| placed.entry.as_ref().map(|(service, _)| service.clone()));
        subject.into_iter().chain(entries).collect()
    }
}

fn is_about(hazard: &Hazard, service: &ServiceKey) -> bool {
    hazard.subject == format!("Service {service}")
}
