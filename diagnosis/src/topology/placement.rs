//! Placement of a client relative to the entries, and the entries eligible for it.

use parallax_model::{Front, NodeName, Placement, PodName, Vantage};

use super::{Endpoint, FrontKind, ProxyMode, Service, Topology, TrafficPolicy};

impl Topology {
    /// Returns the endpoints that a front may select for a client on a node.
    ///
    /// From inside the cluster a balancer's address has `Cluster` semantics whatever its policy (comment on the
    /// Service type); kube-proxy in IPVS mode deviates under `Local`: a node that has endpoints uses only those
    /// (`syncEndpoint`). A `ClusterIP` follows the internal policy.
    #[must_use]
    pub fn eligible(&self, front: &Front, client: &NodeName) -> Vec<&Endpoint> {
        let Some((info, service)) = self.front_and_service(front) else {
            return Vec::new();
        };
        let from = |node: &NodeName| {
            let zone = self.nodes.get(node).and_then(|node| node.zone.as_ref());
            service.usable_from(node, zone)
        };
        match info.kind {
            FrontKind::ClusterIp => match service.internal_traffic_policy {
                TrafficPolicy::Cluster => from(client),
                TrafficPolicy::Local => service.usable_on(client),
            },
            FrontKind::LoadBalancer(_) => self.external_endpoints(service, client, from(client)),
            // The node with this address selects the endpoint. For its own Pods it applies the rules of a balancer
            // address.
            FrontKind::NodePort => match self.node_at(&front.address.ip()) {
                Some(node) if service.external_traffic_policy == TrafficPolicy::Cluster => from(node),
                Some(node) if node == client => self.external_endpoints(service, node, from(node)),
                Some(node) => service.usable_on(node),
                None => Vec::new(),
            },
            FrontKind::Host => self.entries(front),
        }
    }

    /// Returns the endpoints that a node selects for its own Pods at an external address of a Service.
    fn external_endpoints<'a>(
        &self,
        service: &'a Service,
        node: &NodeName,
        any: Vec<&'a Endpoint>,
    ) -> Vec<&'a Endpoint> {
        let local = service.usable_on(node);
        let local_only = service.external_traffic_policy == TrafficPolicy::Local
            && self.proxy_mode == ProxyMode::Ipvs
            && !local.is_empty();
        if local_only { local } else { any }
    }

    /// Reports whether a node has a usable endpoint of the Service behind a front; `None` if the front is unknown.
    #[must_use]
    pub fn has_local(&self, front: &Front, node: &NodeName) -> Option<bool> {
        self.front_and_service(front)?;
        Some(self.entry_nodes(front).contains(node))
    }

    /// Returns the placement of a probe: the vantage relative to the entries of the front, or to the entry that
    /// answered.
    #[must_use]
    pub fn placement(&self, vantage: &Vantage, front: Option<&Front>, entry: Option<&PodName>) -> Placement {
        let Some(client) = vantage.node() else {
            return Placement::Outside;
        };
        let Some((front, service)) = front.and_then(|f| self.service_of(f).map(|s| (f, s))) else {
            return Placement::Unknown;
        };
        if self.entries(front).is_empty() {
            return Placement::Unknown;
        }
        if self.has_local(front, client) == Some(false) {
            return Placement::NoLocal;
        }
        if let Some(node) = entry.and_then(|pod| service.node_of(pod)) {
            return if node == client {
                Placement::SameNode
            } else {
                Placement::CrossNode
            };
        }
        // The selected endpoint is unknown, unless there is no choice.
        let eligible = self.eligible(front, client);
        if !eligible.is_empty() && eligible.iter().all(|e| e.node.as_ref() == Some(client)) {
            Placement::SameNode
        } else {
            Placement::Unknown
        }
    }
}

impl Service {
    /// Returns the node of one of the Service's Pods.
    #[must_use]
    pub fn node_of(&self, pod: &PodName) -> Option<&NodeName> {
        self.endpoints
            .iter()
            .find(|e| e.pod == *pod)
            .and_then(|e| e.node.as_ref())
    }
}
