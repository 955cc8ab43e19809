//! A balancer that really is asked, and may hand a client back to the node it came from (I8; F5–F7).
//!
//! Latent where no client sits next to an entry today: it fails as soon as one does.

use std::collections::BTreeSet;

use parallax_model::NodeName;

use super::{BalancerAddresses, Hazard, HazardKind, all_nodes, id, listed, who};
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
    // A public balancer sees the node's outside address, not the pod's (I8.4).
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
    // With one node to choose, a single answer settles it; with more, only a failure does.
    let settled = |node: &NodeName| match facts.tried(&service.key, node) {
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
    let who = who(&nodes, topology, "clients on ");
    let mut evidence = vec![
        format!(
            "{} has ipMode Proxy: traffic really leaves the node",
            listed(&addresses)
        ),
        format!(
            "externalTrafficPolicy of Service {} is {}: the balancer chooses among {}",
            service.key,
            if local { "Local" } else { "Cluster" },
            super::super::of_nodes(&pool, topology.nodes().len())
        ),
    ];
    evidence.push(if sure {
        "the balancer keeps the client's address (from configuration)".to_owned()
    } else {
        "whether the balancer translates the client's address is not known: with translation nothing loops"
            .to_owned()
    });
    let policy_note = if local {
        "; externalTrafficPolicy: Cluster would not cure it where traffic leaves the node, but put every node in the pool"
    } else {
        ""
    };
    Some(Hazard {
        id: id(HazardKind::Loopback, &service.key.to_string()),
        kind: HazardKind::Loopback,
        severity: if sure { Severity::Warning } else { Severity::Notice },
        subject: format!("Service {}", service.key),
        sentence: format!(
            "{} would time out at {} {share}: the balancer hands them back to their own node, which drops its own \
             address as a source{policy_note}",
            who.words,
            listed(&addresses),
        ),
        who,
        evidence,
        remedies: remedies(topology, service, &entries),
    })
}

fn remedies(topology: &Topology, service: &Service, entries: &BTreeSet<NodeName>) -> Vec<Remedy> {
    let (namespace, name) = (&service.key.namespace, &service.key.name);
    let mut remedies = vec![
        Remedy::new(
            "call the Service by its cluster name from inside, or rewrite the public name to it in CoreDNS",
            Some(format!("kubectl -n {namespace} get service {name} -o wide")),
            "inside and outside take different ways; TLS and PROXY settings must hold on both",
        )
        .not_when("clients use the balancer's address itself"),
    ];
    if service.external_traffic_policy == TrafficPolicy::Local {
        remedies.push(
            Remedy::new(
                "keep clients and entries on different nodes (podAntiAffinity)",
                None,
                format!(
                    "clients keep off {}",
                    super::super::of_nodes(entries, topology.nodes().len())
                ),
            )
            .not_when("entries move, or run on every node (DaemonSet)"),
        );
    }
    remedies.push(
        Remedy::new(
            "have the balancer translate the client's address (turn client address preservation off)",
            None,
            "endpoints see the balancer's address; PROXY protocol can still tell them the client's",
        )
        .not_when("the provider's internal balancer cannot"),
    );
    remedies.push(
        Remedy::new(
            "let the balancer reach the pods directly, without the nodes' ports",
            None,
            format!(
                "needs a cloud network whose pods have addresses of their own; {} instead of nodes are registered",
                crate::wording::plural(service.usable().len(), "endpoint")
            ),
        )
        .not_when("the client is itself the endpoint: it still loops back to itself"),
    );
    remedies
}
