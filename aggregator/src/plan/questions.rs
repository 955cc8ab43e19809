//! Fact requests to Pod probers about their own node: kube-proxy's health, and its health checks for balancers.

use std::net::SocketAddr;

use parallax_diagnosis::topology::Topology;
use parallax_model::{FactQuestions, Network, Vantage};

/// Default port of kube-proxy's `healthzBindAddress`, which listens on every address of the node.
const KUBE_PROXY_HEALTHZ_PORT: u16 = 10_256;

/// Maximum number of Services; a prober queries all of them each time.
const MAX_HEALTH_CHECKS: usize = 64;

pub(super) fn fact_questions(topology: &Topology, vantage: &Vantage) -> FactQuestions {
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
        healthz: Some(at(KUBE_PROXY_HEALTHZ_PORT)),
        health_checks: topology
            .services()
            .values()
            .filter_map(|service| service.health_check_node_port.map(at))
            .take(MAX_HEALTH_CHECKS)
            .collect(),
    }
}
