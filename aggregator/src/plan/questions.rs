//! What a pod prober is to ask of its own node: kube-proxy's health, and what it tells balancers.

use std::net::SocketAddr;

use parallax_diagnosis::topology::Topology;
use parallax_model::{FactQuestions, Network, Vantage};

/// Kube-proxy's `healthzBindAddress`, on every address of the node.
const HEALTHZ: u16 = 10_256;

/// Services asked for; a prober asks all of them at each look.
const MOST_CHECKS: usize = 64;

pub(super) fn questions(topology: &Topology, vantage: &Vantage) -> FactQuestions {
    let Vantage::Cluster {
        node,
        network: Network::Pod,
    } = vantage
    else {
        return FactQuestions::default();
    };
    let Some(address) = topology
        .nodes()
        .get(node)
        .and_then(|node| node.addresses.first().copied())
    else {
        return FactQuestions::default();
    };
    let at = |port| SocketAddr::new(address, port);
    FactQuestions {
        healthz: Some(at(HEALTHZ)),
        health_checks: topology
            .services()
            .values()
            .filter_map(|service| service.health_check_node_port.map(at))
            .take(MOST_CHECKS)
            .collect(),
    }
}
