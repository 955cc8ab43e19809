use parallax_model::{Placement, Vantage};
use serde_json::{Value, json};

use super::*;
use crate::topology::{ProxyMode, TopologySpec};

/// An ingress controller with `hostNetwork` on two of three nodes, and a Service with a node port and Pods on n1
/// and n2.
fn bare_metal(policy: &str) -> Value {
    json!({
        "nodes": [
            {"name": "n1", "zone": "a", "addresses": ["192.0.2.1", "2001:db8::1"]},
            {"name": "n2", "zone": "b", "addresses": ["192.0.2.2"]},
            {"name": "n3", "zone": "b", "addresses": ["192.0.2.3"]},
        ],
        "services": [
            {"namespace": "ingress", "name": "nginx", "clusterIPs": ["10.96.0.50"],
             "ports": [{"name": "http", "port": 80, "targetPort": 80}],
             "endpoints": [
                {"pod": "nginx-1", "address": "192.0.2.1", "node": "n1"},
                {"pod": "nginx-2", "address": "192.0.2.2", "node": "n2"},
             ]},
            {"namespace": "shop", "name": "web", "type": "NodePort", "clusterIPs": ["10.96.0.60"],
             "externalTrafficPolicy": policy,
             "ports": [{"port": 8080, "targetPort": 8000, "nodePort": 30080}],
             "endpoints": [
                {"pod": "web-1", "address": "10.244.1.10", "node": "n1"},
                {"pod": "web-2", "address": "10.244.2.10", "node": "n2"},
             ]},
        ],
        "published": [{"target": {"url": "http://a.example.test/"}, "service": "ingress/nginx", "port": 80}],
        "targets": [{"url": "http://192.0.2.3:30080/"}],
    })
}

fn build(value: Value) -> Topology {
    Topology::try_from(serde_json::from_value::<TopologySpec>(value).unwrap()).unwrap()
}

fn front(text: &str) -> Front {
    text.parse().unwrap()
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn pods(endpoints: &[&Endpoint]) -> Vec<String> {
    endpoints
        .iter()
        .map(|endpoint| endpoint.pod.to_string())
        .collect()
}

#[test]
fn a_pod_in_its_nodes_own_network_is_the_one_entry_of_that_nodes_address() {
    let topology = build(bare_metal("Cluster"));
    let (n1, n2) = (front("192.0.2.1:80"), front("192.0.2.2:80"));
    for (at, pod) in [(&n1, "nginx-1"), (&n2, "nginx-2")] {
        assert_eq!(topology.front(at).unwrap().kind, FrontKind::Host);
        assert_eq!(pods(&topology.entries(at)), [pod]);
        assert_eq!(pods(&topology.eligible(at, &node("n3"))), [pod]);
    }
    let placed = |from: &str| topology.placement(&Vantage::pod(node(from)), Some(&n1), None);
    assert_eq!(placed("n1"), Placement::SameNode);
    assert_eq!(
        placed("n2"),
        Placement::NoLocal,
        "its own ingress pod serves another front"
    );
    assert_eq!(placed("n3"), Placement::NoLocal);
    assert!(
        topology.front(&front("192.0.2.3:80")).is_none(),
        "no Pod listens on n3"
    );
    assert!(topology.front(&front("192.0.2.1:81")).is_none());
    assert!(!topology.uses_local_policy(&n1));
}

#[test]
fn a_node_port_belongs_to_every_address_of_every_node_and_leads_where_that_node_sends_it() {
    let topology = build(bare_metal("Cluster"));
    for at in [
        "192.0.2.1:30080",
        "[2001:db8::1]:30080",
        "192.0.2.2:30080",
        "192.0.2.3:30080",
    ] {
        let at = front(at);
        let info = topology.front(&at).unwrap();
        assert_eq!((info.kind, info.target_port), (FrontKind::NodePort, 8000));
        assert_eq!(pods(&topology.entries(&at)), ["web-1", "web-2"]);
    }
    let at = front("192.0.2.3:30080");
    assert_eq!(topology.node_serving(&at), Some(&node("n3")));
    assert_eq!(topology.has_local(&at, &node("n1")), Some(true));
    assert_eq!(topology.has_local(&at, &node("n3")), Some(false));
    assert!(
        topology.front(&front("192.0.2.9:30080")).is_none(),
        "an address of no node"
    );
}

#[test]
fn under_policy_local_a_node_port_leads_to_the_pods_of_the_node_that_is_asked() {
    let topology = build(bare_metal("Local"));
    let (n1, n3) = (front("192.0.2.1:30080"), front("192.0.2.3:30080"));
    assert_eq!(pods(&topology.eligible(&n1, &node("n2"))), ["web-1"]);
    // A Pod on the node itself reaches all endpoints, as at a balancer address from inside the cluster.
    assert_eq!(pods(&topology.eligible(&n1, &node("n1"))), ["web-1", "web-2"]);
    assert!(topology.entries(&n3).is_empty());
    let placed = |from: &str, at: &Front| topology.placement(&Vantage::pod(node(from)), Some(at), None);
    assert_eq!(placed("n2", &n1), Placement::NoLocal);
    assert_eq!(placed("n1", &n3), Placement::Unknown, "it leads nowhere");
    assert!(!topology.uses_local_policy(&n1), "other nodes have no say in it");
}

#[test]
fn hints_that_narrow_a_node_port_are_those_of_the_node_that_is_asked() {
    let mut written = bare_metal("Cluster");
    let endpoints = &mut written["services"][1]["endpoints"];
    endpoints[0]["hints"] = json!({"forZones": ["a"]});
    endpoints[1]["hints"] = json!({"forZones": ["b"]});
    let topology = build(written);
    let from_n1 = |at: &str| pods(&topology.eligible(&front(at), &node("n1")));
    assert_eq!(from_n1("192.0.2.1:30080"), ["web-1"]);
    assert_eq!(from_n1("192.0.2.3:30080"), ["web-2"]);
}

#[test]
fn addresses_of_nodes_are_listed_nowhere_and_a_target_that_names_one_has_its_entry() {
    let topology = build(bare_metal("Cluster"));
    let listed: Vec<String> = topology.fronts().keys().map(ToString::to_string).collect();
    assert_eq!(listed, ["10.96.0.50:80", "10.96.0.60:8080"]);
    let named = &topology.targets()[&"http://192.0.2.3:30080/".parse().unwrap()];
    assert_eq!(
        named.entry.as_ref().map(|(key, port)| (key.to_string(), *port)),
        Some(("shop/web".to_owned(), 8000))
    );
}

#[test]
fn a_balancers_address_at_a_node_stays_the_balancers() {
    let mut written = bare_metal("Cluster");
    written["services"][1]["loadBalancer"] = json!([{"ip": "192.0.2.1"}]);
    written["services"][1]["ports"][0]["port"] = json!(80);
    let topology = build(written);
    let info = topology.front(&front("192.0.2.1:80")).unwrap();
    assert_eq!(info.service.to_string(), "shop/web");
    assert_eq!(topology.node_serving(&front("192.0.2.1:80")), None);
    assert_eq!(
        topology.front(&front("192.0.2.2:80")).unwrap().kind,
        FrontKind::Host
    );
}

#[test]
fn of_two_services_over_one_pod_the_one_that_targets_enter_through_is_meant() {
    let mut written = bare_metal("Cluster");
    let services = written["services"].as_array_mut().unwrap();
    let mut other = services[0].clone();
    // Sorts first by name.
    other["name"] = json!("a-copy");
    other["clusterIPs"] = json!([]);
    services.push(other);
    let topology = build(written.clone());
    let service = |topology: &Topology| {
        let info = topology.front(&front("192.0.2.1:80")).unwrap();
        info.service.to_string()
    };
    assert_eq!(service(&topology), "ingress/nginx");
    written["published"] = json!([]);
    assert_eq!(service(&build(written)), "ingress/a-copy");
}

#[test]
fn an_endpoint_with_the_address_of_another_node_is_no_host_of_its_own() {
    let mut written = bare_metal("Cluster");
    written["services"][0]["endpoints"][0]["node"] = json!("n3");
    let topology = build(written);
    assert!(topology.front(&front("192.0.2.1:80")).is_none());
}

#[test]
fn in_ipvs_mode_a_node_that_has_endpoints_uses_only_those_for_its_own_pods() {
    let mut written = bare_metal("Local");
    written["proxyMode"] = json!("ipvs");
    let topology = build(written);
    assert_eq!(topology.proxy_mode(), ProxyMode::Ipvs);
    let own = |name: &str, at: &str| pods(&topology.eligible(&front(at), &node(name)));
    assert_eq!(own("n1", "192.0.2.1:30080"), ["web-1"]);
    assert_eq!(own("n3", "192.0.2.3:30080"), ["web-1", "web-2"]);
}
