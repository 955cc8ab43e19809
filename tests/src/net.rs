//! The network: namespaces, veth pairs, bridges, routes. Pure: a list of commands, mostly `ip -batch`.
//!
//! Each node is a namespace with `eth0` on the underlay bridge and `cbr0` for its Pods; each Pod is a namespace on
//! `cbr0`. The machine's own namespace is the cloud: gateway of the nodes and route to the host.

use std::collections::BTreeSet;

use crate::{
    cluster::{Cluster, Node, OutsideClient, Pod, addresses},
    command::GuestCommand,
    ipv6_rules,
};

/// Builds the cloud, all nodes, all Pods and the clients outside.
#[must_use]
pub fn build(cluster: &Cluster) -> Vec<GuestCommand> {
    let mut commands = cloud(cluster);
    commands.extend(cluster.nodes.iter().flat_map(|node| self::node(cluster, node)));
    for pod in cluster.pods() {
        commands.extend(self::pod(cluster, pod));
    }
    for outside in &cluster.outside {
        commands.extend(self::outside(cluster, outside));
    }
    commands
}

/// Builds the cloud. The link to the host exists already, because the machine's first process needs it.
fn cloud(cluster: &Cluster) -> Vec<GuestCommand> {
    let mut links = vec![
        "link add under address 02:70:78:00:01:00 type bridge".to_owned(),
        format!("addr add {}/24 dev under", addresses::ROUTER),
        "link set under up".to_owned(),
        "link add out address 02:70:78:00:02:00 type bridge".to_owned(),
        format!("addr add {}/24 dev out", addresses::OUTSIDE_GATEWAY),
        format!("addr add {}/32 dev lo", addresses::PUBLIC_DNS),
        "link set out up".to_owned(),
    ];
    // The balancers' own addresses: sources of their health checks, and listen addresses of HAProxy.
    if cluster.has_balancers() {
        let ips: BTreeSet<_> = cluster
            .services
            .iter()
            .filter_map(|service| service.load_balancer_ip)
            .collect();
        links.extend(ips.iter().map(|ip| format!("addr add {ip}/32 dev lo")));
    }
    links.extend(
        cluster
            .nodes
            .iter()
            .map(|node| format!("netns add {}", node.name)),
    );
    for node in &cluster.nodes {
        let (number, name) = (node.number, &node.name);
        links.extend([
            format!("link add node{number} type veth peer name eth0 netns {name}"),
            format!("link set node{number} master under"),
            format!("link set node{number} up"),
        ]);
    }
    let sysctls = [
        ("net/ipv4/ip_forward", "1"),
        // The underlay is a plain switch: frames between nodes must not pass the cloud's own NAT.
        ("net/bridge/bridge-nf-call-iptables", "0"),
        // Traffic between nodes through a balancer leaves on the interface on which it arrived.
        ("net/ipv4/conf/all/send_redirects", "0"),
        ("net/ipv4/conf/under/send_redirects", "0"),
    ];
    let underlay = addresses::UNDERLAY_CIDR;
    let mut commands = vec![
        configure_namespace(None, &sysctls[..3], &links),
        configure_namespace(None, &sysctls[3..], &[]),
        iptables_restore(None, &nat_rules(cluster)),
        // A balancer does not forward a node's refusal: its clients see silence (incident I7).
        GuestCommand::new([
            "iptables",
            "-A",
            "FORWARD",
            "-s",
            underlay,
            "-p",
            "icmp",
            "--icmp-type",
            "destination-unreachable",
            "-j",
            "DROP",
        ]),
    ];
    if cluster.is_dual_stack() {
        let sysctls = [
            ("net/ipv6/conf/all/forwarding", "1"),
            ("net/bridge/bridge-nf-call-ip6tables", "0"),
        ];
        commands.push(configure_namespace(None, &sysctls, &ipv6_counterparts(&links)));
        commands.push(restore_six(None, "nat", &ipv6_rules::rules(&nat_rules(cluster))));
        let silence = format!(
            "-A FORWARD -s {} -p icmpv6 --icmpv6-type destination-unreachable -j DROP",
            ipv6_rules::rule(underlay)
        );
        commands.push(restore_six(None, "filter", &[silence]));
    }
    commands
}

/// Adds the IPv6 counterparts of addresses and routes to lines of `ip`. Without duplicate address detection, which
/// would delay their use by a second.
fn ipv6_counterparts(links: &[String]) -> Vec<String> {
    let all = links.iter().map(String::as_str);
    let addresses = all.clone().filter(|line| line.starts_with("addr "));
    let routes = all.filter(|line| line.starts_with("route "));
    addresses
        .map(|line| format!("{} nodad", ipv6_rules::rule(line)))
        .chain(routes.map(ipv6_rules::rule))
        .collect()
}

/// Returns the NAT rules of the cloud.
fn nat_rules(cluster: &Cluster) -> Vec<String> {
    let (underlay, outside) = (addresses::UNDERLAY_CIDR, addresses::OUTSIDE_CIDR);
    let mut rules = vec![
        format!(":{BALANCER_CHAIN} - [0:0]"),
        format!("-A PREROUTING -j {BALANCER_CHAIN}"),
        format!("-A POSTROUTING -s {underlay} -o eth0 -j MASQUERADE"),
        format!("-A POSTROUTING -s {outside} -o eth0 -j MASQUERADE"),
    ];
    // Nodes reach public addresses through a NAT gateway: a public balancer never sees a node's own address.
    let public: BTreeSet<_> = cluster
        .services
        .iter()
        .filter_map(|service| service.load_balancer_ip)
        .filter(|ip| !ip.is_private())
        .collect();
    rules.extend(public.iter().map(|ip| {
        format!(
            "-A POSTROUTING -s {underlay} -o under -m conntrack --ctorigdst {ip}/32 -j SNAT --to-source {}",
            addresses::ROUTER
        )
    }));
    rules
}

/// Chain of the cloud with the balancers' NAT rules.
pub const BALANCER_CHAIN: &str = "BALANCER";

/// Builds a client outside the cluster.
fn outside(cluster: &Cluster, client: &OutsideClient) -> Vec<GuestCommand> {
    let (name, number) = (client.name.as_str(), client.number);
    let outer = [
        format!("netns add {name}"),
        format!("link add out{number} type veth peer name eth0 netns {name}"),
        format!("link set out{number} master out"),
        format!("link set out{number} up"),
    ];
    let inner = [
        "link set lo up".to_owned(),
        format!("addr add {}/24 dev eth0", addresses::outside_address(number)),
        "link set eth0 up".to_owned(),
        format!("route add default via {}", addresses::OUTSIDE_GATEWAY),
    ];
    let sysctls = [("net/ipv4/ping_group_range", "0 2147483647")];
    let mut commands = vec![
        configure_namespace(None, &[], &outer),
        configure_namespace(Some(name), &sysctls, &inner),
    ];
    if cluster.is_dual_stack() {
        commands.push(configure_namespace(Some(name), &[], &ipv6_counterparts(&inner)));
    }
    commands
}

fn node(cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
    let mut links = vec![
        "link set lo up".to_owned(),
        format!(
            "addr add {}/24 dev eth0",
            addresses::underlay_address(node.number)
        ),
        "link set eth0 up".to_owned(),
        format!("route add default via {}", addresses::ROUTER),
        // A fixed MAC address, as CNI plugins set it: otherwise it is the lowest of the bridge's ports and changes with
        // them, which cuts off Pods that have cached it.
        format!(
            "link add cbr0 address 02:70:78:00:00:{:02x} type bridge",
            node.number
        ),
        format!("addr add {}/24 dev cbr0", addresses::gateway_address(node.number)),
        "link set cbr0 up".to_owned(),
    ];
    links.extend(
        cluster
            .nodes
            .iter()
            .filter(|other| other.number != node.number)
            .map(|other| {
                format!(
                    "route add {} via {}",
                    addresses::pod_cidr(other.number),
                    addresses::underlay_address(other.number)
                )
            }),
    );
    // Replies to traffic through a balancer return through it, although the client may be on the same network.
    if cluster.has_balancers() {
        links.extend([
            format!("route add default via {} table 100", addresses::ROUTER),
            "rule add fwmark 0x100/0x100 lookup 100".to_owned(),
        ]);
    }
    let sysctls = [
        ("net/ipv4/ip_forward", "1"),
        // Replies of a Pod to its neighbour on the bridge pass the node's NAT in reverse.
        ("net/bridge/bridge-nf-call-iptables", "1"),
    ];
    let name = Some(node.name.as_str());
    let mut commands = vec![configure_namespace(name, &sysctls, &links)];
    if cluster.is_dual_stack() {
        let sysctls = [
            ("net/ipv6/conf/all/forwarding", "1"),
            ("net/bridge/bridge-nf-call-ip6tables", "1"),
        ];
        commands.push(configure_namespace(name, &sysctls, &ipv6_counterparts(&links)));
        if cluster.has_balancers() {
            let rule = [
                "ip",
                "-6",
                "rule",
                "add",
                "fwmark",
                "0x100/0x100",
                "lookup",
                "100",
            ];
            commands.push(GuestCommand::in_namespace(node.name.as_str(), rule));
        }
    }
    commands
}

/// Returns the rules that mark connections that arrived through a balancer.
#[must_use]
pub fn return_path(cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
    if !cluster.has_balancers() {
        return Vec::new();
    }
    let ports = cluster.services.iter().flat_map(|service| &service.ports);
    let mut rules: Vec<String> = ports
        .filter_map(|port| port.node_port)
        .map(|port| {
            format!(
                "-A PREROUTING -i eth0 -d {} -p tcp --dport {port} -j CONNMARK --set-xmark 0x100/0x100",
                addresses::underlay_address(node.number)
            )
        })
        .collect();
    rules.push(
        "-A PREROUTING -m connmark --mark 0x100/0x100 -m conntrack --ctdir REPLY -j MARK --set-xmark 0x100/0x100"
            .to_owned(),
    );
    let name = Some(node.name.as_str());
    let mut commands = vec![restore(name, "mangle", &rules)];
    if cluster.is_dual_stack() {
        commands.push(restore_six(name, "mangle", &ipv6_rules::rules(&rules)));
    }
    commands
}

/// Builds a Pod's namespace, connected to its node.
#[must_use]
pub fn pod(cluster: &Cluster, pod: &Pod) -> Vec<GuestCommand> {
    let Some(node) = cluster.node(&pod.node) else {
        return Vec::new();
    };
    let port = bridge_port(pod);
    let outside = [
        format!("netns add {}", pod.name),
        format!("link add {port} type veth peer name eth0 netns {}", pod.name),
        format!("link set {port} master cbr0"),
        format!("link set {port} type bridge_slave hairpin on"),
        format!("link set {port} up"),
    ];
    let inside = [
        "link set lo up".to_owned(),
        format!("addr add {}/24 dev eth0", pod.address),
        "link set eth0 up".to_owned(),
        format!(
            "route add default via {}",
            addresses::gateway_address(node.number)
        ),
    ];
    // Pods may send ICMP echo requests without privileges, as the DaemonSet's safe sysctl allows.
    let sysctls = [("net/ipv4/ping_group_range", "0 2147483647")];
    let mut commands = vec![
        configure_namespace(Some(node.name.as_str()), &[], &outside),
        configure_namespace(Some(pod.name.as_str()), &sysctls, &inside),
    ];
    if cluster.is_dual_stack() {
        commands.push(configure_namespace(
            Some(pod.name.as_str()),
            &[],
            &ipv6_counterparts(&inside),
        ));
    }
    commands
}

/// Deletes a Pod's link, as the network plugin does when a Pod is deleted: packets to its address then find no host.
#[must_use]
pub fn delete_link(pod: &Pod) -> GuestCommand {
    let port = bridge_port(pod);
    GuestCommand::new(["ip", "-n", pod.node.as_str(), "link", "del", &port])
}

/// Returns the bridge port of a Pod on its node.
fn bridge_port(pod: &Pod) -> String {
    format!("v{}", pod.address.octets()[3])
}

/// Sets values under `/proc/sys` (network values belong to the namespace of the writing process), then runs lines of
/// `ip`. A single process for all of it: starting one costs the lab's CPU more than its work.
#[must_use]
pub fn configure_namespace(netns: Option<&str>, sysctls: &[(&str, &str)], links: &[String]) -> GuestCommand {
    let mut script: Vec<String> = sysctls
        .iter()
        .map(|(key, value)| format!("echo {value} > /proc/sys/{key}"))
        .collect();
    script.push("exec ip -batch -".to_owned());
    let argv = ["sh".to_owned(), "-ec".to_owned(), script.join("\n")];
    GuestCommand {
        netns: netns.map(str::to_owned),
        ..GuestCommand::new(argv)
    }
    .with_stdin(links)
}

/// Replaces the `nat` table.
#[must_use]
pub fn iptables_restore(netns: Option<&str>, rules: &[String]) -> GuestCommand {
    restore(netns, "nat", rules)
}

/// Replaces a table. The variant of iptables depends on the kernel; the machine's first process has linked the right
/// one.
#[must_use]
pub fn restore(netns: Option<&str>, table: &str, rules: &[String]) -> GuestCommand {
    restore_by("iptables-restore", netns, table, rules)
}

/// Replaces an IPv6 table.
#[must_use]
pub fn restore_six(netns: Option<&str>, table: &str, rules: &[String]) -> GuestCommand {
    restore_by("ip6tables-restore", netns, table, rules)
}

fn restore_by(program: &str, netns: Option<&str>, table: &str, rules: &[String]) -> GuestCommand {
    let mut lines = vec![format!("*{table}")];
    lines.extend_from_slice(rules);
    lines.push("COMMIT".to_owned());
    GuestCommand {
        netns: netns.map(str::to_owned),
        ..GuestCommand::new([program])
    }
    .with_stdin(&lines)
}

/// Makes a restore replace only the chains that its lines declare.
#[must_use]
pub fn only_declared(mut restore: GuestCommand) -> GuestCommand {
    restore.argv.push("--noflush".to_owned());
    restore
}

/// Replaces the declared chains of a table, and keeps the others.
#[must_use]
pub fn restore_chains(netns: Option<&str>, table: &str, rules: &[String]) -> GuestCommand {
    only_declared(restore(netns, table, rules))
}
