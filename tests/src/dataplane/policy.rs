//! Packets that a node's network plugin drops for a `NetworkPolicy`, as rules. Pure.
//!
//! A policy that selects Pods admits what it names and nothing else; egress of the Pods and replies to them pass
//! (<https://kubernetes.io/docs/concepts/services-networking/network-policies/>). The Pod's node drops packets
//! silently, and is admitted itself, as the kubelet must be.

use crate::{
    cluster::{Cluster, Node},
    command::GuestCommand,
    net,
};

/// The plugin's chain in the `filter` table.
const CHAIN: &str = "CNI-POLICY";

pub(super) fn prepare(cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
    let rules = [format!(":{CHAIN} - [0:0]"), format!("-A FORWARD -j {CHAIN}")];
    let name = Some(node.name.as_str());
    let mut commands = vec![net::restore(name, "filter", &rules)];
    if cluster.is_dual_stack() {
        commands.push(net::restore_six(name, "filter", &rules));
    }
    commands
}

pub(super) fn rules(cluster: &Cluster, node: &Node) -> Vec<String> {
    // The chain is empty initially.
    if cluster
        .services
        .iter()
        .all(|service| service.network_policy.is_none())
    {
        return Vec::new();
    }
    let mut lines = vec![format!(":{CHAIN} - [0:0]")];
    for service in &cluster.services {
        let Some((_, admits)) = &service.network_policy else {
            continue;
        };
        let admitted = admits.iter().filter_map(|key| cluster.service(key));
        let admitted: Vec<_> = admitted.flat_map(|service| &service.endpoints).collect();
        for pod in service.endpoints.iter().filter(|pod| pod.node == node.name) {
            let to = format!("-A {CHAIN} -d {}/32 -m conntrack --ctstate NEW", pod.address);
            let let_in = |from: &crate::cluster::Pod| format!("{to} -s {}/32 -j ACCEPT", from.address);
            lines.extend(admitted.iter().map(|from| let_in(from)));
            lines.push(format!("{to} -j DROP"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_policy_keeps_everybody_from_the_pods_of_its_service_but_those_it_admits() {
        let text = include_str!("../../incidents/f13.yaml");
        let incident = crate::incident_file::parse(Path::new("f13.yaml"), text).unwrap();
        let mut cluster = Cluster::derive(&incident).unwrap();
        assert!(rules(&cluster, &cluster.nodes[2]).is_empty(), "no policy yet");
        for op in &incident.faults[0].ops {
            cluster.apply(op).unwrap();
        }
        let default_drop = "-A CNI-POLICY -d 10.244.3.10/32 -m conntrack --ctstate NEW -j DROP";
        assert_eq!(rules(&cluster, &cluster.nodes[2])[1..], [default_drop.to_owned()]);
        assert_eq!(
            rules(&cluster, &cluster.nodes[0]).len(),
            1,
            "none of its pods runs there"
        );
        let open = "network-policy: {service: shop/web, name: open, admits: [ingress/ingress-nginx]}";
        cluster.apply(&serde_saphyr::from_str(open).unwrap()).unwrap();
        let lines = rules(&cluster, &cluster.nodes[2]);
        assert!(
            lines[1].contains("-d 10.244.3.10/32") && lines[1].ends_with("-s 10.244.1.10/32 -j ACCEPT"),
            "{lines:?}"
        );
        assert_eq!(lines.last().unwrap(), default_drop);
    }
}
