//! The endpoints to which kube-proxy on one node sends new connections.
//!
//! The rules are those of `CategorizeEndpoints` in Kubernetes' `pkg/proxy/topology.go` (1.36): ready endpoints
//! that the hints admit, else those that still serve while terminating (KEP-1669). The fallback is decided
//! separately for the cluster and for the node, and hints never restrict what a `Local` policy allows.

use std::collections::BTreeSet;

use parallax_model::{NodeName, ZoneName};

use super::{Endpoint, EndpointCondition, Service, TrafficPolicy};

/// The hints that apply to the clients of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintPreference {
    /// Endpoints with a hint for the node.
    SameNode,
    /// Endpoints with a hint for the node's zone.
    SameZone,
    /// All endpoints.
    None,
}

impl Service {
    /// Returns the endpoints for new connections independent of the client: no hints, no `Local` policy.
    #[must_use]
    pub fn usable(&self) -> Vec<&Endpoint> {
        ready_else_draining(&self.endpoints, |_| true, |_| true)
    }

    /// Reports whether an ingress controller has an endpoint to forward requests to. Controllers use ready endpoints only, while
    /// kube-proxy falls back to endpoints that still serve while they terminate (ingress-nginx: `getEndpointsFromSlices` in
    /// `internal/ingress/controller/endpointslices.go`).
    #[must_use]
    pub fn has_ready_endpoint(&self) -> bool {
        let mut endpoints = self.endpoints.iter();
        endpoints.any(|endpoint| endpoint.condition == EndpointCondition::Ready)
    }

    /// Reports whether the Service has no address: its name resolves to its endpoints.
    #[must_use]
    pub fn is_headless(&self) -> bool {
        self.headless
    }

    /// Returns the number of ready endpoints on a node.
    #[must_use]
    pub fn ready_count_on(&self, node: &NodeName) -> usize {
        let ready = |e: &&Endpoint| e.node.as_ref() == Some(node) && e.condition == EndpointCondition::Ready;
        self.endpoints.iter().filter(ready).count()
    }

    /// Returns the endpoints for new connections from a node with policy `Local`.
    #[must_use]
    pub fn usable_on(&self, node: &NodeName) -> Vec<&Endpoint> {
        let on_node = |endpoint: &Endpoint| endpoint.node.as_ref() == Some(node);
        ready_else_draining(&self.endpoints, on_node, on_node)
    }

    /// Returns the endpoints for new connections from a node with policy `Cluster`.
    #[must_use]
    pub fn usable_from(&self, node: &NodeName, zone: Option<&ZoneName>) -> Vec<&Endpoint> {
        let admitted = |endpoint: &Endpoint| match self.hint_preference(node, zone) {
            HintPreference::SameNode => endpoint.hints.for_nodes.contains(node),
            HintPreference::SameZone => zone.is_some_and(|zone| endpoint.hints.for_zones.contains(zone)),
            HintPreference::None => true,
        };
        ready_else_draining(&self.endpoints, admitted, |_| true)
    }

    /// Returns the hints that apply to a node. A ready endpoint without hints disables them for all clients; hints
    /// that do not name the node or zone do not apply to it.
    #[must_use]
    pub fn hint_preference(&self, node: &NodeName, zone: Option<&ZoneName>) -> HintPreference {
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

    /// Returns the nodes with an endpoint of their own. With `Local`, a draining endpoint counts while the node
    /// has no ready one; with `Cluster`, only while no endpoint is ready.
    #[must_use]
    pub fn entry_nodes(&self, policy: TrafficPolicy) -> BTreeSet<&NodeName> {
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

/// Returns the nodes with a usable endpoint.
pub(crate) fn entry_nodes(service: &Service) -> BTreeSet<NodeName> {
    service
        .usable()
        .into_iter()
        .filter_map(|endpoint| endpoint.node.clone())
        .collect()
}

#[cfg(test)]
mod tests;
