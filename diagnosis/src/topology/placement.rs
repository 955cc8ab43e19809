//! Where client and entry sit to each other, and which entries a client can be sent to.

use parallax_model::{Front, NodeName, Placement, PodName, Vantage};

use super::{Endpoint, FrontKind, ProxyMode, Service, Topology, TrafficPolicy};

impl Topology {
    /// The endpoints that a client on a node can be sent to through a front.
    ///
    /// From inside the cluster a balancer's address has `Cluster` semantics whatever its policy (comment on the
    /// Service type); kube-proxy in IPVS mode deviates under `Local`: a node that has endpoints uses only those
    /// (`syncEndpoint`). A `ClusterIP` follows the internal policy.
    #[must_use]
    pub fn eligible(&self, front: &Front, client: &NodeName) -> Vec<&Endpoint> {
        let Some(info) = self.fronts.get(front) else {
            return Vec::new();
        };
        let Some(service) = self.services.get(&info.service) else {
            return Vec::new();
        };
        let zone = self.nodes.get(client).and_then(|node| node.zone.as_ref());
        match info.kind {
            FrontKind::ClusterIp => match service.internal_traffic_policy {
                TrafficPolicy::Cluster => service.usable_from(client, zone),
                TrafficPolicy::Local => service.usable_on(client),
            },
            FrontKind::LoadBalancer(_) => {
                let local = service.usable_on(client);
                let local_only = service.external_traffic_policy == TrafficPolicy::Local
                    && self.proxy_mode == ProxyMode::Ipvs
                    && !local.is_empty();
                if local_only {
                    local
                } else {
                    service.usable_from(client, zone)
                }
            }
        }
    }

    /// Whether a node holds a usable endpoint of the Service behind a front; nothing where the front is not known.
    #[must_use]
    pub fn has_local(&self, front: &Front, node: &NodeName) -> Option<bool> {
        let service = self.service_of(front)?;
        Some(service.holders(self.policy(front, service)).contains(node))
    }

    /// The policy that a front follows.
    pub(crate) fn policy(&self, front: &Front, service: &Service) -> TrafficPolicy {
        match self.fronts.get(front).map(|info| info.kind) {
            Some(FrontKind::ClusterIp) => service.internal_traffic_policy,
            _ => service.external_traffic_policy,
        }
    }

    /// The placement of a probe: of the vantage against the entries of the front, the one that answered if known.
    #[must_use]
    pub fn placement(&self, vantage: &Vantage, front: Option<&Front>, entry: Option<&PodName>) -> Placement {
        let Some(client) = vantage.node() else {
            return Placement::Outside;
        };
        let Some((front, service)) = front.and_then(|f| self.service_of(f).map(|s| (f, s))) else {
            return Placement::Unknown;
        };
        if service.usable().is_empty() {
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
        // Who was chosen is unknown, unless there is no choice.
        let eligible = self.eligible(front, client);
        if !eligible.is_empty() && eligible.iter().all(|e| e.node.as_ref() == Some(client)) {
            Placement::SameNode
        } else {
            Placement::Unknown
        }
    }
}

impl Service {
    /// The node of one of its pods.
    #[must_use]
    pub fn node_of(&self, pod: &PodName) -> Option<&NodeName> {
        self.endpoints
            .iter()
            .find(|e| e.pod == *pod)
            .and_then(|e| e.node.as_ref())
    }
}
