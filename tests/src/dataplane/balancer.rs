//! The cloud's balancers: real health checks decide which node ports get connections.
//!
//! A balancer that preserves the client's address is NAT in the kernel of the machine's own namespace; this process
//! only checks the nodes and writes the rules. One that speaks PROXY protocol is HAProxy. Pure except for [`serve`].

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    thread,
    time::Duration,
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use crate::ipv6_rules;
use crate::{
    cluster::{Cluster, Service, addresses},
    incident::{BalancingMode, HealthChecks},
    net,
};

/// Configuration of the balancers; read again before every round of checks.
pub const CONFIG_PATH: &str = "/run/balancer.json";

/// The configuration whose rules are in effect: written once checks have had time to change them.
pub const READY_PATH: &str = "/run/balancer.ready";

/// HAProxy's configuration.
pub const HAPROXY_CONF_PATH: &str = "/run/balancer-haproxy.conf";

/// Port on which a balancer terminates TLS.
const TLS_PORT: u16 = 443;

/// Interval between two rounds of checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of a check. A dropped SYN is retransmitted after a second.
const CHECK_TIMEOUT: Duration = Duration::from_millis(700);

/// Number of consecutive contrary checks after which a node's health changes.
const CHECKS_UNTIL_CHANGE: u8 = 2;

/// One port of one balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerPort {
    /// Address for clients.
    pub address: SocketAddrV4,
    /// Source address of its checks; by default the router's own.
    pub check_from: Option<Ipv4Addr>,
    /// Node ports as destinations.
    pub nodes: Vec<SocketAddrV4>,
    /// Whether it also forwards for its IPv6 counterpart; the nodes are checked over IPv4 only.
    #[serde(default)]
    pub dual_stack: bool,
}

/// Returns all ports of balancers that preserve the client's address.
#[must_use]
pub fn listeners(cluster: &Cluster) -> Vec<BalancerPort> {
    let mut all = Vec::new();
    for service in &cluster.services {
        let Some(ip) = service
            .load_balancer_ip
            .filter(|_| service.balancing == BalancingMode::KeepsClient)
        else {
            continue;
        };
        for port in &service.ports {
            let Some(node_port) = port.node_port else { continue };
            all.push(BalancerPort {
                address: SocketAddrV4::new(ip, port.port),
                dual_stack: cluster.is_dual_stack(),
                check_from: (service.health_checks == HealthChecks::OwnAddress).then_some(ip),
                nodes: cluster
                    .present_nodes()
                    .map(|node| SocketAddrV4::new(addresses::underlay_address(node.number), node_port))
                    .collect(),
            });
        }
    }
    all
}

/// Returns the Services whose balancer is a proxy, with its address.
fn proxied(cluster: &Cluster) -> impl Iterator<Item = (&Service, Ipv4Addr)> {
    cluster
        .services
        .iter()
        .filter(|service| service.balancing != BalancingMode::KeepsClient)
        .filter_map(|service| Some((service, service.load_balancer_ip?)))
}

/// Returns the addresses on which HAProxy listens.
pub fn haproxy_listeners(cluster: &Cluster) -> impl Iterator<Item = SocketAddrV4> {
    proxied(cluster).flat_map(|(service, ip)| {
        let ports = service.ports.iter().filter(|port| port.node_port.is_some());
        ports.map(move |port| SocketAddrV4::new(ip, port.port))
    })
}

/// Renders HAProxy's configuration, or returns `None` if no balancer is a proxy. `certificate` is the path of a
/// certificate with its key.
#[must_use]
pub fn haproxy_conf(cluster: &Cluster, certificate: &str) -> Option<String> {
    let mut text =
        "global\n  maxconn 200\ndefaults\n  mode tcp\n  timeout connect 2s\n  timeout client 10s\n  \
                    timeout server 10s\n"
            .to_owned();
    let mut any = false;
    for (service, ip) in proxied(cluster) {
        for port in &service.ports {
            let Some(node_port) = port.node_port else { continue };
            any = true;
            let (listen, send) = match service.balancing {
                BalancingMode::EndsTls if port.port == TLS_PORT => (format!(" ssl crt {certificate}"), ""),
                BalancingMode::ProxyProtocol => (String::new(), " send-proxy"),
                BalancingMode::EndsTls | BalancingMode::KeepsClient => (String::new(), ""),
            };
            let port = port.port;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "listen balancer-{ip}-{port}\n  bind {ip}:{port}{listen}");
            for node in cluster.present_nodes() {
                let address = addresses::underlay_address(node.number);
                let _ = writeln!(
                    text,
                    "  server {} {address}:{node_port}{send} check inter 1s",
                    node.name
                );
            }
        }
    }
    any.then_some(text)
}

/// Renders the rules: each connection goes to a random healthy node; if none is healthy, to any. Not round robin:
/// probes are as regular as its turns, and one client would reach the same node every time.
fn rules(
    listeners: &[BalancerPort],
    healthy: &BTreeMap<(SocketAddrV4, SocketAddrV4), BalancerHealth>,
) -> Vec<String> {
    let mut lines = vec![format!(":{} - [0:0]", net::BALANCER_CHAIN)];
    for listener in listeners {
        let alive = |node: &&SocketAddrV4| {
            healthy
                .get(&(listener.address, **node))
                .is_some_and(|health| health.alive)
        };
        let mut pool: Vec<&SocketAddrV4> = listener.nodes.iter().filter(alive).collect();
        if pool.is_empty() {
            pool = listener.nodes.iter().collect();
        }
        for (i, node) in pool.iter().enumerate() {
            let share = match pool.len() - i {
                1 => String::new(),
                left => format!(
                    "-m statistic --mode random --probability {:.6} ",
                    1.0 / f64::from(u32::try_from(left).unwrap_or(u32::MAX))
                ),
            };
            lines.push(format!(
                "-A {} -d {}/32 -p tcp --dport {} {share}-j DNAT --to-destination {node}",
                net::BALANCER_CHAIN,
                listener.address.ip(),
                listener.address.port(),
            ));
        }
    }
    lines
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BalancerHealth {
    alive: bool,
    contrary_checks: u8,
}

/// Checks nodes and writes rules until the process is killed.
pub fn serve() -> anyhow::Result<()> {
    let mut healthy = BTreeMap::new();
    let mut written = Vec::new();
    let mut since = (String::new(), 0_u8);
    loop {
        let text = fs::read_to_string(CONFIG_PATH).with_context(|| format!("reading {CONFIG_PATH}"))?;
        let listeners: Vec<BalancerPort> =
            serde_json::from_str(&text).with_context(|| format!("reading {CONFIG_PATH}"))?;
        check_all(&listeners, &mut healthy);
        let new = rules(&listeners, &healthy);
        if new != written {
            net::restore_chains(None, "nat", &new)
                .run()
                .context("writing the balancer's rules")?;
            if listeners.iter().any(|listener| listener.dual_stack) {
                net::only_declared(net::restore_six(None, "nat", &ipv6_rules::rules(&new)))
                    .run()
                    .context("writing the balancer's rules for IPv6")?;
            }
            written = new;
        }
        if since.0 != text {
            // The very first checks take effect at once.
            let first = since.0.is_empty();
            since = (text, if first { CHECKS_UNTIL_CHANGE } else { 0 });
        }
        since.1 = since.1.saturating_add(1);
        if since.1 == CHECKS_UNTIL_CHANGE + 1 {
            fs::write(READY_PATH, &since.0).with_context(|| format!("writing {READY_PATH}"))?;
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

fn check_all(
    listeners: &[BalancerPort],
    healthy: &mut BTreeMap<(SocketAddrV4, SocketAddrV4), BalancerHealth>,
) {
    let results: Vec<_> = thread::scope(|scope| {
        let checks: Vec<_> = listeners
            .iter()
            .flat_map(|listener| listener.nodes.iter().map(move |node| (listener, *node)))
            .map(|(listener, node)| {
                let from = listener.check_from;
                let key = (listener.address, node);
                (key, scope.spawn(move || accepts(from, node)))
            })
            .collect();
        let joined = checks.into_iter();
        joined
            .map(|(key, check)| (key, check.join().unwrap_or(false)))
            .collect()
    });
    for (key, alive) in results {
        let health = healthy.entry(key).or_insert(BalancerHealth {
            alive,
            contrary_checks: 0,
        });
        if health.alive == alive {
            health.contrary_checks = 0;
            continue;
        }
        health.contrary_checks += 1;
        if health.contrary_checks >= CHECKS_UNTIL_CHANGE {
            *health = BalancerHealth {
                alive,
                contrary_checks: 0,
            };
        }
    }
}

/// Reports whether a node accepts a connection.
fn accepts(from: Option<Ipv4Addr>, node: SocketAddrV4) -> bool {
    let tried = || -> std::io::Result<()> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(from) = from {
            socket.bind(&SocketAddr::from((from, 0)).into())?;
        }
        socket.connect_timeout(&SocketAddr::V4(node).into(), CHECK_TIMEOUT)
    };
    tried().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> BalancerPort {
        BalancerPort {
            address: "203.0.113.10:80".parse().unwrap(),
            check_from: None,
            dual_stack: false,
            nodes: (1..=3)
                .map(|n| SocketAddrV4::new(addresses::underlay_address(n), 30080))
                .collect(),
        }
    }

    fn destinations(alive: &[u8]) -> Vec<String> {
        let listener = listener();
        let healthy = (1..=3)
            .map(|n| {
                let node = SocketAddrV4::new(addresses::underlay_address(n), 30080);
                let health = BalancerHealth {
                    alive: alive.contains(&n),
                    contrary_checks: 0,
                };
                ((listener.address, node), health)
            })
            .collect();
        let lines = rules(&[listener], &healthy);
        lines[1..]
            .iter()
            .map(|line| line.rsplit(' ').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn connections_go_to_healthy_nodes_only() {
        assert_eq!(destinations(&[2]), ["192.168.0.2:30080"]);
    }

    #[test]
    fn with_every_node_dead_every_node_is_taken_for_alive() {
        assert_eq!(destinations(&[]).len(), 3);
    }

    #[test]
    fn the_first_check_counts_at_once_and_later_ones_must_agree_twice() {
        let mut healthy = BTreeMap::new();
        let closed = BalancerPort {
            // Nothing listens on port 1 of the loopback.
            nodes: vec!["127.0.0.1:1".parse().unwrap()],
            ..listener()
        };
        let key = (closed.address, closed.nodes[0]);
        check_all(std::slice::from_ref(&closed), &mut healthy);
        assert!(!healthy[&key].alive);
        healthy.insert(
            key,
            BalancerHealth {
                alive: true,
                contrary_checks: 0,
            },
        );
        check_all(std::slice::from_ref(&closed), &mut healthy);
        assert!(healthy[&key].alive, "a single failure does not count");
        check_all(&[closed], &mut healthy);
        assert!(!healthy[&key].alive);
    }
}
