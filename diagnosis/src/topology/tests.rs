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

fn build(json: serde_json::Value) -> Result<Topology, Vec<TopologyProblem>> {
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

#[test]
fn a_published_target_enters_and_originates_where_it_says_and_gives_exposure_its_class() {
    let mut json = three_nodes();
    json["ingresses"] = serde_json::json!([]);
    let services = json["services"].as_array_mut().unwrap();
    services.push(serde_json::json!({
        "namespace": "ingress", "name": "inner", "loadBalancer": [{"ip": "203.0.113.20"}],
        "ports": [{"port": 80, "targetPort": 8080}], "ingressClass": "inner",
    }));
    services.push(serde_json::json!({
        "namespace": "shop", "name": "web", "ports": [{"port": 80, "targetPort": 3000}],
    }));
    json["published"] = serde_json::json!([{
        "target": {"url": "http://a.example.test/ready"}, "service": "ingress/nginx", "port": 80,
        "class": "public", "origin": "shop/web",
    }]);
    let topology = build(json.clone()).unwrap();
    let placed = &topology.targets()[&"http://a.example.test/ready".parse().unwrap()];
    assert_eq!(placed.entry, Some(("ingress/nginx".parse().unwrap(), 8080)));
    assert_eq!(placed.origin, Some("shop/web".parse().unwrap()));
    let pairs: Vec<_> = topology.exposures().keys().map(ToString::to_string).collect();
    assert_eq!(
        pairs,
        [
            "http://a.example.test/ready#at=203.0.113.10:80",
            "http://a.example.test/ready#at=203.0.113.20:80"
        ]
    );
    json["published"][0]["port"] = 81.into();
    let problems = build(json).unwrap_err();
    assert_eq!(problems[0].path, "published[0].service");
}

#[test]
fn an_address_and_a_services_own_name_lead_to_its_entry_whoever_names_them() {
    let mut json = three_nodes();
    json["targets"] = serde_json::json!([
        {"url": "tcp://203.0.113.10:80"},
        {"url": "http://nginx.ingress.svc/"},
        {"url": "http://nginx.ingress.svc.cluster.local/x"},
        {"url": "tcp://203.0.113.10:81"},
        {"url": "http://nginx.elsewhere.svc/"},
        {"url": "dns://nginx.ingress.svc"},
    ]);
    let topology = build(json).unwrap();
    let entered: Vec<_> = topology
        .targets()
        .iter()
        .filter(|(id, _)| !id.as_str().contains("example") && !id.as_str().contains("10.96"))
        .map(|(id, placed)| (id.as_str(), placed.entry.is_some()))
        .collect();
    assert_eq!(
        entered,
        [
            ("dns://nginx.ingress.svc", false),
            ("http://nginx.elsewhere.svc/", false),
            ("http://nginx.ingress.svc.cluster.local/x", true),
            ("http://nginx.ingress.svc/", true),
            ("tcp://203.0.113.10:80", true),
            ("tcp://203.0.113.10:81", false),
        ]
    );
}

#[test]
fn a_services_wishes_decide_whether_and_how_its_cluster_address_is_asked() {
    let ids = |probe: serde_json::Value| -> Vec<String> {
        let mut json = three_nodes();
        json["ingresses"] = serde_json::json!([]);
        json["services"][0]["ports"]
            .as_array_mut()
            .unwrap()
            .push(serde_json::json!({"name": "amqp", "port": 5672, "targetPort": 5672}));
        json["services"][0]["probe"] = probe;
        build(json)
            .unwrap()
            .targets()
            .keys()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(ids(serde_json::json!({})), ["http://10.96.0.50:80/"]);
    assert_eq!(
        ids(serde_json::json!({"path": "/ok"})),
        ["http://10.96.0.50:80/ok"]
    );
    assert_eq!(ids(serde_json::json!({"wanted": false})), [""; 0]);
    assert_eq!(
        ids(serde_json::json!({"wanted": true})),
        ["http://10.96.0.50:80/", "tcp://10.96.0.50:5672"]
    );
}

#[test]
fn hints_narrow_what_a_client_is_sent_to_and_with_it_the_placement() {
    let mut json = three_nodes();
    json["services"][0]["externalTrafficPolicy"] = "Cluster".into();
    json["nodes"][0]["zone"] = "z1".into();
    json["nodes"][1]["zone"] = "z2".into();
    json["services"][0]["endpoints"] = serde_json::json!([
        {"pod": "a", "address": "10.244.1.10", "node": "n1", "hints": {"forZones": ["z1"]}},
        {"pod": "b", "address": "10.244.2.10", "node": "n2", "hints": {"forZones": ["z2"]}},
    ]);
    let lb = front("203.0.113.10:80");
    let topology = build(json.clone()).unwrap();
    assert_eq!(
        topology.placement(&pod_of("n1"), Some(&lb), None),
        Placement::SameNode
    );
    json["services"][0]["endpoints"][1]["hints"] = serde_json::json!({});
    let topology = build(json).unwrap();
    assert_eq!(
        topology.placement(&pod_of("n1"), Some(&lb), None),
        Placement::Unknown
    );
}
