//! externalTrafficPolicy: Local, endpoints on k of N nodes, and a data plane known to apply it to in-cluster clients
//! (F1, F3).

use std::collections::BTreeSet;

use parallax_model::NodeName;

use super::{BalancerAddresses, Hazard, HazardKind, affected_clients, id, listed};
use crate::{
    catalogue,
    findings::{ObservedFacts, Severity},
    topology::{IpMode, Node, ProxyMode, Service, Topology, TrafficPolicy, entry_nodes},
};

/// First kube-proxy that uses the cluster's endpoints on IPVS nodes without one (kubernetes#97081; in the code by about
/// 1.26).
const IPVS_FIXED: (u32, u32, u32) = (1, 26, 0);
/// First kube-proxy whose nftables rules accept the node's own clients (kubernetes#132456, #133969). Pods are accepted
/// before that version as well, because forwarded packets are already translated when they reach the filter.
const NFTABLES_FIXED: (u32, u32, u32) = (1, 33, 6);

/// How a node without an endpoint treats in-cluster clients of an address with traffic policy Local.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LocalPolicyHandling {
    /// Known to serve them, or nothing is known.
    ServesAll,
    /// Serves Pods, but not clients in the host network.
    RejectsHostNetwork,
    /// Older versions in this mode apply the policy, and the version is not known.
    MayApply,
    /// This mode and version are known to apply the policy.
    Applies,
}

pub(super) fn hazard(
    topology: &Topology,
    facts: &ObservedFacts,
    service: &Service,
    balancers: &BalancerAddresses<'_>,
) -> Option<Hazard> {
    let addresses = balancers.addresses(service, IpMode::Vip);
    let entries = entry_nodes(service);
    if service.external_traffic_policy != TrafficPolicy::Local || addresses.is_empty() || entries.is_empty() {
        return None;
    }
    let without: Vec<(NodeName, LocalPolicyHandling)> = topology
        .nodes()
        .values()
        .filter(|node| !entries.contains(&node.name))
        .map(|node| (&node.name, policy_handling(topology.proxy_mode(), node)))
        .filter(|(_, honours)| *honours != LocalPolicyHandling::ServesAll)
        .map(|(name, honours)| (name.clone(), honours))
        .collect();
    let worst = without.iter().map(|(_, honours)| *honours).max()?;
    // Probes from Pods are no evidence about the host network.
    let tried = |node: &NodeName| {
        worst != LocalPolicyHandling::RejectsHostNetwork && facts.reached_from(&service.key, node).is_some()
    };
    let nodes: BTreeSet<NodeName> = without
        .iter()
        .filter(|(node, honours)| *honours == worst && !tried(node))
        .map(|(node, _)| node.clone())
        .collect();
    if nodes.is_empty() {
        return None;
    }
    let mode = match topology.proxy_mode() {
        ProxyMode::Nftables => "nftables",
        _ => "IPVS",
    };
    let (before, effect, severity) = match worst {
        LocalPolicyHandling::RejectsHostNetwork => {
            ("clients in the host network of ", "time out", Severity::Notice)
        }
        _ => ("Pods on ", "be refused", Severity::Warning),
    };
    let affected = affected_clients(&nodes, topology, before);
    let entries_words = super::super::node_share(&entries, topology.nodes().len());
    let mut evidence = vec![
        format!("Service {} has externalTrafficPolicy: Local", service.key),
        format!("endpoints on {entries_words}"),
        format!("kube-proxy runs in {mode} mode"),
    ];
    evidence.push(match worst {
        LocalPolicyHandling::MayApply => {
            "its version is not known; before kubernetes#97081 (by about 1.26), it applies the policy to in-cluster \
             clients"
                .to_owned()
        }
        LocalPolicyHandling::RejectsHostNetwork if topology.proxy_mode() == ProxyMode::Nftables => format!(
            "kube-proxy {} serves Pods on such nodes, but drops connections from the node itself (kubernetes#132456)",
            versions(topology, &nodes)
        ),
        LocalPolicyHandling::RejectsHostNetwork => {
            "its version serves Pods on such nodes, but not clients with the node's own address (kubernetes#93456)"
                .to_owned()
        }
        LocalPolicyHandling::Applies | LocalPolicyHandling::ServesAll => {
            format!("kube-proxy {} applies the policy to in-cluster clients", versions(topology, &nodes))
        }
    });
    Some(Hazard {
        id: id(HazardKind::LocalPolicy, &service.key.to_string()),
        kind: HazardKind::LocalPolicy,
        severity,
        subject: format!("Service {}", service.key),
        sentence: format!(
            "{} would {effect} at {}: Service {} has externalTrafficPolicy: Local and endpoints only on {}",
            affected.description,
            listed(addresses),
            service.key,
            listed(&entries),
        ),
        affected,
        evidence,
        remedies: catalogue::no_local::service_remedies(topology, service),
    })
}

/// Derives the handling from the proxy mode and the node's kube-proxy version.
fn policy_handling(mode: ProxyMode, node: &Node) -> LocalPolicyHandling {
    let version = node
        .facts
        .kube_proxy_version
        .as_ref()
        .and_then(|v| version(v.as_str()));
    match (mode, version) {
        (ProxyMode::Ipvs, None) => LocalPolicyHandling::MayApply,
        (ProxyMode::Ipvs, Some(version)) if version < IPVS_FIXED => LocalPolicyHandling::Applies,
        (ProxyMode::Ipvs, Some(_)) => LocalPolicyHandling::RejectsHostNetwork,
        (ProxyMode::Nftables, Some(version)) if version < NFTABLES_FIXED => {
            LocalPolicyHandling::RejectsHostNetwork
        }
        (ProxyMode::Nftables | ProxyMode::Iptables | ProxyMode::Unknown, _) => LocalPolicyHandling::ServesAll,
    }
}

fn versions(topology: &Topology, nodes: &BTreeSet<NodeName>) -> String {
    let all: BTreeSet<String> = nodes
        .iter()
        .filter_map(|node| topology.nodes().get(node)?.facts.kube_proxy_version.as_ref())
        .map(ToString::to_string)
        .collect();
    listed(all)
}

/// `v1.25.3+k3s1` → (1, 25, 3).
fn version(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.trim_start_matches('v').splitn(3, '.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    });
    Some((
        numbers.next()??,
        numbers.next()??,
        numbers.next().flatten().unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_with_and_without_its_letter_and_tail() {
        assert_eq!(version("v1.25.3"), Some((1, 25, 3)));
        assert_eq!(version("1.33.6+k3s1"), Some((1, 33, 6)));
        assert_eq!(version("1.26"), Some((1, 26, 0)));
        assert_eq!(version("unknown"), None);
    }
}
