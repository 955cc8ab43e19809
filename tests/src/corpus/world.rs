//! The cluster of one trial: nodes, endpoints, fronts, and what is known of them.

use super::region::{NodeIx, PodIx, ProbeClient};

/// Channels that run. `vip` always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each channel runs or does not, independently"
)]
pub struct ProbeChannels {
    /// Names are asked for.
    pub dns: bool,
    /// Endpoints are dialled.
    pub direct: bool,
    /// Echoes of the other probers are asked.
    pub mesh: bool,
    /// A PROXY header is tried after three failures in a row.
    pub proxied: bool,
}

/// Static configuration, as a topology tells it. It may contradict what is broken.
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

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub node: NodeIx,
    /// The front it serves.
    pub front: usize,
    /// It is the prober of its node: a client can be sent to itself.
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
    /// Vantages outside the cluster.
    pub outside: usize,
    /// Names that are asked for: hosts in order of front and host, then the control.
    pub names: Vec<String>,
    /// Channels that run.
    pub channels: ProbeChannels,
    /// A success through the virtual address says who answered.
    pub identifies: bool,
    /// Configuration.
    pub facts: StaticFacts,
    /// How endpoints were placed, in a word.
    pub layout: &'static str,
}

impl SimulatedCluster {
    /// Zones a node may be in.
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

    /// The node whose prober a pod is.
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

    /// The epoch of a round.
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

    /// A node that holds no usable endpoint of the front, while others do.
    #[must_use]
    pub fn no_local(&self, epoch: usize, front: usize, client: ProbeClient) -> bool {
        let endpoints = self.endpoints(epoch, front);
        matches!(client, ProbeClient::Node(node) if !endpoints.is_empty()
            && endpoints.iter().all(|pod| self.pods[*pod].node != node))
    }

    /// Endpoints a client can be sent to through the front, each as likely as the others: all usable ones, but only
    /// its own where kube-proxy keeps traffic local (IPVS with policy `Local`, or a `ClusterIP` with internal policy
    /// `Local`) and the node has one.
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

    /// Index of a host's name.
    #[must_use]
    pub const fn host_name(&self, front: usize, host: usize) -> usize {
        front * self.hosts + host
    }

    /// Index of the control name, asked besides the target's own.
    #[must_use]
    pub fn control_name(&self) -> usize {
        self.names.len() - 1
    }
}
