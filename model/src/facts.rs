//! Facts that a prober reads from its own node. They feed priors and hazards and are never verdicts by
//! themselves.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Maximum number of `kube-ipvs0` addresses in one report, lowest first. The header must stay below the
/// longest line that an aggregator reads (64 KiB).
pub const MAX_IPVS_ADDRESSES: usize = 1_024;

/// What one prober currently knows about its node. An absent field is unknown: a Pod sees less than the host
/// network does. A report carries the facts after a change and periodically. Older aggregators ignore them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Mode of kube-proxy as it reports it (`:10249/proxyMode`): `iptables`, `ipvs`, `nftables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_mode: Option<String>,
    /// Addresses on `kube-ipvs0`, sorted; empty if the interface does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipvs_addresses: Option<Vec<IpAddr>>,
    /// Whether every bridge port is in hairpin mode; absent if there is no bridge port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hairpin: Option<bool>,
    /// `net.bridge.bridge-nf-call-iptables`; absent if the module is not loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge_nf_call_iptables: Option<bool>,
    /// Whether an interface other than loopback uses strict reverse path filtering (`rp_filter` 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_rp_filter: Option<bool>,
    /// Usage of the conntrack table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack: Option<Conntrack>,
    /// Packets dropped so far because their source is an address of the node itself (`in_martian_src`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub martian_sources: Option<u64>,
    /// Whether kube-proxy reports itself healthy (`:10256/healthz`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_healthy: Option<bool>,
    /// Responses of kube-proxy on the health check ports of Services, which load balancers query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheck>,
}

/// Usage of the conntrack table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conntrack {
    /// `nf_conntrack_count`.
    pub count: u64,
    /// `nf_conntrack_max`.
    pub max: u64,
}

impl Conntrack {
    /// Usage in whole percent, at most 100; `None` if the table has no limit.
    #[must_use]
    pub fn percent(self) -> Option<u8> {
        let percent = self.count.saturating_mul(100).checked_div(self.max)?;
        Some(u8::try_from(percent.min(100)).unwrap_or(100))
    }
}

/// The response of one health check port (`spec.healthCheckNodePort`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HealthCheck {
    /// The port, which identifies the Service to the aggregator.
    pub port: u16,
    /// Endpoints of the Service that kube-proxy knows on this node.
    pub local_endpoints: u32,
    /// Whether kube-proxy reports itself healthy; absent before Kubernetes 1.28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_healthy: Option<bool>,
}

/// Facts that the aggregator requests from a prober.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FactQuestions {
    /// Health endpoint of kube-proxy on the prober's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthz: Option<SocketAddr>,
    /// Health check ports of Services on the prober's node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<SocketAddr>,
}

impl FactQuestions {
    /// Whether no facts are requested.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.healthz.is_none() && self.health_checks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_a_limit_is_never_full_and_one_beyond_it_is() {
        let percent = |count, max| Conntrack { count, max }.percent();
        assert_eq!(percent(5, 0), None);
        assert_eq!(percent(96, 100), Some(96));
        assert_eq!(percent(250, 100), Some(100));
        assert_eq!(
            percent(u64::MAX, u64::MAX),
            Some(1),
            "saturates instead of wrapping"
        );
    }
}
