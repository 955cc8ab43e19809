//! The plan: N probes spread over a hundred loopback addresses, so that no address runs out of ports.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use parallax_model::{Assignment, Micros};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Name in `Host`, SNI, certificate and DNS.
pub(crate) const HOST: &str = "bench.example.test";

/// Number of addresses of the target server.
pub(crate) const ADDRESSES: u8 = 100;

/// Kind of probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProbeMix {
    /// A GET on a new connection.
    Http,
    /// The same behind a full TLS handshake.
    Https,
    /// A connect.
    Tcp,
    /// One query over UDP.
    Dns,
}

/// Ports of the target server, one per kind.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, clap::Args)]
pub(crate) struct TargetPorts {
    /// Plain HTTP.
    #[arg(long = "http-port")]
    pub(crate) http: u16,
    /// HTTPS.
    #[arg(long = "https-port")]
    pub(crate) https: u16,
    /// TCP.
    #[arg(long = "tcp-port")]
    pub(crate) tcp: u16,
    /// DNS over UDP.
    #[arg(long = "dns-port")]
    pub(crate) dns: u16,
}

impl TargetPorts {
    pub(crate) const fn of(self, kind: ProbeMix) -> u16 {
        match kind {
            ProbeMix::Http => self.http,
            ProbeMix::Https => self.https,
            ProbeMix::Tcp => self.tcp,
            ProbeMix::Dns => self.dns,
        }
    }

    /// Returns the address of the i-th probe.
    pub(crate) fn address(self, kind: ProbeMix, i: u64) -> SocketAddr {
        SocketAddr::new(address(i), self.of(kind))
    }
}

/// Schedule of probes at a rate; without a rate they follow each other as fast as possible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeRate {
    start: Instant,
    gap_ns: Option<u64>,
}

impl ProbeRate {
    /// Starts a schedule with this many probes per second, or 0 for as many as possible.
    pub(crate) fn start(rate: u64) -> Self {
        Self {
            start: Instant::now(),
            gap_ns: 1_000_000_000_u64.checked_div(rate),
        }
    }

    /// Returns when the i-th probe is due. Late probes do not shift it.
    pub(crate) fn due(self, i: u64) -> Option<Instant> {
        Some(self.start + Duration::from_nanos(i.saturating_mul(self.gap_ns?)))
    }
}

/// Returns the i-th address of the target server, cyclically.
pub(crate) fn address(i: u64) -> IpAddr {
    let last = u8::try_from(i % u64::from(ADDRESSES)).unwrap_or(0) + 1;
    Ipv4Addr::new(127, 0, 1, last).into()
}

/// Builds a plan of probes of one kind, each once per interval.
pub(crate) fn assignments(
    kind: ProbeMix,
    ports: TargetPorts,
    count: u64,
    interval: Micros,
) -> Vec<Assignment> {
    (0..count)
        .map(|i| {
            let address = ports.address(kind, i);
            let (scheme, word) = match kind {
                ProbeMix::Http => ("http", "http"),
                ProbeMix::Https => ("https", "http"),
                ProbeMix::Tcp => ("tcp", "tcp"),
                ProbeMix::Dns => ("dns", "dns"),
            };
            let target = match kind {
                ProbeMix::Http | ProbeMix::Https => format!("{scheme}://{HOST}/{i}"),
                ProbeMix::Tcp => format!("tcp://{i}.{HOST}:{}", address.port()),
                // One target per probe: the prober limits each target to 50 probes per second.
                ProbeMix::Dns => format!("dns://{i}.{HOST}"),
            };
            let probe = match kind {
                ProbeMix::Http | ProbeMix::Https => json!({"kind": word, "scheme": scheme, "host": HOST,
                    "port": address.port(), "path": "/", "expect_status": "200"}),
                ProbeMix::Tcp => {
                    json!({"kind": word, "host": address.ip().to_string(), "port": address.port()})
                }
                ProbeMix::Dns => {
                    json!({"kind": word, "name": format!("{i}.{HOST}"), "record": "A", "resolver": address})
                }
            };
            let dial = if kind == ProbeMix::Dns {
                json!("resolve")
            } else {
                json!({"address": address})
            };
            let channel = if kind == ProbeMix::Dns { "dns" } else { "vip" };
            serde_json::from_value(json!({
                "id": format!("{channel}|{target}|{i}"), "target": target, "channel": channel, "probe": probe,
                "dial": dial, "interval_us": interval.0, "timeout_us": 2_000_000,
            }))
            .unwrap_or_else(|error| unreachable!("an assignment of the same version: {error}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_fixed_grid_and_none_has_no_times() {
        let pace = ProbeRate::start(500);
        assert_eq!(
            pace.due(1_000).unwrap() - pace.due(0).unwrap(),
            Duration::from_secs(2)
        );
        assert_eq!(ProbeRate::start(0).due(7), None);
    }

    #[test]
    fn every_kind_makes_a_plan_whose_probes_share_no_id_and_spread_over_the_addresses() {
        let ports = TargetPorts {
            http: 1,
            https: 2,
            tcp: 3,
            dns: 4,
        };
        for kind in [ProbeMix::Http, ProbeMix::Https, ProbeMix::Tcp, ProbeMix::Dns] {
            let plan = assignments(kind, ports, 250, Micros::from_secs(1));
            let ids: std::collections::BTreeSet<_> = plan.iter().map(|a| a.id.clone()).collect();
            assert_eq!(ids.len(), 250);
        }
        assert_eq!(address(0), address(100));
        assert_ne!(address(0), address(99));
    }
}
