//! A load balancer that in-cluster traffic really reaches, and that may send a client back to its own node (I8; F5–F7).
//!
//! The hazard is latent while no client runs on the same node as an endpoint; such a client fails.

use std::collections::BTreeSet;

use parallax_model::NodeName;

use super::{BalancerAddresses, Hazard, HazardKind, affected_clients, all_nodes, id, listed};
use crate::{
    findings::{ObservedFacts, Severity},
    topology::{IpMode, Service, Topology, TrafficPolicy, entry_nodes, is_private},
    verdict::Remedy,
};

pub(super) fn hazard(
    topology: &Topology,
    facts: &ObservedFacts,
    service: &Service,
    balancers: &BalancerAddresses<'_>,
) -> Option<Hazard> {
    let addresses = balancers.addresses(service, IpMode::Proxy);
    let entries = entry_nodes(service);
    if addresses.is_empty() || entries.is_empty() {
        return None;
    }
    let configured = topology
        .balancers()
        .iter()
        .find(|balancer| balancer.services.contains(&service.key))
        .and_then(|balancer| balancer.preserves_client_address);
    // A public balancer sees the node's external address, not the Pod's (I8.4).
    let inside = addresses.iter().any(|address| is_private(*address));
    let sure = match (configured, inside) {
        (Some(false), _) | (None, false) => return None,
        (Some(true), _) => true,
        (None, true) => false,
    };
    let local = service.external_traffic_policy == TrafficPolicy::Local;
    let pool = if local {
        entries.clone()
    } else {
        all_nodes(topology)
    };
    // With one node in the pool, one success disproves the hazard; with more, only a failure settles the case.
    let settled = |node: &NodeName| match facts.reached_from(&service.key, node) {
        Some(true) => pool.len() == 1 || !sure,
        Some(false) => true,
        None => false,
    };
    let nodes: BTreeSet<NodeName> = pool.iter().filter(|node| !settled(node)).cloned().collect();
    if nodes.is_empty() {
        return None;
    }
    let share = if pool.len() == 1 {
        "always".to_owned()
    } else {
        format!("one time in {}", pool.len())
    };
    let affected = affected_clients(&nodes, topology, "clients on ");
    let mut evidence = vec![
        format!(
            "{} has ipMode: Proxy: traffic really leaves the node",
            listed(&addresses)
        ),
        format!(
            "Service {} has externalTrafficPolicy: {}: the load balancer chooses among {}",
            service.key,
            if local { "Local" } else { "Cluster" },
            super::super::node_share(&pool, topology.nodes().len())
        ),
    ];
    evidence.push(if sure {
        "the load balancer preserves the client's address (from configuration)".to_owned()
    } else {
        "it is not known whether the load balancer translates the client's address; with translation, there is no \
         loopback"
            .to_owned()
    });
    let policy_note = if local {
        "; externalTrafficPolicy: Cluster would not fix this where traffic leaves the node, it would add every node \
         to the pool"
    } else {
        ""
    };
    Some(Hazard {
        id: id(HazardKind::Loopback, &service.key.to_string()),
        kind: HazardKind::Loopback,
        severity: if sure { Severity::Warning } else { Severity::Notice },
        subject: format!("Service {}", service.key),
        sentence: format!(
            "{} would time out at {} {share}: the load balancer sends them back to their own node, which drops packets \
             from its own address{policy_note}",
            affected.description,
            listed(&addresses),
        ),
        affected,
        evidence,
        remedies: remedies(topology, service, &entries),
    })
}

fn remedies(topology: &Topology, service: &Service, entries: &BTreeSet<NodeName>) -> Vec<Remedy> {
    let (namespace, name) = (&service.key.namespace, &service.key.name);
    let mut remedies = vec![
        Remedy::new(
            "inside the cluster, call the Service by its cluster name, or rewrite the public name to it in CoreDNS",
            Some(format!("kubectl -n {namespace} get service {name} -o wide")),
            "clients inside and outside take different paths; TLS and PROXY protocol must work on both",
        )
        .with_ineffective_when("clients use the load balancer's IP address"),
    ];
    if service.external_traffic_policy == TrafficPolicy::Local {
        remedies.push(
            Remedy::new(
                "keep clients and endpoints on different nodes (podAntiAffinity)",
                None,
                format!(
                    "clients cannot run on {}",
                    super::super::node_share(entries, topology.nodes().len())
                ),
            )
            .with_ineffective_when("endpoints move between nodes, or run on every node (DaemonSet)"),
        );
    }
    remedies.push(
        Remedy::new(
            "have the load balancer translate the client's address (disable client IP preservation)",
            None,
            "endpoints see the load balancer's address; PROXY protocol can still carry the client's",
        )
        .with_ineffective_when("the provider's internal load balancer does not support it"),
    );
    remedies.push(
        Remedy::new(
            "let the load balancer target the Pods directly instead of the nodes' ports",
            None,
            format!(
                "needs a cloud network that gives Pods routable addresses; registers {} instead of nodes",
                crate::wording::pluralize(service.usable().len(), "endpoint")
            ),
        )
        .with_ineffective_when("the client is itself the endpoint: it still loops back to itself"),
    );
    remedies
}
