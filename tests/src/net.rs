//! The wires: namespaces, veth pairs, bridges, routes. Pure: a list of commands, mostly `ip -batch`.
//!
//! Per node a namespace with `eth0` on the underlay bridge and `cbr0` for its pods; per pod a namespace on `cbr0`.
//! The machine's own namespace is the cloud: the nodes' gateway, and the way to the host.

use crate::{
    cluster::{Cluster, Node, Pod, addresses},
    command::Cmd,
};

/// The cloud, all nodes and all pods.
#[must_use]
pub fn build(cluster: &Cluster) -> Vec<Cmd> {
    let mut commands = cloud(cluster);
    commands.extend(cluster.nodes.iter().map(|node| self::node(cluster, node)));
    for pod in cluster.pods() {
        commands.extend(self::pod(cluster, pod));
    }
    commands
}

/// The way to the host stands already: the machine's first process needs it.
fn cloud(cluster: &Cluster) -> Vec<Cmd> {
    let mut links = vec![
        "link add under type bridge".to_owned(),
        format!("addr add {}/24 dev under", addresses::ROUTER),
        "link set under up".to_owned(),
    ];
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
    // The underlay is a plain switch: frames between nodes must not meet the cloud's own translation.
    let sysctls = [
        ("net/ipv4/ip_forward", "1"),
        ("net/bridge/bridge-nf-call-iptables", "0"),
    ];
    vec![
        set_up(None, &sysctls, &links),
        iptables_restore(
            None,
            &["-A POSTROUTING -s 192.168.0.0/24 -o eth0 -j MASQUERADE".to_owned()],
        ),
    ]
}

fn node(cluster: &Cluster, node: &Node) -> Cmd {
    let mut links = vec![
        "link set lo up".to_owned(),
        format!("addr add {}/24 dev eth0", addresses::underlay(node.number)),
        "link set eth0 up".to_owned(),
        format!("route add default via {}", addresses::ROUTER),
        "link add cbr0 type bridge".to_owned(),
        format!("addr add {}/24 dev cbr0", addresses::gateway(node.number)),
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
                    addresses::underlay(other.number)
                )
            }),
    );
    let sysctls = [
        ("net/ipv4/ip_forward", "1"),
        // Answers of a pod to its neighbour on the bridge pass the node's translation backwards.
        ("net/bridge/bridge-nf-call-iptables", "1"),
    ];
    set_up(Some(node.name.as_str()), &sysctls, &links)
}

/// A pod's namespace, wired to its node.
#[must_use]
pub fn pod(cluster: &Cluster, pod: &Pod) -> Vec<Cmd> {
    let Some(node) = cluster.node(&pod.node) else {
        return Vec::new();
    };
    let port = format!("v{}", pod.address.octets()[3]);
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
        format!("route add default via {}", addresses::gateway(node.number)),
    ];
    // Pods may send echo requests without privileges, as the DaemonSet's safe sysctl allows.
    let sysctls = [("net/ipv4/ping_group_range", "0 2147483647")];
    vec![
        set_up(Some(node.name.as_str()), &[], &outside),
        set_up(Some(pod.name.as_str()), &sysctls, &inside),
    ]
}

/// Sets values under `/proc/sys` (the network's belong to the namespace of the process that writes them), then runs
/// lines of `ip`. One process for all of it: starting one takes the lab's CPU longer than what it does.
#[must_use]
pub fn set_up(netns: Option<&str>, sysctls: &[(&str, &str)], links: &[String]) -> Cmd {
    let mut script: Vec<String> = sysctls
        .iter()
        .map(|(key, value)| format!("echo {value} > /proc/sys/{key}"))
        .collect();
    script.push("exec ip -batch -".to_owned());
    let argv = ["sh".to_owned(), "-ec".to_owned(), script.join("\n")];
    Cmd {
        netns: netns.map(str::to_owned),
        ..Cmd::new(argv)
    }
    .reading(links)
}

/// Replaces the `nat` table. The lab's kernel has no nftables translation, hence the legacy binary.
#[must_use]
pub fn iptables_restore(netns: Option<&str>, rules: &[String]) -> Cmd {
    let mut lines = vec!["*nat".to_owned()];
    lines.extend_from_slice(rules);
    lines.push("COMMIT".to_owned());
    Cmd {
        netns: netns.map(str::to_owned),
        ..Cmd::new(["xtables-legacy-multi", "iptables-restore"])
    }
    .reading(&lines)
}
