//! Nodes and their probers.

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

/// Default echo port of a prober; a container port named `echo` overrides it.
const ECHO_PORT: u16 = 9095;

/// Maximum number of nodes named in one note; a large cluster can temporarily lack all its probers.
const MAX_NAMED_NODES: usize = 8;

/// Returns all nodes, each with the prober that runs on it. Notes nodes without a prober and the reason:
/// their endpoints are probed, but they are not vantages.
pub(super) fn nodes(cluster: &ClusterState, collector: &mut NoteCollector) -> Vec<NodeSpec> {
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
                    kube_proxy_version: kube_proxy_version(node),
                    ..NodeFacts::default()
                },
                name,
            })
        })
        .collect();
    note_nodes_without_prober(cluster, &machines, collector);
    machines
}

/// The vantages of probers in the host network. They are not peers of the mesh.
pub(super) fn host_vantages(cluster: &ClusterState, nodes: &[NodeSpec]) -> Vec<Vantage> {
    let known: BTreeSet<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    let on: BTreeSet<NodeName> = cluster
        .pods
        .values()
        .filter(|pod| is_running_prober(pod) && pod.spec.host_network)
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

/// Notes which nodes have no prober, with the reason as far as the Node shows it.
fn note_nodes_without_prober(cluster: &ClusterState, nodes: &[NodeSpec], collector: &mut NoteCollector) {
    // Before the first prober runs, a missing prober is not worth a note.
    if nodes.iter().all(|node| node.prober.is_none()) {
        return;
    }
    let from_the_node = host_vantages(cluster, nodes);
    let seeing: BTreeSet<&str> = nodes
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
            blind.entry(missing_prober_reason(node)).or_default().push(name);
        }
    }
    for (reason, names) in blind {
        let (shown, more) = names.split_at(names.len().min(MAX_NAMED_NODES));
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        collector.add(
            "Nodes without a vantage",
            format!(
                "{}{more}: {reason}; endpoints there are probed, but nothing is probed from there",
                shown.join(", ")
            ),
        );
    }
}

fn missing_prober_reason(node: &Node) -> &'static str {
    let label = |name| node.metadata.label(name);
    if label("type") == Some("virtual-kubelet") || label("eks.amazonaws.com/compute-type") == Some("fargate")
    {
        "a virtual node does not run DaemonSets"
    } else if label("kubernetes.io/os").is_some_and(|os| os != "linux") {
        "the prober requires Linux"
    } else if readiness(node) == NodeReadiness::NotReady {
        "the node is not ready, and no prober runs on it"
    } else {
        "no prober runs on it"
    }
}

/// The condition `Ready`. The node controller sets it to `Unknown` when it has not heard from the kubelet for
/// its grace period.
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

/// Version of kube-proxy if the Node reports it (until Kubernetes 1.32), otherwise of the kubelet.
fn kube_proxy_version(node: &Node) -> Option<ObjectName> {
    let info = &node.status.node_info;
    let versions = [&info.kube_proxy_version, &info.kubelet_version];
    let version = versions.into_iter().find(|version| !version.is_empty())?;
    ObjectName::new(version.as_str()).ok()
}

/// The prober of each node: a running Pod in the Pod network that is not terminating; the youngest if there
/// are temporarily two. Readiness does not matter: the prober of a dead node must be missed, not forgotten.
fn probers(cluster: &ClusterState) -> BTreeMap<NodeName, (String, ProberSpec)> {
    let mut probers: BTreeMap<NodeName, (String, ProberSpec)> = BTreeMap::new();
    for pod in cluster.pods.values() {
        let in_pod_network = is_running_prober(pod) && !pod.spec.host_network;
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

/// Whether the Pod runs and is a prober, not a responder.
fn is_running_prober(pod: &Pod) -> bool {
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
