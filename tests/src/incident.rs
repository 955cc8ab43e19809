//! An incident as data: a cluster, what goes wrong in it, and what Parallax must say.
//!
//! The files live in `tests/incidents/`; `docs/contributing/lab.md` explains how to add one. Unknown fields are refused, since a
//! misspelt expectation would otherwise hold for ever.

mod check;
mod check_expected;
mod check_preflight;
mod check_service;
mod expected;
mod fault;
mod hosts;
mod lines;
mod load;
mod preflight;
mod topology;

use serde::{Deserialize, Serialize};

pub use check::InvalidIncident;
pub use check_preflight::PASSES;
pub use expected::{
    ClientFamily, ClientSight, ExpectedEvidence, ExpectedNotice, ExpectedOutcome, ExpectedPackets,
    ExpectedVerdict, Outcome, PacketLine, ProbeShare, ServiceApproach,
};
pub use fault::{FaultOperation, TimedFault};
pub use hosts::IngressHosts;
pub use load::{LoadError, list, load, parse};
pub use preflight::{
    ExpectedCheck, ExpectedPreflight, ExpectedSight, KnownAuthority, PreflightRun, PreflightTime,
    VerdictStanding,
};
pub use topology::{
    AddressFamilies, BackendPods, BalancingMode, EndpointAt, HealthChecks, Ingress, IpMode, NameRecord, Node,
    PublishedBy, Resolver, ResolverSoftware, ServedHosts, ServerSoftware, ServerSpec, Service, ServicePort,
    ServiceType, Topology, TrafficPolicy,
};

/// One incident file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Incident {
    /// Name on the command line; equals the file's name without `.yaml`.
    pub id: String,
    /// One line for lists.
    pub title: String,
    /// What happens, for people.
    pub description: String,
    /// Who forwards Service traffic on the nodes.
    pub dataplane: Dataplane,
    /// Time between two probes of one assignment, in milliseconds.
    pub interval_ms: u64,
    /// Deadline of one probe, in milliseconds.
    pub timeout_ms: u64,
    /// The aggregator keeps what must survive its restart in a file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// The cluster, healthy.
    pub topology: Topology,
    /// What happens to it, in order.
    #[serde(default)]
    pub faults: Vec<TimedFault>,
    /// Preflights, and what must come out of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preflight: Vec<PreflightRun>,
    /// What must be seen.
    pub expected: ExpectedOutcome,
}

impl Incident {
    /// What it takes that only a kernel of the lab's own gives.
    #[must_use]
    pub fn needs_own_kernel(&self) -> Option<&'static str> {
        if !self.dataplane.is_iptables() {
            return Some("its data plane is IPVS, which is only made in user-mode Linux");
        }
        let mut ops = self.faults.iter().flat_map(|fault| &fault.ops);
        ops.find_map(FaultOperation::needs_own_kernel)
    }
}

/// Who forwards Service traffic on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dataplane {
    /// kube-proxy in IPVS mode before kubernetes#97081: with policy Local and no local endpoint, the load balancer
    /// address has no destination.
    IpvsOld,
    /// A current kube-proxy in IPVS mode: without a local endpoint it takes the cluster's.
    Ipvs,
    /// kube-proxy in iptables mode: pods are served by the cluster's endpoints whatever the policy.
    Iptables,
    /// The same without `--cluster-cidr`: nothing tells it who is a pod, so pods are held to the policy, too.
    IptablesNoClusterCidr,
    /// kube-proxy in nftables mode.
    Nftables,
    /// The same before kubernetes#132456: what a node without a local endpoint itself sends to the balancer's address is
    /// dropped before it is translated. Its pods are served.
    NftablesOld,
    /// nftables mode without a cluster CIDR: pods are held to the policy, too.
    NftablesNoClusterCidr,
}

impl Dataplane {
    /// The nodes' rules are those of iptables, or of nftables: the modes without IPVS.
    #[must_use]
    pub const fn is_iptables(self) -> bool {
        !matches!(self, Self::IpvsOld | Self::Ipvs)
    }

    /// The rules are those of nftables where the kernel has them.
    #[must_use]
    pub const fn is_nftables(self) -> bool {
        matches!(
            self,
            Self::Nftables | Self::NftablesOld | Self::NftablesNoClusterCidr
        )
    }

    /// kube-proxy is told the pods' addresses (`--cluster-cidr`).
    #[must_use]
    pub const fn knows_pods(self) -> bool {
        !matches!(self, Self::IptablesNoClusterCidr | Self::NftablesNoClusterCidr)
    }
}
