//! Which endpoints kube-proxy on one node sends new connections to.
//!
//! The rules are those of `CategorizeEndpoints` in Kubernetes' `pkg/proxy/topology.go` (1.36): ready endpoints that the
//! hints admit, else those that still serve while terminating (KEP-1669). The fallback is decided apart for the whole
//! cluster and for the node itself, and hints never narrow what a `Local` policy allows.

use std::collections::BTreeSet;

use parallax_model::{NodeName, ZoneName};

use super::{Endpoint, EndpointCondition, Service, TrafficPolicy};

/// Which hints hold for the clients of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintPreference {
    /// Endpoints that are hinted for the node itself.
    SameNode,
    /// Endpoints that are hinted for its zone.
    SameZone,
    /// Every endpoint.
    None,
}

impl Service {
    /// The endpoints that new connections are sent to where nothing depends on the client: no hints, no `Local` policy.
    #[must_use]
    pub fn usable(&self) -> Vec<&Endpoint> {
        ready_else_draining(&self.endpoints, |_| true, |_| true)
    }

    /// It has no address of its own: its name leads to its endpoints.
    #[must_use]
    pub fn is_headless(&self) -> bool {
        self.headless
    }

    /// Endpoints on one node that are ready.
    #[must_use]
    pub fn ready_on(&self, node: &NodeName) -> usize {
        let ready = |e: &&Endpoint| e.node.as_ref() == Some(node) && e.condition == EndpointCondition::Ready;
        self.endpoints.iter().filter(ready).count()
    }

    /// The endpoints that new connections from a node are sent to under a `Local` policy.
    #[must_use]
    pub fn usable_on(&self, node: &NodeName) -> Vec<&Endpoint> {
        let here = |endpoint: &Endpoint| endpoint.node.as_ref() == Some(node);
        ready_else_draining(&self.endpoints, here, here)
    }

    /// The endpoints that new connections from a node are sent to under a `Cluster` policy.
    #[must_use]
    pub fn usable_from(&self, node: &NodeName, zone: Option<&ZoneName>) -> Vec<&Endpoint> {
        let admitted = |endpoint: &Endpoint| match self.preference(node, zone) {
            HintPreference::SameNode => endpoint.hints.for_nodes.contains(node),
            HintPreference::SameZone => zone.is_some_and(|zone| endpoint.hints.for_zones.contains(zone)),
            HintPreference::None => true,
        };
        ready_else_draining(&self.endpoints, admitted, |_| true)
    }

    /// Which hints hold for a node. One ready endpoint without hints switches them off for everybody, and so does a node
    /// or zone that no hint names.
    #[must_use]
    pub fn preference(&self, node: &NodeName, zone: Option<&ZoneName>) -> HintPreference {
        let ready = || {
            self.endpoints
                .iter()
                .filter(|e| e.condition == EndpointCondition::Ready)
        };
        if ready().all(|e| !e.hints.for_nodes.is_empty()) && ready().any(|e| e.hints.for_nodes.contains(node))
        {
            return HintPreference::SameNode;
        }
        let named = |e: &Endpoint| zone.is_some_and(|zone| e.hints.for_zones.contains(zone));
        if ready().all(|e| !e.hints.for_zones.is_empty()) && ready().any(named) {
            return HintPreference::SameZone;
        }
        HintPreference::None
    }

    /// The nodes that have an endpoint of their own: under `Local` a draining one counts as long as the node has no ready
    /// one, under `Cluster` only as long as nobody has.
    #[must_use]
    pub fn holders(&self, policy: TrafficPolicy) -> BTreeSet<&NodeName> {
        match policy {
            TrafficPolicy::Cluster => self
                .usable()
                .into_iter()
                .filter_map(|e| e.node.as_ref())
                .collect(),
            TrafficPolicy::Local => self
                .endpoints
                .iter()
                .filter(|e| e.condition != EndpointCondition::Unready)
                .filter_map(|e| e.node.as_ref())
                .collect(),
        }
    }
}

fn ready_else_draining(
    endpoints: &[Endpoint],
    ready: impl Fn(&Endpoint) -> bool,
    draining: impl Fn(&Endpoint) -> bool,
) -> Vec<&Endpoint> {
    let with = |condition, admitted: &dyn Fn(&Endpoint) -> bool| {
        endpoints
            .iter()
            .filter(|e| e.condition == condition && admitted(e))
            .collect::<Vec<_>>()
    };
    let found = with(EndpointCondition::Ready, &ready);
    if found.is_empty() {
        with(EndpointCondition::Draining, &draining)
    } else {
        found
    }
}

/// Nodes that hold a usable endpoint.
pub(crate) fn entry_nodes(service: &Service) -> BTreeSet<NodeName> {
    service
        .usable()
        .into_iter()
        .filter_map(|endpoint| endpoint.node.clone())
        .collect()
}

#[cfg(test)]
mod tests;
