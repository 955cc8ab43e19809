//! kube-proxy in nftables mode, as rules. Pure: from the cluster to the contents of a node's table `kube-proxy`.
//!
//! Sources: `pkg/proxy/nftables/README.md` of Kubernetes for the hooks, kubernetes#132456 for their priorities before
//! and after it. Chains and maps have kube-proxy's names, so that `nft list ruleset` reads as in a cluster. Features
//! that no Service of the lab uses are omitted: session affinity and source ranges.

use std::{collections::BTreeMap, net::Ipv4Addr};

use crate::ipv6_rules;
use crate::{
    cluster::{Cluster, Node, Pod, Service, addresses},
    command::GuestCommand,
    incident::{Dataplane, IpMode, ServicePort, TrafficPolicy},
};

/// The table of every node.
const TABLE: &str = "ip kube-proxy";

/// Map from Service addresses to their endpoints.
const SERVICES: &str = "service-ips";

/// Map from nodePorts to their endpoints.
const NODE_PORTS: &str = "service-nodeports";

/// Map of addresses without endpoints here.
const NO_ENDPOINTS: &str = "no-endpoint-services";

/// Map of nodePorts without endpoints here.
const NO_ENDPOINT_NODE_PORTS: &str = "no-endpoint-nodeports";

/// Set of all ClusterIPs: packets to them that were not translated are rejected.
const CLUSTER_IPS: &str = "cluster-ips";

/// Rejects the connection.
const REJECT: &str = "goto reject-chain";

/// Masquerades the connection, so that its replies return through this node.
const MARK: &str = "jump mark-for-masquerade";

/// The part of a node's table that changes with the Services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NodeTable {
    /// Rules of the chains of Services and endpoints.
    chains: BTreeMap<String, Vec<String>>,
    /// Set or map and key, with the verdict in a map.
    elements: BTreeMap<(&'static str, String), Option<String>>,
}

/// Returns the table with its hooks, without Services.
pub(super) fn prepare(cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
    load(cluster, node, &base(cluster.dataplane, node))
}

/// Builds commands with the lines of `nft`, in one transaction per family.
fn load(cluster: &Cluster, node: &Node, lines: &[String]) -> Vec<GuestCommand> {
    let nft = |lines: &[String]| {
        GuestCommand::in_namespace(node.name.as_str(), ["nft", "-f", "-"]).with_stdin(lines)
    };
    let mut commands = vec![nft(lines)];
    if cluster.is_dual_stack() {
        let six: Vec<String> = lines.iter().map(|line| ipv6_rules::nft(line)).collect();
        commands.push(nft(&six));
    }
    commands
}

fn base(dataplane: Dataplane, node: &Node) -> Vec<String> {
    // Before kubernetes#132456 all filters came before the NAT of their hook. Forwarded packets are not affected,
    // because they were translated at an earlier hook; the node's own packets are filtered by the address that they
    // dial.
    let (filter, post_dnat) = if dataplane == Dataplane::NftablesOld {
        (-110, "filter-output-post-dnat")
    } else {
        (0, "filter-output")
    };
    let mut lines = vec![format!("add table {TABLE}")];
    let mut chain = |name: &str, kind: &str| {
        let kind = if kind.is_empty() {
            String::new()
        } else {
            format!(" {{ type {kind} ; }}")
        };
        lines.push(format!("add chain {TABLE} {name}{kind}"));
    };
    for name in [
        "services",
        "mark-for-masquerade",
        "masquerading",
        "reject-chain",
        "service-endpoints-check",
        "nodeport-endpoints-check",
        "cluster-ips-check",
    ] {
        chain(name, "");
    }
    chain("nat-prerouting", "nat hook prerouting priority -100");
    chain("nat-output", "nat hook output priority -100");
    chain("nat-postrouting", "nat hook postrouting priority 100");
    for hook in ["input", "forward", "output"] {
        chain(
            &format!("filter-{hook}"),
            &format!("filter hook {hook} priority {filter}"),
        );
    }
    if post_dnat != "filter-output" {
        chain(post_dnat, "filter hook output priority -90");
    }
    let by_address = "type ipv4_addr . inet_proto . inet_service : verdict ;";
    let by_port = "type inet_proto . inet_service : verdict ;";
    for (name, of) in [
        (SERVICES, by_address),
        (NO_ENDPOINTS, by_address),
        (NODE_PORTS, by_port),
        (NO_ENDPOINT_NODE_PORTS, by_port),
    ] {
        lines.push(format!("add map {TABLE} {name} {{ {of} }}"));
    }
    for name in [CLUSTER_IPS, "nodeport-ips"] {
        lines.push(format!("add set {TABLE} {name} {{ type ipv4_addr ; }}"));
    }
    let address = addresses::underlay_address(node.number);
    lines.push(format!("add element {TABLE} nodeport-ips {{ {address} }}"));
    let service_cidr = addresses::SERVICE_CIDR;
    let to = "ip daddr . meta l4proto . th dport vmap";
    let to_port = "ip daddr @nodeport-ips meta l4proto . th dport vmap";
    for (chain, rule) in [
        ("services", format!("{to} @{SERVICES}")),
        ("services", format!("{to_port} @{NODE_PORTS}")),
        ("mark-for-masquerade", "mark set mark or 0x4000".to_owned()),
        ("masquerading", "mark and 0x4000 == 0 return".to_owned()),
        ("masquerading", "mark set mark xor 0x4000".to_owned()),
        ("masquerading", "masquerade fully-random".to_owned()),
        ("reject-chain", "reject".to_owned()),
        ("service-endpoints-check", format!("{to} @{NO_ENDPOINTS}")),
        (
            "nodeport-endpoints-check",
            format!("{to_port} @{NO_ENDPOINT_NODE_PORTS}"),
        ),
        ("cluster-ips-check", format!("ip daddr @{CLUSTER_IPS} reject")),
        ("cluster-ips-check", format!("ip daddr {service_cidr} drop")),
        ("nat-prerouting", "jump services".to_owned()),
        ("nat-output", "jump services".to_owned()),
        ("nat-postrouting", "jump masquerading".to_owned()),
        (
            "filter-input",
            "ct state new jump nodeport-endpoints-check".to_owned(),
        ),
        (
            "filter-input",
            "ct state new jump service-endpoints-check".to_owned(),
        ),
        (
            "filter-forward",
            "ct state new jump service-endpoints-check".to_owned(),
        ),
        ("filter-forward", "ct state new jump cluster-ips-check".to_owned()),
        (
            "filter-output",
            "ct state new jump service-endpoints-check".to_owned(),
        ),
        (post_dnat, "ct state new jump cluster-ips-check".to_owned()),
    ] {
        lines.push(format!("add rule {TABLE} {chain} {rule}"));
    }
    lines
}

impl NodeTable {
    pub(super) fn of(cluster: &Cluster, node: &Node) -> Self {
        let mut table = Self::default();
        table.resolver(cluster);
        for service in &cluster.services {
            for port in &service.ports {
                table.service(cluster.dataplane, node, service, port);
            }
        }
        table
    }

    fn resolver(&mut self, cluster: &Cluster) {
        let ip = addresses::DNS_SERVICE;
        self.set(CLUSTER_IPS, ip.to_string());
        let usable = cluster.resolver_service.usable_pods();
        let pods: Vec<(Ipv4Addr, u16)> = usable.iter().map(|pod| (pod.address, 53)).collect();
        for protocol in ["udp", "tcp"] {
            let base = format!("kube-system/dns/{protocol}/dns");
            let key = format!("{ip} . {protocol} . 53");
            if pods.is_empty() {
                self.map(NO_ENDPOINTS, key, REJECT);
                continue;
            }
            let chain = format!("service-{base}");
            let from_elsewhere = from_elsewhere(cluster.dataplane, ip, protocol, 53);
            self.balance_chain(&chain, &base, protocol, from_elsewhere, &pods);
            self.map(SERVICES, key, &format!("goto {chain}"));
        }
    }

    fn service(&mut self, dataplane: Dataplane, node: &Node, service: &Service, port: &ServicePort) {
        // A headless Service needs no forwarding.
        let Some(ip) = service.cluster_ip else { return };
        let base = format!("{}/tcp/{}", service.key, port.name);
        let to = |pods: &[&Pod]| -> Vec<(Ipv4Addr, u16)> {
            pods.iter().map(|pod| (pod.address, port.target_port)).collect()
        };
        let all: Vec<&Pod> = service.usable_pods();
        let local_pods: Vec<&Pod> = service.usable_pods_on(&node.name);
        let served = |policy| match policy {
            TrafficPolicy::Cluster => !all.is_empty(),
            TrafficPolicy::Local => !local_pods.is_empty(),
        };
        // If there are endpoints elsewhere it is dropped, because a client may find one there; with none at all it is
        // rejected.
        let no_endpoint = if all.is_empty() { REJECT } else { "drop" };
        let chain_of = |policy| match policy {
            TrafficPolicy::Cluster => format!("service-{base}"),
            TrafficPolicy::Local => format!("local-{base}"),
        };

        let inside = chain_of(service.internal_policy);
        let off_node = from_elsewhere(dataplane, ip, "tcp", port.port);
        for (policy, pods) in [
            (TrafficPolicy::Cluster, &all),
            (TrafficPolicy::Local, &local_pods),
        ] {
            let used = policy == TrafficPolicy::Cluster
                || service.internal_policy == policy
                || service.policy == policy;
            if used && !pods.is_empty() {
                let first = off_node.clone().filter(|_| policy == service.internal_policy);
                self.balance_chain(&chain_of(policy), &base, "tcp", first, &to(pods));
            }
        }
        self.set(CLUSTER_IPS, ip.to_string());
        let key = format!("{ip} . tcp . {}", port.port);
        if served(service.internal_policy) {
            self.map(SERVICES, key, &format!("goto {inside}"));
        } else {
            self.map(NO_ENDPOINTS, key, no_endpoint);
        }

        // With ipMode Proxy the node does not know the address at all.
        let balancer = service
            .load_balancer_ip
            .filter(|_| service.ip_mode == IpMode::Vip);
        let balancer = balancer.map(|ip| (SERVICES, NO_ENDPOINTS, format!("{ip} . tcp . {}", port.port)));
        let node_port = port
            .node_port
            .map(|port| (NODE_PORTS, NO_ENDPOINT_NODE_PORTS, format!("tcp . {port}")));
        let external = format!("external-{base}");
        for (serving, nobody_there, key) in balancer.into_iter().chain(node_port) {
            if !all.is_empty() {
                self.map(serving, key.clone(), &format!("goto {external}"));
                let rules = from_outside(dataplane, service.policy, &chain_of, served(service.policy));
                self.chains.insert(external.clone(), rules);
            }
            if !served(service.policy) {
                self.map(nobody_there, key, no_endpoint);
            }
        }
    }

    /// Returns a chain that selects one of several endpoints with equal probability.
    fn balance_chain(
        &mut self,
        chain: &str,
        base: &str,
        protocol: &str,
        first: Option<String>,
        to: &[(Ipv4Addr, u16)],
    ) {
        let mut verdicts = Vec::new();
        for (number, (ip, port)) in to.iter().enumerate() {
            let endpoint = format!("endpoint-{base}__{ip}/{port}");
            verdicts.push(format!("{number} : goto {endpoint}"));
            let rules = vec![
                // A Pod that is forwarded to itself must not see its own address as the client's.
                format!("ip saddr {ip} {MARK}"),
                format!("meta l4proto {protocol} dnat to {ip}:{port}"),
            ];
            self.chains.insert(endpoint, rules);
        }
        let choose = format!(
            "numgen random mod {} vmap {{ {} }}",
            to.len(),
            verdicts.join(" , ")
        );
        let rules = first.into_iter().chain([choose]).collect();
        self.chains.insert(chain.to_owned(), rules);
    }

    fn map(&mut self, name: &'static str, key: String, verdict: &str) {
        self.elements.insert((name, key), Some(verdict.to_owned()));
    }

    fn set(&mut self, name: &'static str, key: String) {
        self.elements.insert((name, key), None);
    }

    /// Returns the commands that change `old` into this table: one transaction, so that no packet sees a partial state.
    pub(super) fn commands_from(&self, old: &Self, cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
        let lines = self.transaction_from(old);
        if lines.is_empty() {
            return Vec::new();
        }
        load(cluster, node, &lines)
    }

    fn transaction_from(&self, old: &Self) -> Vec<String> {
        let changed: Vec<_> = self
            .chains
            .iter()
            .filter(|(name, rules)| old.chains.get(*name) != Some(rules))
            .collect();
        let mut lines = Vec::new();
        for (name, _) in &changed {
            lines.push(format!("add chain {TABLE} {name}"));
            lines.push(format!("flush chain {TABLE} {name}"));
        }
        for (name, rules) in &changed {
            let rules = rules.iter();
            lines.extend(rules.map(|rule| format!("add rule {TABLE} {name} {rule}")));
        }
        for ((name, key), verdict) in &old.elements {
            if self.elements.get(&(*name, key.clone())) != Some(verdict) {
                lines.push(format!("delete element {TABLE} {name} {{ {key} }}"));
            }
        }
        for ((name, key), verdict) in &self.elements {
            if old.elements.get(&(*name, key.clone())) != Some(verdict) {
                let verdict = verdict
                    .as_ref()
                    .map_or(String::new(), |verdict| format!(" : {verdict}"));
                lines.push(format!("add element {TABLE} {name} {{ {key}{verdict} }}"));
            }
        }
        // Unreferenced chains stay, empty: some kernels cannot delete one in the transaction that removes its last
        // reference, so kube-proxy removes them later too.
        let gone = old.chains.keys().filter(|name| !self.chains.contains_key(*name));
        lines.extend(gone.map(|name| format!("flush chain {TABLE} {name}")));
        lines
    }
}

/// Masquerades packets to a ClusterIP from outside the Pods, unless Pods cannot be recognised.
fn from_elsewhere(dataplane: Dataplane, ip: Ipv4Addr, protocol: &str, port: u16) -> Option<String> {
    dataplane.knows_pods().then(|| {
        format!(
            "ip daddr {ip} {protocol} dport {port} ip saddr != {} {MARK}",
            addresses::POD_CIDR
        )
    })
}

/// Returns the chain for the balancer's address and the nodePorts.
fn from_outside(
    dataplane: Dataplane,
    policy: TrafficPolicy,
    chain_of: &impl Fn(TrafficPolicy) -> String,
    served: bool,
) -> Vec<String> {
    let cluster_jump = format!("goto {}", chain_of(TrafficPolicy::Cluster));
    if policy == TrafficPolicy::Cluster {
        return vec![MARK.to_owned(), cluster_jump];
    }
    let mut rules = Vec::new();
    // Pods and the node itself reach every endpoint, whatever the policy.
    if dataplane.knows_pods() {
        rules.push(format!("ip saddr {} {cluster_jump}", addresses::POD_CIDR));
    }
    rules.push(format!("fib saddr type local {MARK}"));
    rules.push(format!("fib saddr type local {cluster_jump}"));
    if served {
        rules.push(format!("goto {}", chain_of(TrafficPolicy::Local)));
    }
    rules
}

#[cfg(test)]
#[path = "nftables_tests.rs"]
mod tests;
