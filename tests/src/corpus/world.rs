//! The cluster of one trial: nodes, endpoints, fronts, and what is known about them.

use super::region::{NodeIx, PodIx, ProbeClient};

/// Channels in use. `vip` always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each channel runs or does not, independently"
)]
pub struct ProbeChannels {
    /// Names are resolved.
    pub dns: bool,
    /// Endpoints are probed directly.
    pub direct: bool,
    /// Echoes of the other probers are probed.
    pub mesh: bool,
    /// A PROXY header is tried after three consecutive failures.
    pub proxied: bool,
}

/// Static configuration, as in a topology. It may contradict the fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticFacts {
    /// `spec.type`.
    pub service_type: &'static str,
    /// `externalTrafficPolicy`.
    pub external: &'static str,
    /// `internalTrafficPolicy`.
    pub internal: &'static str,
    /// `iptables`, `ipvs`, `nftables` or `cilium`.
    pub proxy_mode: &'static str,
    /// `VIP` or `Proxy`.
    pub ip_mode: &'static str,
}

impl StaticFacts {
    /// Sets the traffic policy of the address that clients connect to, so that only endpoints on the same node serve.
    pub(super) const fn keep_local(&mut self) {
        match self.service_type.as_bytes() {
            b"ClusterIP" => self.internal = "Local",
            _ => self.external = "Local",
        }
    }
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: NodeIx,
    /// Its front.
    pub front: usize,
    /// Whether it is the prober of its node: a client can be forwarded to itself.
    pub prober: bool,
}

/// Endpoints of every front from a round on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointEpoch {
    /// First round.
    pub from: usize,
    /// Usable endpoints, by front.
    pub endpoints: Vec<Vec<PodIx>>,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedCluster {
    /// Zone of each node.
    pub zones: Vec<usize>,
    /// Whether each node has a prober.
    pub probers: Vec<bool>,
    /// All endpoints that ever exist in the trial.
    pub pods: Vec<Pod>,
    /// Endpoints over time; the first epoch starts at round 0.
    pub epochs: Vec<EndpointEpoch>,
    /// Number of hosts of each front.
    pub hosts: usize,
    /// Number of vantages outside the cluster.
    pub outside: usize,
    /// Resolved names: hosts in order of front and host, then the control name.
    pub names: Vec<String>,
    /// Channels in use.
    pub channels: ProbeChannels,
    /// Whether a success through the virtual address identifies the endpoint.
    pub identifies: bool,
    /// Configuration.
    pub facts: StaticFacts,
    /// Layout of the endpoints.
    pub layout: &'static str,
}

impl SimulatedCluster {
    /// Number of zones.
    pub const ZONES: usize = 3;

    /// Name of a node.
    #[must_use]
    pub fn node_name(&self, node: NodeIx) -> String {
        let digits = if self.zones.len() > 100 { 3 } else { 2 };
        format!("node-{node:0digits$}")
    }

    /// Name of a zone.
    #[must_use]
    pub fn zone_name(zone: usize) -> String {
        format!("zone-{}", ["a", "b", "c"][zone % Self::ZONES])
    }

    /// Nodes with a prober.
    pub fn clients(&self) -> impl Iterator<Item = NodeIx> + '_ {
        (0..self.probers.len()).filter(|node| self.probers[*node])
    }

    /// Returns the node whose prober a Pod is.
    #[must_use]
    pub fn prober_pod(&self, pod: PodIx) -> Option<NodeIx> {
        let pod = &self.pods[pod];
        pod.prober.then_some(pod.node)
    }

    /// Number of fronts.
    #[must_use]
    pub fn fronts(&self) -> usize {
        self.epochs[0].endpoints.len()
    }

    /// Returns the epoch of a round.
    #[must_use]
    pub fn epoch(&self, round: usize) -> usize {
        self.epochs
            .iter()
            .rposition(|epoch| epoch.from <= round)
            .unwrap_or(0)
    }

    /// Usable endpoints of a front in an epoch.
    #[must_use]
    pub fn endpoints(&self, epoch: usize, front: usize) -> &[PodIx] {
        &self.epochs[epoch].endpoints[front]
    }

    /// Reports whether the client's node has no usable endpoint of the front, while others have.
    #[must_use]
    pub fn no_local(&self, epoch: usize, front: usize, client: ProbeClient) -> bool {
        let endpoints = self.endpoints(epoch, front);
        matches!(client, ProbeClient::Node(node) if !endpoints.is_empty()
            && endpoints.iter().all(|pod| self.pods[*pod].node != node))
    }

    /// Returns the endpoints to which a client can be forwarded through the front, all equally likely: all usable
    /// ones, but only those of its node if kube-proxy keeps traffic local (IPVS with policy `Local`, or a `ClusterIP`
    /// with internal policy `Local`) and the node has one.
    #[must_use]
    pub fn eligible(&self, epoch: usize, front: usize, client: ProbeClient) -> Vec<PodIx> {
        let all = self.endpoints(epoch, front);
        let keeps_local = match self.facts.service_type {
            "ClusterIP" => self.facts.internal == "Local",
            _ => self.facts.external == "Local" && self.facts.proxy_mode == "ipvs",
        };
        if let (true, ProbeClient::Node(node)) = (keeps_local, client) {
            let own: Vec<PodIx> = all
                .iter()
                .copied()
                .filter(|pod| self.pods[*pod].node == node)
                .collect();
            if !own.is_empty() {
                return own;
            }
        }
        all.to_vec()
    }

    /// Returns the index of a host's name.
    #[must_use]
    pub const fn host_name(&self, front: usize, host: usize) -> usize {
        front * self.hosts + host
    }

    /// Returns the index of the control name, which is resolved in addition to the target's own.
    #[must_use]
    pub fn control_name(&self) -> usize {
        self.names.len() - 1
    }
}
