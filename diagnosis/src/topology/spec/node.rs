//! Nodes with their probers and with what probers report about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{NodeName, ObjectName, PodName, ServiceKey, ZoneName};
use serde::{Deserialize, Serialize};

use super::ProxyMode;

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeSpec {
    /// `metadata.name`.
    pub name: NodeName,
    /// `topology.kubernetes.io/zone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneName>,
    /// Addresses of the node itself.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The prober on the node; absent if none runs there (for example because of a taint).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prober: Option<ProberSpec>,
    /// The node's condition `Ready`.
    #[serde(default, skip_serializing_if = "NodeReadiness::is_unknown")]
    pub readiness: NodeReadiness,
    /// `spec.unschedulable`: the node is cordoned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// Network facts of the node.
    #[serde(default, skip_serializing_if = "NodeFacts::is_empty")]
    pub facts: NodeFacts,
}

/// The condition `Ready` of a node: whether its kubelet renews its Lease and reports itself healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum NodeReadiness {
    /// `True`.
    Ready,
    /// `False`, or `Unknown`: the node controller has had no status from the kubelet for the grace period (40 s by
    /// default).
    NotReady,
    /// Not known.
    #[default]
    Unknown,
}

impl NodeReadiness {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// Network facts of a node from a host vantage or the API. Absent means unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeFacts {
    /// Whether the bridge ports of the node's Pods are in hairpin mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hairpin: Option<bool>,
    /// `net.bridge.bridge-nf-call-iptables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge_nf_call_iptables: Option<bool>,
    /// `status.nodeInfo.kubeProxyVersion`, or the kubelet's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy_version: Option<ObjectName>,
    /// The mode that the node's kube-proxy reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_mode: Option<ProxyMode>,
    /// Balancer addresses of Services on the node's `kube-ipvs0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipvs_addresses: Option<BTreeSet<IpAddr>>,
    /// Whether an interface has strict reverse path filtering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_rp_filter: Option<bool>,
    /// Fill level of the conntrack table in percent, quantized if measured: every change creates a new topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack_percent: Option<u8>,
    /// Whether the node drops packets whose source is one of its own addresses (`in_martian_src` rises).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "dropsOwnSources")]
    pub drops_own_source_addresses: Option<bool>,
    /// Whether kube-proxy reports itself healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_healthy: Option<bool>,
    /// Number of endpoints on this node known to its kube-proxy, by Service with a health check port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub local_endpoints: BTreeMap<ServiceKey, u32>,
}

impl NodeFacts {
    /// Reports whether no fact is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Fills the unknown facts from another source. Facts present here take precedence.
    #[must_use]
    pub fn or_else_from(&self, other: &Self) -> Self {
        let mut local_endpoints = other.local_endpoints.clone();
        local_endpoints.extend(self.local_endpoints.clone());
        Self {
            hairpin: self.hairpin.or(other.hairpin),
            bridge_nf_call_iptables: self.bridge_nf_call_iptables.or(other.bridge_nf_call_iptables),
            kube_proxy_version: self
                .kube_proxy_version
                .clone()
                .or_else(|| other.kube_proxy_version.clone()),
            proxy_mode: self.proxy_mode.or(other.proxy_mode),
            ipvs_addresses: self
                .ipvs_addresses
                .clone()
                .or_else(|| other.ipvs_addresses.clone()),
            strict_rp_filter: self.strict_rp_filter.or(other.strict_rp_filter),
            conntrack_percent: self.conntrack_percent.or(other.conntrack_percent),
            drops_own_source_addresses: self
                .drops_own_source_addresses
                .or(other.drops_own_source_addresses),
            proxy_healthy: self.proxy_healthy.or(other.proxy_healthy),
            local_endpoints,
        }
    }
}

/// A prober Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ProberSpec {
    /// The Pod.
    pub pod: PodName,
    /// Address of its echo.
    pub address: SocketAddr,
}
