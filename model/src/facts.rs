//! What a prober sees of its own node besides probing: facts for priors and hazards, never verdicts by themselves.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Addresses of `kube-ipvs0` told in one report, the smallest first: the header must stay below the longest line that an
/// aggregator reads (64 KiB).
pub const MOST_IPVS_ADDRESSES: usize = 1_024;

/// What one prober knows of its node at present. Absent is unknown: a pod sees less than the host network does. A report
/// carries it when something changed, and now and then. Older aggregators pass over it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Kube-proxy's mode in its own words (`:10249/proxyMode`): `iptables`, `ipvs`, `nftables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_mode: Option<String>,
    /// Addresses on `kube-ipvs0`, sorted; empty without such an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipvs_addresses: Option<Vec<IpAddr>>,
    /// Every bridge port reflects; absent where there is no bridge port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hairpin: Option<bool>,
    /// `net.bridge.bridge-nf-call-iptables`; absent without the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge_nf_call_iptables: Option<bool>,
    /// Some interface but the loopback filters strictly by reverse path (`rp_filter` 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_rp_filter: Option<bool>,
    /// How full the conntrack table is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack: Option<Conntrack>,
    /// Packets dropped so far because their source is an address of the node itself (`in_martian_src`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub martian_sources: Option<u64>,
    /// Kube-proxy says that it is healthy (`:10256/healthz`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_healthy: Option<bool>,
    /// What kube-proxy answers balancers on the health check ports of Services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheck>,
}

/// The conntrack table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conntrack {
    /// `nf_conntrack_count`.
    pub count: u64,
    /// `nf_conntrack_max`.
    pub max: u64,
}

impl Conntrack {
    /// Whole percent, at most 100; nothing where the table has no limit.
    #[must_use]
    pub fn percent(self) -> Option<u8> {
        let percent = self.count.saturating_mul(100).checked_div(self.max)?;
        Some(u8::try_from(percent.min(100)).unwrap_or(100))
    }
}

/// The answer at one health check port (`spec.healthCheckNodePort`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HealthCheck {
    /// The port, by which the aggregator knows the Service.
    pub port: u16,
    /// Endpoints that kube-proxy knows on this node.
    pub local_endpoints: u32,
    /// Whether it takes itself for healthy; absent before Kubernetes 1.28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_healthy: Option<bool>,
}

/// What the aggregator wants to know besides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FactQuestions {
    /// Where kube-proxy of the prober's node says whether it is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthz: Option<SocketAddr>,
    /// Health check ports of Services on the prober's node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<SocketAddr>,
}

impl FactQuestions {
    /// Nothing is wanted.
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
