//! kube-proxy in nftables mode, as rules: pure, from the cluster to what the table `kube-proxy` of a node must hold.
//!
//! Sources: `pkg/proxy/nftables/README.md` of Kubernetes for the hooks, kubernetes#132456 for their priorities before and
//! after it. Names of chains and maps are kube-proxy's own, so that what `nft list ruleset` shows is read as in a cluster.
//! What no Service of the lab has is left out: session affinity and ranges of sources.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::six;
use crate::{
    cluster::{Cluster, Node, Pod, Service, addresses},
    command::GuestCommand,
    incident::{Dataplane, IpMode, ServicePort, TrafficPolicy},
};

/// The table of every node.
const TABLE: &str = "ip kube-proxy";

/// Addresses of Services and who serves them.
const SERVICES: &str = "service-ips";

/// The nodes' ports.
const NODE_PORTS: &str = "service-nodeports";

/// Addresses that nobody serves here.
const NOBODY: &str = "no-endpoint-services";

/// The nodes' ports that nobody serves here.
const NOBODY_AT_PORT: &str = "no-endpoint-nodeports";

/// Every cluster address: what comes for it and was not translated is refused.
const CLUSTER_IPS: &str = "cluster-ips";

/// The connection is not translated, and refused.
const REJECT: &str = "goto reject-chain";

/// It takes the node's address, so that its answers come back this way.
const MARK: &str = "jump mark-for-masquerade";

/// What changes with the Services of one node's table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NodeTable {
    /// The rules of the chains that Services and endpoints have for themselves.
    chains: BTreeMap<String, Vec<String>>,
    /// Set or map and key; with the verdict, where it is a map.
    elements: BTreeMap<(&'static str, String), Option<String>>,
}

/// The table with its hooks, before there is any Service.
pub(super) fn prepare(cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
    load(cluster, node, &base(cluster.dataplane, node))
}

/// Lines of `nft`, in one transaction for each family.
fn load(cluster: &Cluster, node: &Node, lines: &[String]) -> Vec<GuestCommand> {
    let nft = |lines: &[String]| GuestCommand::within(node.name.as_str(), ["nft", "-f", "-"]).reading(lines);
    let mut commands = vec![nft(lines)];
    if cluster.is_dual_stack() {
        let six: Vec<String> = lines.iter().map(|line| six::nft(line)).collect();
        commands.push(nft(&six));
    }
    commands
}

fn base(dataplane: Dataplane, node: &Node) -> Vec<String> {
    // Before kubernetes#132456 all filters came before the translation of their hook. For what is forwarded that makes no
    // difference, it was translated at an earlier hook; what the node itself sends is filtered by the address it dials.
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
        (NOBODY, by_address),
        (NODE_PORTS, by_port),
        (NOBODY_AT_PORT, by_port),
    ] {
        lines.push(format!("add map {TABLE} {name} {{ {of} }}"));
    }
    for name in [CLUSTER_IPS, "nodeport-ips"] {
        lines.push(format!("add set {TABLE} {name} {{ type ipv4_addr ; }}"));
    }
    let address = addresses::underlay(node.number);
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
        ("service-endpoints-check", format!("{to} @{NOBODY}")),
        ("nodeport-endpoints-check", format!("{to_port} @{NOBODY_AT_PORT}")),
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
        for protocol in ["udp", "tcp"] {
            let base = format!("kube-system/dns/{protocol}/dns");
            let pods = cluster.resolvers.first().map(|resolver| resolver.pod.address);
            let key = format!("{ip} . {protocol} . 53");
            let Some(pod) = pods else {
                self.map(NOBODY, key, REJECT);
                continue;
            };
            let chain = format!("service-{base}");
            let from_elsewhere = from_elsewhere(cluster.dataplane, ip, protocol, 53);
            self.choice(&chain, &base, protocol, from_elsewhere, &[(pod, 53)]);
            self.map(SERVICES, key, &format!("goto {chain}"));
        }
    }

    fn service(&mut self, dataplane: Dataplane, node: &Node, service: &Service, port: &ServicePort) {
        // A headless Service has nothing to forward.
        let Some(ip) = service.cluster_ip else { return };
        let base = format!("{}/tcp/{}", service.key, port.name);
        let to = |pods: &[&Pod]| -> Vec<(Ipv4Addr, u16)> {
            pods.iter().map(|pod| (pod.address, port.target_port)).collect()
        };
        let all: Vec<&Pod> = service.usable();
        let here: Vec<&Pod> = service.usable_on(&node.name);
        let served = |policy| match policy {
            TrafficPolicy::Cluster => !all.is_empty(),
            TrafficPolicy::Local => !here.is_empty(),
        };
        // With endpoints elsewhere it is dropped, as the client may find one there; with none at all it is refused.
        let nobody = if all.is_empty() { REJECT } else { "drop" };
        let chain_of = |policy| match policy {
            TrafficPolicy::Cluster => format!("service-{base}"),
            TrafficPolicy::Local => format!("local-{base}"),
        };

        let inside = chain_of(service.internal_policy);
        let elsewhere = from_elsewhere(dataplane, ip, "tcp", port.port);
        for (policy, pods) in [(TrafficPolicy::Cluster, &all), (TrafficPolicy::Local, &here)] {
            let used = policy == TrafficPolicy::Cluster
                || service.internal_policy == policy
                || service.policy == policy;
            if used && !pods.is_empty() {
                let first = elsewhere.clone().filter(|_| policy == service.internal_policy);
                self.choice(&chain_of(policy), &base, "tcp", first, &to(pods));
            }
        }
        self.set(CLUSTER_IPS, ip.to_string());
        let key = format!("{ip} . tcp . {}", port.port);
        if served(service.internal_policy) {
            self.map(SERVICES, key, &format!("goto {inside}"));
        } else {
            self.map(NOBODY, key, nobody);
        }

        // With ipMode Proxy the node does not know the address at all.
        let balancer = service
            .load_balancer_ip
            .filter(|_| service.ip_mode == IpMode::Vip);
        let balancer = balancer.map(|ip| (SERVICES, NOBODY, format!("{ip} . tcp . {}", port.port)));
        let node_port = port
            .node_port
            .map(|port| (NODE_PORTS, NOBODY_AT_PORT, format!("tcp . {port}")));
        let external = format!("external-{base}");
        for (serving, nobody_there, key) in balancer.into_iter().chain(node_port) {
            if !all.is_empty() {
                self.map(serving, key.clone(), &format!("goto {external}"));
                let rules = from_outside(dataplane, service.policy, &chain_of, served(service.policy));
                self.chains.insert(external.clone(), rules);
            }
            if !served(service.policy) {
                self.map(nobody_there, key, nobody);
            }
        }
    }

    /// A chain that leads to one of some endpoints, each as likely as the others.
    fn choice(
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
                // A pod that is led to itself must not see its own address as the client's.
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

    /// The commands that lead from what the table holds to this: one transaction, so that no packet meets half of it.
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
        // Chains that nothing leads to any more stay, empty: some kernels do not let go of one in the transaction
        // that takes its last verdict away, so kube-proxy as well removes them later.
        let gone = old.chains.keys().filter(|name| !self.chains.contains_key(*name));
        lines.extend(gone.map(|name| format!("flush chain {TABLE} {name}")));
        lines
    }
}

/// What comes for a cluster address from elsewhere than the pods takes the node's address; unless nothing tells who is one.
fn from_elsewhere(dataplane: Dataplane, ip: Ipv4Addr, protocol: &str, port: u16) -> Option<String> {
    dataplane.knows_pods().then(|| {
        format!(
            "ip daddr {ip} {protocol} dport {port} ip saddr != {} {MARK}",
            addresses::POD_CIDR
        )
    })
}

/// The chain for the balancer's address and the nodes' ports.
fn from_outside(
    dataplane: Dataplane,
    policy: TrafficPolicy,
    chain_of: &impl Fn(TrafficPolicy) -> String,
    served: bool,
) -> Vec<String> {
    let everybody = format!("goto {}", chain_of(TrafficPolicy::Cluster));
    if policy == TrafficPolicy::Cluster {
        return vec![MARK.to_owned(), everybody];
    }
    let mut rules = Vec::new();
    // Pods and the node itself are served by every endpoint, whatever the policy.
    if dataplane.knows_pods() {
        rules.push(format!("ip saddr {} {everybody}", addresses::POD_CIDR));
    }
    rules.push(format!("fib saddr type local {MARK}"));
    rules.push(format!("fib saddr type local {everybody}"));
    if served {
        rules.push(format!("goto {}", chain_of(TrafficPolicy::Local)));
    }
    rules
}

#[cfg(test)]
#[path = "nftables_tests.rs"]
mod tests;
