//! An incident as data: a cluster, the faults in it, and the verdict that Parallax must reach.
//!
//! The files are in `tests/incidents/`; `docs/contributing/lab.md` explains how to add one. Unknown fields are
//! rejected, because a misspelt expectation would otherwise always hold.

mod expected;
mod fault;
mod hosts;
mod preflight;
mod topology;

use serde::{Deserialize, Serialize};

pub use expected::{
    ClientFamily, ClientSight, ExpectedEvidence, ExpectedNotice, ExpectedOutcome, ExpectedPackets,
    ExpectedVerdict, Outcome, PacketLine, ProbeShare, ServiceApproach,
};
pub use fault::{FaultOperation, Repair, TimedFault};
pub use hosts::IngressHosts;
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
    /// What happens, for readers.
    pub description: String,
    /// Implementation of Service forwarding on the nodes.
    pub dataplane: Dataplane,
    /// Time between two probes of one assignment, in milliseconds.
    pub interval_ms: u64,
    /// Timeout of one probe, in milliseconds.
    pub timeout_ms: u64,
    /// Whether the aggregator keeps a checkpoint file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// The healthy cluster.
    pub topology: Topology,
    /// The faults, in order.
    #[serde(default)]
    pub faults: Vec<TimedFault>,
    /// The repair after the expected verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// Preflights and their expected results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preflight: Vec<PreflightRun>,
    /// The expected result.
    pub expected: ExpectedOutcome,
}

impl Incident {
    /// Returns the property that requires the lab's own kernel, if any.
    #[must_use]
    pub fn needs_own_kernel(&self) -> Option<&'static str> {
        if !self.dataplane.is_iptables() {
            return Some("its data plane is IPVS, which the lab builds only in user-mode Linux");
        }
        self.steps()
            .iter()
            .flat_map(|step| &step.ops)
            .find_map(FaultOperation::needs_own_kernel)
    }

    /// Returns everything that changes the cluster, in order: the faults, then the repair.
    #[must_use]
    pub fn steps(&self) -> Vec<TimedFault> {
        let repair = self.repair.as_ref().map(Repair::step);
        self.faults.iter().cloned().chain(repair).collect()
    }
}

/// Implementation of Service forwarding on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dataplane {
    /// kube-proxy in IPVS mode before kubernetes#97081: with policy Local and no local endpoint, the load balancer
    /// address has no destination.
    IpvsOld,
    /// A current kube-proxy in IPVS mode: without a local endpoint it uses those of the cluster.
    Ipvs,
    /// kube-proxy in iptables mode: Pods reach the cluster's endpoints whatever the policy.
    Iptables,
    /// The same without `--cluster-cidr`: it cannot recognise Pods, so the policy applies to them too.
    IptablesNoClusterCidr,
    /// kube-proxy in nftables mode.
    Nftables,
    /// The same before kubernetes#132456: on a node without a local endpoint, traffic of the node itself to the
    /// balancer's address is dropped before translation. Pods are served.
    NftablesOld,
    /// nftables mode without a cluster CIDR: the policy applies to Pods too.
    NftablesNoClusterCidr,
}

impl Dataplane {
    /// Reports whether the nodes' rules are those of iptables or nftables: the modes without IPVS.
    #[must_use]
    pub const fn is_iptables(self) -> bool {
        !matches!(self, Self::IpvsOld | Self::Ipvs)
    }

    /// Reports whether the rules are those of nftables, if the kernel supports them.
    #[must_use]
    pub const fn is_nftables(self) -> bool {
        matches!(
            self,
            Self::Nftables | Self::NftablesOld | Self::NftablesNoClusterCidr
        )
    }

    /// Reports whether kube-proxy knows the Pods' addresses (`--cluster-cidr`).
    #[must_use]
    pub const fn knows_pods(self) -> bool {
        !matches!(self, Self::IptablesNoClusterCidr | Self::NftablesNoClusterCidr)
    }
}
