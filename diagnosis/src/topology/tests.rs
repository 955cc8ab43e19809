use parallax_model::{Front, Placement, Vantage};

use super::*;

/// Three nodes, the ingress on n1 only, policy Local: the state after incident I1.
fn three_nodes() -> serde_json::Value {
    serde_json::json!({
        "proxyMode": "ipvs",
        "nodes": [
            {"name": "n1", "prober": {"pod": "prober-n1", "address": "10.244.1.5:9095"}},
            {"name": "n2", "prober": {"pod": "prober-n2", "address": "10.244.2.5:9095"}},
            {"name": "n3"},
        ],
        "services": [{
            "namespace": "ingress", "name": "nginx", "type": "LoadBalancer",
            "clusterIPs": ["10.96.0.50"], "loadBalancer": [{"ip": "203.0.113.10"}],
            "externalTrafficPolicy": "Local",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "endpoints": [{"pod": "ingress-1", "address": "10.244.1.10", "node": "n1"}],
        }],
        "ingresses": [{
            "namespace": "shop", "name": "shop", "service": "ingress/nginx",
            "hosts": ["a.example.test", "b.example.test"],
        }],
    })
}

fn build(json: serde_json::Value) -> Result<Topology, Vec<Problem>> {
    serde_json::from_value::<TopologySpec>(json).unwrap().try_into()
}

fn front(text: &str) -> Front {
    text.parse().unwrap()
}

fn pod_of(node: &str) -> Vantage {
    Vantage::pod(node.parse().unwrap())
}

#[test]
fn hosts_and_http_cluster_addresses_become_targets() {
    let topology = build(three_nodes()).unwrap();
    let ids: Vec<_> = topology.targets().keys().map(ToString::to_string).collect();
    assert_eq!(
        ids,
        [
            "http://10.96.0.50:80/",
            "http://a.example.test/",
            "http://b.example.test/"
        ]
    );
}

#[test]
fn only_nodes_with_a_prober_are_expected_to_report() {
    let topology = build(three_nodes()).unwrap();
    assert_eq!(topology.vantages(), [pod_of("n1"), pod_of("n2")]);
}

#[test]
fn a_client_without_a_local_endpoint_is_no_local_though_nobody_knows_who_would_have_answered() {
    let topology = build(three_nodes()).unwrap();
    let lb = front("203.0.113.10:80");
    assert_eq!(
        topology.placement(&pod_of("n2"), Some(&lb), None),
        Placement::NoLocal
    );
    assert_eq!(
        topology.placement(&pod_of("n1"), Some(&lb), None),
        Placement::SameNode
    );
    let outside: Vantage = "internet:laptop".parse().unwrap();
    assert_eq!(topology.placement(&outside, Some(&lb), None), Placement::Outside);
    assert_eq!(
        topology.placement(&pod_of("n1"), Some(&front("198.51.100.7:80")), None),
        Placement::Unknown
    );
}

#[test]
fn with_two_entries_the_placement_of_a_local_client_waits_for_who_answered() {
    let mut json = three_nodes();
    json["proxyMode"] = "iptables".into();
    json["services"][0]["endpoints"] = serde_json::json!([
        {"pod": "ingress-1", "address": "10.244.1.10", "node": "n1"},
        {"pod": "ingress-2", "address": "10.244.2.10", "node": "n2"},
    ]);
    let topology = build(json).unwrap();
    let lb = front("203.0.113.10:80");
    let entry = |pod: &str| Some(pod.parse().unwrap());
    assert_eq!(
        topology.placement(&pod_of("n1"), Some(&lb), None),
        Placement::Unknown
    );
    assert_eq!(
        topology.placement(&pod_of("n1"), Some(&lb), entry("ingress-1").as_ref()),
        Placement::SameNode
    );
    assert_eq!(
        topology.placement(&pod_of("n1"), Some(&lb), entry("ingress-2").as_ref()),
        Placement::CrossNode
    );
}

#[test]
fn a_terminating_endpoint_serves_only_while_none_is_ready() {
    let mut json = three_nodes();
    json["services"][0]["endpoints"] = serde_json::json!([
        {"pod": "old", "address": "10.244.1.10", "node": "n1", "ready": false, "serving": true, "terminating": true},
        {"pod": "new", "address": "10.244.2.10", "node": "n2", "ready": false},
    ]);
    let lb = front("203.0.113.10:80");
    let names = |topology: &Topology| -> Vec<_> {
        topology
            .service_of(&lb)
            .unwrap()
            .usable()
            .iter()
            .map(|e| e.pod.to_string())
            .collect()
    };
    assert_eq!(names(&build(json.clone()).unwrap()), ["old"]);
    json["services"][0]["endpoints"][1]["ready"] = true.into();
    assert_eq!(names(&build(json).unwrap()), ["new"]);
}

#[test]
fn every_impossible_reference_is_reported_at_once_with_its_path() {
    let mut json = three_nodes();
    json["services"][0]["endpoints"][0]["node"] = "n9".into();
    json["ingresses"][0]["hosts"] = serde_json::json!(["*.example.test", "a.example.test", "a.example.test"]);
    json["nodes"][2]["name"] = "n1".into();
    let problems = build(json).unwrap_err();
    let paths: Vec<_> = problems.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "nodes[2].name",
            "services[0].endpoints[0].node",
            "ingresses[0].hosts[0]",
            "ingresses[0].hosts[2]"
        ]
    );
    let unknown = serde_json::json!({"nodez": []});
    assert!(serde_json::from_value::<TopologySpec>(unknown).is_err());
}
