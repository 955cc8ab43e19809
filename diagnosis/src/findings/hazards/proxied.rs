//! A load balancer that adds a PROXY header, and nodes that bypass it (F9).

use std::collections::BTreeSet;

use parallax_model::NodeName;

use super::{BalancerAddresses, Hazard, HazardKind, affected_clients, all_nodes, id, listed};
use crate::{
    findings::{ObservedFacts, Severity},
    topology::{IpMode, Service, Topology},
    verdict::Remedy,
};

/// Annotation values that mean off.
const DISABLED_VALUES: [&str; 6] = ["", "false", "off", "no", "0", "none"];

/// The annotation that enables PROXY headers. Every cloud controller has its own annotation, and all of them contain
/// the name of the protocol; one has it in a list of attributes.
fn annotation(service: &Service) -> Option<(&String, &String)> {
    service.annotations.iter().find(|(key, value)| {
        let key = key.to_ascii_lowercase().replace(['-', '_'], "");
        let value = value.trim().to_ascii_lowercase();
        let named = key.contains("proxyprotocol") && !DISABLED_VALUES.contains(&value.as_str());
        named || value.contains("proxy_protocol_v2.enabled=true")
    })
}

pub(super) fn hazard(
    topology: &Topology,
    facts: &ObservedFacts,
    service: &Service,
    balancers: &BalancerAddresses<'_>,
) -> Option<Hazard> {
    let addresses = balancers.addresses(service, IpMode::Vip);
    let (key, value) = annotation(service)?;
    if addresses.is_empty() || service.usable().is_empty() {
        return None;
    }
    let nodes: BTreeSet<NodeName> = all_nodes(topology)
        .into_iter()
        .filter(|node| facts.reached_from(&service.key, node).is_none())
        .collect();
    // If one node gets through, the entry accepts connections with and without the header.
    let through = facts
        .passing
        .get(&service.key)
        .is_some_and(|nodes| !nodes.is_empty());
    if nodes.is_empty() || through {
        return None;
    }
    let affected = affected_clients(&nodes, topology, "clients on ");
    let (namespace, name) = (&service.key.namespace, &service.key.name);
    Some(Hazard {
        id: id(HazardKind::ProxyBypass, &service.key.to_string()),
        kind: HazardKind::ProxyBypass,
        severity: Severity::Warning,
        subject: format!("Service {}", service.key),
        sentence: format!(
            "{} would be disconnected at {}: their node serves the address itself (ipMode: VIP), without the PROXY \
             header that the load balancer of Service {} adds and its endpoints require",
            affected.description,
            listed(&addresses),
            service.key
        ),
        affected,
        evidence: vec![
            format!("annotation {key} of Service {} is {value:?}", service.key),
            format!("{} has ipMode: VIP", listed(&addresses)),
        ],
        remedies: vec![
            Remedy::new(
                "have the cloud controller set ipMode: Proxy in the Service's status",
                Some(format!(
                    "kubectl -n {namespace} get service {name} -o jsonpath='{{.status.loadBalancer.ingress}}'"
                )),
                "needs Kubernetes 1.30 and a cloud controller that supports it; every in-cluster connection then takes \
                 the detour through the load balancer",
            )
            .with_ineffective_when("the load balancer may send a client back to its own node (F5–F7)"),
            Remedy::new(
                "publish a host name instead of an IP address in the Service's status",
                None,
                "a cloud controller annotation and a DNS record",
            )
            .with_ineffective_when("clients use the IP address"),
            Remedy::new(
                "make the endpoints accept connections with and without the header",
                None,
                "clients that reach the endpoints directly can forge the source address in their logs",
            )
            .with_ineffective_when("the ingress controller cannot distinguish the two (ingress-nginx)"),
        ],
    })
}
