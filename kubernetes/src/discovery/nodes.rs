//! Nodes and the probers on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use parallax_diagnosis::topology::{NodeFacts, NodeReadiness, NodeSpec, ProberSpec};
use parallax_model::{Network, NodeName, ObjectName, Vantage, ZoneName};

use super::notes::NoteCollector;
use crate::{
    cluster::ClusterState,
    objects::{Node, NodeCondition, Pod},
};

/// Where a prober's echo listens unless a port of its Pod is named `echo`.
const ECHO_PORT: u16 = 9095;

/// Names in one note; a cluster of thousands has a prober on none of its nodes for a moment.
const NAMED: usize = 8;

/// All nodes, each with the prober that runs on it. Those that have none are said, with the reason: what runs there is seen
/// as a backend, and nobody looks from there.
pub(super) fn nodes(cluster: &ClusterState, notes: &mut NoteCollector) -> Vec<NodeSpec> {
    let probers = probers(cluster);
    let machines: Vec<NodeSpec> = cluster
        .nodes
        .values()
        .filter_map(|node| {
            let name = NodeName::new(node.metadata.name.as_str()).ok()?;
            Some(NodeSpec {
                zone: zone(node),
                addresses: addresses(node),
                prober: probers.get(&name).map(|(_, prober)| prober.clone()),
                readiness: readiness(node),
                cordoned: node.spec.unschedulable,
                facts: NodeFacts {
                    kube_proxy_version: version(node),
                    ..NodeFacts::default()
                },
                name,
            })
        })
        .collect();
    blind(cluster, &machines, notes);
    machines
}

/// The probers in the nodes' own network, which look from there and are nobody's peer.
pub(super) fn host_vantages(cluster: &ClusterState, nodes: &[NodeSpec]) -> Vec<Vantage> {
    let known: BTreeSet<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    let on: BTreeSet<NodeName> = cluster
        .pods
        .values()
        .filter(|pod| runs(pod) && pod.spec.host_network)
        .filter_map(|pod| pod.spec.node_name.parse().ok())
        .filter(|node| known.contains(node))
        .collect();
    on.into_iter()
        .map(|node| Vantage::Cluster {
            node,
            network: Network::Host,
        })
        .collect()
}

/// Says which nodes have no prober, and why as far as the node tells.
fn blind(cluster: &ClusterState, machines: &[NodeSpec], notes: &mut NoteCollector) {
    // Before the first prober runs it is no news that there is none.
    if machines.iter().all(|node| node.prober.is_none()) {
        return;
    }
    let from_the_node = host_vantages(cluster, machines);
    let seeing: BTreeSet<&str> = machines
        .iter()
        .filter(|node| node.prober.is_some())
        .map(|node| &node.name)
        .chain(from_the_node.iter().filter_map(Vantage::node))
        .map(NodeName::as_str)
        .collect();
    let mut blind: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in cluster.nodes.values() {
        let name = node.metadata.name.as_str();
        if !seeing.contains(name) {
            blind.entry(reason(node)).or_default().push(name);
        }
    }
    for (why, names) in blind {
        let (shown, more) = names.split_at(names.len().min(NAMED));
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        notes.say(
            "Nodes without a vantage",
            format!(
                "{}{more}: {why}; what runs there is seen as a backend only",
                shown.join(", ")
            ),
        );
    }
}

fn reason(node: &Node) -> &'static str {
    let label = |name| node.metadata.label(name);
    if label("type") == Some("virtual-kubelet") || label("eks.amazonaws.com/compute-type") == Some("fargate")
    {
        "a virtual node takes no DaemonSet"
    } else if label("kubernetes.io/os").is_some_and(|os| os != "linux") {
        "the prober is for Linux"
    } else if readiness(node) == NodeReadiness::NotReady {
        "the node is not ready, and no prober runs on it"
    } else {
        "no prober runs on it"
    }
}

/// The condition `Ready`: `Unknown` is what the node controller writes once it has heard nothing of the kubelet for its
/// grace period.
fn readiness(node: &Node) -> NodeReadiness {
    let ready = |condition: &&NodeCondition| condition.kind == "Ready";
    match node.status.conditions.iter().find(ready) {
        Some(condition) if condition.status == "True" => NodeReadiness::Ready,
        Some(_) => NodeReadiness::NotReady,
        None => NodeReadiness::Unknown,
    }
}

fn zone(node: &Node) -> Option<ZoneName> {
    let label = node.metadata.label("topology.kubernetes.io/zone")?;
    ZoneName::new(label).ok()
}

fn addresses(node: &Node) -> Vec<std::net::IpAddr> {
    let mut addresses: Vec<_> = node
        .status
        .addresses
        .iter()
        .filter(|address| matches!(address.kind.as_str(), "InternalIP" | "ExternalIP"))
        .filter_map(|address| address.address.parse().ok())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// kube-proxy's version where the node tells it (until Kubernetes 1.32), else that of the kubelet it came with.
fn version(node: &Node) -> Option<ObjectName> {
    let info = &node.status.node_info;
    let said = [&info.kube_proxy_version, &info.kubelet_version];
    let version = said.into_iter().find(|version| !version.is_empty())?;
    ObjectName::new(version.as_str()).ok()
}

/// The prober of each node: a Pod that runs in the pod network and is not on its way out, the youngest where there are
/// two for a moment. That it is not ready is no reason to leave it out: a dead node's prober is missed, not forgotten.
fn probers(cluster: &ClusterState) -> BTreeMap<NodeName, (String, ProberSpec)> {
    let mut probers: BTreeMap<NodeName, (String, ProberSpec)> = BTreeMap::new();
    for pod in cluster.pods.values() {
        let in_pod_network = runs(pod) && !pod.spec.host_network;
        let Some((node, prober)) = in_pod_network.then(|| prober(pod)).flatten() else {
            continue;
        };
        let born = pod.metadata.creation_timestamp.clone();
        match probers.get(&node) {
            Some((known, _)) if *known >= born => {}
            _ => {
                probers.insert(node, (born, prober));
            }
        }
    }
    probers
}

/// Whether it runs, and to probe: a responder only answers.
fn runs(pod: &Pod) -> bool {
    pod.status.phase == "Running"
        && pod.metadata.deletion_timestamp.is_none()
        && pod.metadata.label("app.kubernetes.io/component") != Some("responder")
}

fn prober(pod: &Pod) -> Option<(NodeName, ProberSpec)> {
    let named = pod
        .spec
        .containers
        .iter()
        .flat_map(|container| &container.ports)
        .find(|port| port.name == "echo")
        .and_then(|port| u16::try_from(port.container_port).ok());
    let address = SocketAddr::new(pod.status.pod_ip.parse().ok()?, named.unwrap_or(ECHO_PORT));
    let prober = ProberSpec {
        pod: pod.metadata.name.parse().ok()?,
        address,
    };
    Some((pod.spec.node_name.parse().ok()?, prober))
}
