//! Nodes and the probers on them.

use std::{collections::BTreeMap, net::SocketAddr};

use parallax_diagnosis::topology::{NodeFacts, NodeSpec, ProberSpec};
use parallax_model::{NodeName, ObjectName, ZoneName};

use crate::watch::kube::{
    cluster::Cluster,
    objects::{Node, Pod},
};

/// Where a prober's echo listens unless a port of its Pod is named `echo`.
const ECHO_PORT: u16 = 9095;

/// All nodes, each with the prober that runs on it.
pub(super) fn nodes(cluster: &Cluster) -> Vec<NodeSpec> {
    let probers = probers(cluster);
    cluster
        .nodes
        .values()
        .filter_map(|node| {
            let name = NodeName::new(node.metadata.name.as_str()).ok()?;
            Some(NodeSpec {
                zone: zone(node),
                addresses: addresses(node),
                prober: probers.get(&name).map(|(_, prober)| prober.clone()),
                facts: NodeFacts {
                    kube_proxy_version: version(node),
                    ..NodeFacts::default()
                },
                name,
            })
        })
        .collect()
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
fn probers(cluster: &Cluster) -> BTreeMap<NodeName, (String, ProberSpec)> {
    let mut probers: BTreeMap<NodeName, (String, ProberSpec)> = BTreeMap::new();
    for pod in cluster.pods.values() {
        let running = pod.status.phase == "Running"
            && pod.metadata.deletion_timestamp.is_none()
            && !pod.spec.host_network;
        let Some((node, prober)) = running.then(|| prober(pod)).flatten() else {
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
