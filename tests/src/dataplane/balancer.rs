//! The balancers of the cloud: real health checks decide which nodes' ports get connections.
//!
//! A balancer that keeps the client's address is translation in the kernel of the machine's own namespace; this process
//! only checks the nodes and writes the rules. One that speaks PROXY protocol is `HAProxy`. Pure but for [`serve`].

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

use super::six;
use crate::{
    cluster::{Cluster, Service, addresses},
    incident::{BalancingMode, HealthChecks},
    net,
};

/// What to balance; read anew before every round of checks.
pub const CONFIG: &str = "/run/balancer.json";

/// The configuration whose rules stand: written once checks have had time to change them.
pub const READY: &str = "/run/balancer.ready";

/// `HAProxy`'s configuration.
pub const HAPROXY_CONF: &str = "/run/balancer-haproxy.conf";

/// The port on which a balancer ends TLS.
const HTTPS: u16 = 443;

/// Time between two rounds of checks.
const EVERY: Duration = Duration::from_secs(1);

/// Longest wait for a node. A SYN that is dropped is repeated after a second.
const PATIENCE: Duration = Duration::from_millis(700);

/// Checks in a row that must say otherwise before a node changes sides.
const CHANGES: u8 = 2;

/// One port of one balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerPort {
    /// Where clients connect to.
    pub address: SocketAddrV4,
    /// The source of its checks; the router's own where absent.
    pub check_from: Option<Ipv4Addr>,
    /// The ports it may pass on to.
    pub nodes: Vec<SocketAddrV4>,
    /// It passes on for the counterpart of its address, too; the nodes are checked by IPv4 alone.
    #[serde(default)]
    pub dual_stack: bool,
}

/// All ports of balancers that keep the client's address.
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
                    .present()
                    .map(|node| SocketAddrV4::new(addresses::underlay(node.number), node_port))
                    .collect(),
            });
        }
    }
    all
}

/// The Services whose balancer is more than translation, with the address it has.
fn proxied(cluster: &Cluster) -> impl Iterator<Item = (&Service, Ipv4Addr)> {
    cluster
        .services
        .iter()
        .filter(|service| service.balancing != BalancingMode::KeepsClient)
        .filter_map(|service| Some((service, service.load_balancer_ip?)))
}

/// Where `HAProxy` listens once it runs.
pub fn of_haproxy(cluster: &Cluster) -> impl Iterator<Item = SocketAddrV4> {
    proxied(cluster).flat_map(|(service, ip)| {
        let ports = service.ports.iter().filter(|port| port.node_port.is_some());
        ports.map(move |port| SocketAddrV4::new(ip, port.port))
    })
}

/// `HAProxy` for the balancers that are more than translation; none where there is no such balancer. `certificate` is
/// the path of a certificate with its key.
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
                BalancingMode::EndsTls if port.port == HTTPS => (format!(" ssl crt {certificate}"), ""),
                BalancingMode::ProxyProtocol => (String::new(), " send-proxy"),
                BalancingMode::EndsTls | BalancingMode::KeepsClient => (String::new(), ""),
            };
            let port = port.port;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "listen balancer-{ip}-{port}\n  bind {ip}:{port}{listen}");
            for node in cluster.present() {
                let address = addresses::underlay(node.number);
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

/// The rules: each connection goes to any healthy node. With none healthy, all are taken for healthy. Not to one after the
/// other: probes come as regularly as such turns, and one client would meet the same node every time.
fn rules(
    listeners: &[BalancerPort],
    healthy: &BTreeMap<(SocketAddrV4, SocketAddrV4), BalancerHealth>,
) -> Vec<String> {
    let mut lines = vec![format!(":{} - [0:0]", net::BALANCER)];
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
                net::BALANCER,
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
    against: u8,
}

/// Checks and writes rules until the process is ended.
pub fn serve() -> anyhow::Result<()> {
    let mut healthy = BTreeMap::new();
    let mut written = Vec::new();
    let mut since = (String::new(), 0_u8);
    loop {
        let text = fs::read_to_string(CONFIG).with_context(|| format!("reading {CONFIG}"))?;
        let listeners: Vec<BalancerPort> =
            serde_json::from_str(&text).with_context(|| format!("reading {CONFIG}"))?;
        check_all(&listeners, &mut healthy);
        let new = rules(&listeners, &healthy);
        if new != written {
            net::restore_chains(None, "nat", &new)
                .run()
                .context("writing the balancer's rules")?;
            if listeners.iter().any(|listener| listener.dual_stack) {
                net::only_declared(net::restore_six(None, "nat", &six::rules(&new)))
                    .run()
                    .context("writing the balancer's rules for IPv6")?;
            }
            written = new;
        }
        if since.0 != text {
            // The very first checks count at once.
            let first = since.0.is_empty();
            since = (text, if first { CHANGES } else { 0 });
        }
        since.1 = since.1.saturating_add(1);
        if since.1 == CHANGES + 1 {
            fs::write(READY, &since.0).with_context(|| format!("writing {READY}"))?;
        }
        thread::sleep(EVERY);
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
        let health = healthy.entry(key).or_insert(BalancerHealth { alive, against: 0 });
        if health.alive == alive {
            health.against = 0;
            continue;
        }
        health.against += 1;
        if health.against >= CHANGES {
            *health = BalancerHealth { alive, against: 0 };
        }
    }
}

/// Whether a node accepts a connection.
fn accepts(from: Option<Ipv4Addr>, node: SocketAddrV4) -> bool {
    let tried = || -> std::io::Result<()> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(from) = from {
            socket.bind(&SocketAddr::from((from, 0)).into())?;
        }
        socket.connect_timeout(&SocketAddr::V4(node).into(), PATIENCE)
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
                .map(|n| SocketAddrV4::new(addresses::underlay(n), 30080))
                .collect(),
        }
    }

    fn destinations(alive: &[u8]) -> Vec<String> {
        let listener = listener();
        let healthy = (1..=3)
            .map(|n| {
                let node = SocketAddrV4::new(addresses::underlay(n), 30080);
                let health = BalancerHealth {
                    alive: alive.contains(&n),
                    against: 0,
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
            // Nobody listens on port 1 of the loopback.
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
                against: 0,
            },
        );
        check_all(std::slice::from_ref(&closed), &mut healthy);
        assert!(healthy[&key].alive, "one failure is none");
        check_all(&[closed], &mut healthy);
        assert!(!healthy[&key].alive);
    }
}
