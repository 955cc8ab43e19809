use parallax_diagnosis::topology::Topology;
use parallax_model::{Front, Placement, Vantage};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::Value;

use super::*;
use crate::{objects::ClusterObject, objects::resource::ResourceKind, topology_state::SourceNote};

const SHOP: &str = include_str!("fixtures/shop.yaml");
const ODD: &str = include_str!("fixtures/odd.yaml");
const GATEWAY: &str = include_str!("fixtures/gateway.yaml");
const BARE_METAL: &str = include_str!("fixtures/bare-metal.yaml");

/// The objects of a fixture, as the API server would return them.
fn objects(yaml: &str) -> Vec<(ResourceKind, Value)> {
    let values: Vec<Value> = serde_saphyr::from_str(yaml).unwrap();
    values
        .into_iter()
        .map(|value| {
            let resource = match value["kind"].as_str().unwrap() {
                "Node" => ResourceKind::Nodes,
                "Namespace" => ResourceKind::Namespaces,
                "Service" => ResourceKind::Services,
                "EndpointSlice" => ResourceKind::EndpointSlices,
                "Ingress" => ResourceKind::Ingresses,
                "IngressClass" => ResourceKind::IngressClasses,
                "NetworkPolicy" => ResourceKind::NetworkPolicies,
                "Job" => ResourceKind::Jobs,
                "Pod" => ResourceKind::Pods,
                "Gateway" => ResourceKind::Gateways,
                "HTTPRoute" => ResourceKind::HttpRoutes,
                other => panic!("no such kind: {other}"),
            };
            (resource, value)
        })
        .collect()
}

pub(super) fn cluster(yaml: &str) -> ClusterState {
    let mut cluster = ClusterState::default();
    for (resource, value) in objects(yaml) {
        cluster.listed.insert(resource);
        cluster.put(ClusterObject::parse(resource, value).unwrap());
    }
    cluster
}

#[derive(Serialize)]
pub(super) struct Discovered {
    pub(super) spec: TopologySpec,
    pub(super) notes: Vec<SourceNote>,
}

pub(super) fn discovered(yaml: &str, defaults: TargetDefaults) -> Discovered {
    let mut notes = NoteCollector::default();
    let spec = discover(&cluster(yaml), defaults, &mut JobServices::default(), &mut notes);
    Discovered {
        spec,
        notes: notes.finish(),
    }
}

pub(super) fn topology(yaml: &str) -> Topology {
    Topology::try_from(discovered(yaml, TargetDefaults::Published).spec).unwrap()
}

fn targets(topology: &Topology) -> Vec<String> {
    topology.targets().keys().map(ToString::to_string).collect()
}

#[test]
fn a_cluster_becomes_nodes_services_and_targets_with_entry_and_origin() {
    insta::assert_yaml_snapshot!("shop", discovered(SHOP, TargetDefaults::Published));
}

#[test]
fn a_pending_service_is_pending_at_its_load_balancer_and_by_its_headless_name() {
    let yaml = r#"
- kind: Service
  metadata: {namespace: shop, name: web, annotations: {parallax.dev/pending: "true"}}
  spec: {type: LoadBalancer, clusterIPs: [10.96.0.60], ports: [{name: http, port: 80}]}
  status: {loadBalancer: {ingress: [{ip: 203.0.113.10}]}}
- kind: Service
  metadata: {namespace: shop, name: peers, annotations: {parallax.dev/pending: "true"}}
  spec: {type: ClusterIP, clusterIP: None, clusterIPs: [None], ports: [{name: http, port: 80, targetPort: 8080}]}
"#;
    let topology = topology(yaml);
    for target in [
        "http://203.0.113.10/",
        "http://peers.shop.svc:8080/",
        "http://10.96.0.60:80/",
    ] {
        let mut all = topology.targets().iter();
        let found = all.find(|(id, _)| id.to_string() == target);
        assert!(
            found.is_some_and(|(_, found)| found.target.pending),
            "{target}: {:?}",
            targets(&topology)
        );
    }
}

#[test]
fn whatever_is_odd_has_a_defined_state_and_a_note() {
    insta::assert_yaml_snapshot!("odd", discovered(ODD, TargetDefaults::Published));
}

#[test]
fn routes_enter_through_their_gateways_on_the_hosts_that_both_name() {
    insta::assert_yaml_snapshot!("gateway", discovered(GATEWAY, TargetDefaults::Published));
}

#[test]
fn a_controller_in_the_nodes_own_network_is_found_by_the_addresses_that_its_ingresses_name() {
    insta::assert_yaml_snapshot!("bare-metal", discovered(BARE_METAL, TargetDefaults::Published));
}

#[test]
fn an_answer_at_a_node_is_placed_against_the_pod_that_listens_there_and_against_no_other() {
    let topology = topology(BARE_METAL);
    let id = "https://shop.example.test/".parse().unwrap();
    let placed = &topology.targets()[&id];
    // Not the webhook of the same Pods, although it serves port 443.
    assert_eq!(placed.entry, Some(("ingress/nginx".parse().unwrap(), 443)));
    assert_eq!(placed.origin, Some("shop/web".parse().unwrap()));
    let placement = |node: &str, front: &str| {
        let front: Front = front.parse().unwrap();
        topology.placement(&Vantage::pod(node.parse().unwrap()), Some(&front), None)
    };
    assert_eq!(placement("n1", "192.0.2.1:443"), Placement::SameNode);
    assert_eq!(placement("n2", "192.0.2.1:443"), Placement::NoLocal);
    assert_eq!(placement("n3", "192.0.2.2:80"), Placement::NoLocal);
    assert_eq!(
        placement("n1", "192.0.2.3:443"),
        Placement::Unknown,
        "no endpoint listens there"
    );
    // The node port on any node: its only endpoint is on n3.
    assert_eq!(placement("n3", "192.0.2.1:30080"), Placement::SameNode);
    assert_eq!(placement("n1", "192.0.2.1:30080"), Placement::NoLocal);
}

#[test]
fn what_is_discovered_is_a_topology_as_it_stands() {
    for yaml in [SHOP, ODD, GATEWAY, BARE_METAL] {
        let built = Topology::try_from(discovered(yaml, TargetDefaults::Published).spec);
        assert!(built.is_ok(), "{:?}", built.unwrap_err());
    }
}

#[test]
fn hosts_services_that_say_http_and_the_api_server_are_targets_and_a_database_is_not() {
    assert_eq!(
        targets(&topology(SHOP)),
        [
            "dns://kubernetes.default.svc#glibc",
            "http://10.96.0.50:80/",
            "http://10.96.1.1:80/",
            "http://shop.example.test/",
            "https://shop.example.test/",
            "tcp://kubernetes.default.svc:443",
        ]
    );
}

#[test]
fn with_targets_by_annotation_only_nothing_is_probed_unasked() {
    let built = Topology::try_from(discovered(SHOP, TargetDefaults::Annotated).spec).unwrap();
    assert_eq!(targets(&built), [""; 0]);
    let built = Topology::try_from(discovered(ODD, TargetDefaults::Annotated).spec).unwrap();
    assert_eq!(
        targets(&built),
        [
            "http://10.96.2.2:80/",
            "tcp://10.96.1.2:5432",
            "tcp://[fd00::2]:5432"
        ]
    );
}

#[test]
fn a_host_enters_through_the_controller_and_originates_in_the_backend_of_its_root_path() {
    let topology = topology(SHOP);
    let id = "https://shop.example.test/".parse().unwrap();
    let placed = &topology.targets()[&id];
    assert_eq!(placed.entry, Some(("ingress/nginx".parse().unwrap(), 8443)));
    assert_eq!(placed.origin, Some("shop/web".parse().unwrap()));
}

#[test]
fn placement_follows_policy_and_draining_endpoints_as_kube_proxy_does() {
    let topology = topology(SHOP);
    let placement = |node: &str, front: &str| {
        let front: Front = front.parse().unwrap();
        topology.placement(&Vantage::pod(node.parse().unwrap()), Some(&front), None)
    };
    // The load balancer's policy is Local: n2's own draining endpoint still serves there. It does not for the
    // cluster IP.
    assert_ne!(placement("n2", "203.0.113.10:80"), Placement::NoLocal);
    assert_eq!(placement("n2", "10.96.0.50:80"), Placement::NoLocal);
    assert_eq!(placement("n1", "10.96.0.50:80"), Placement::SameNode);
}

#[test]
fn two_gateways_give_the_exposure_check_its_pairs() {
    let topology = topology(GATEWAY);
    let pairs: Vec<_> = topology.exposures().keys().map(ToString::to_string).collect();
    insta::assert_yaml_snapshot!("exposures", pairs);
}

/// A value that does not belong where it is inserted.
fn nonsense() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "*",
            "*.",
            "n1",
            "10.96.0.50",
            "::",
            "shop/web",
            "http",
            "Local",
            "\u{0}",
            "true",
            "0s",
        ])
        .prop_map(Value::from),
        Just(Value::from("x".repeat(3_000))),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!([null, {"name": null}, 7])),
    ]
}

/// Replaces the value at the end of a random walk through the object.
fn replace(value: &mut Value, turns: &[usize], by: Value) {
    let next = turns.split_first().and_then(|(turn, rest)| match value {
        Value::Object(fields) if !fields.is_empty() => {
            let n = fields.len();
            Some((fields.values_mut().nth(turn % n), rest))
        }
        Value::Array(items) if !items.is_empty() => {
            let n = items.len();
            Some((items.get_mut(turn % n), rest))
        }
        _ => None,
    });
    match next {
        Some((Some(inner), rest)) => replace(inner, rest, by),
        _ => *value = by,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn objects_with_nonsense_in_them_cost_themselves_at_most(
        changes in prop::collection::vec((any::<usize>(), prop::collection::vec(0..8_usize, 1..8), nonsense()), 1..12),
        fixture in 0..4_usize,
    ) {
        let mut objects = objects([SHOP, ODD, GATEWAY, BARE_METAL][fixture]);
        for (i, turns, by) in changes {
            let n = objects.len();
            replace(&mut objects[i % n].1, &turns, by);
        }
        let mut cluster = ClusterState::default();
        for (resource, value) in objects {
            if let Ok(object) = ClusterObject::parse(resource, value) {
                cluster.put(object);
            }
        }
        let mut notes = NoteCollector::default();
        let mut spec = discover(&cluster, TargetDefaults::Published, &mut JobServices::default(), &mut notes);
        let mut tries = 0;
        while let Err(problems) = Topology::try_from(spec.clone()) {
            tries += 1;
            prop_assert!(prune(&mut spec, &problems, &mut notes), "nothing pruned for {problems:?}");
            prop_assert!(tries < 10, "{problems:?}");
        }
        for note in notes.finish() {
            prop_assert!(!note.to_string().contains(char::is_control), "{note:?}");
        }
    }
}

#[test]
fn each_host_knows_the_object_that_publishes_it() {
    use crate::topology_state::PublisherKind;

    for (yaml, sort) in [
        (SHOP, PublisherKind::Ingress),
        (GATEWAY, PublisherKind::HttpRoute),
    ] {
        let mut notes = NoteCollector::default();
        let spec = discover(
            &cluster(yaml),
            TargetDefaults::Published,
            &mut JobServices::default(),
            &mut notes,
        );
        let publishers = notes.take_publishers();
        let of_sort = publishers.values().filter(|publisher| publisher.kind == sort);
        assert!(of_sort.count() > 0, "{publishers:?}");
        let topology = Topology::try_from(spec).unwrap();
        assert!(
            publishers
                .keys()
                .all(|target| topology.targets().contains_key(target))
        );
    }
}

#[test]
fn what_answers_for_a_challenge_is_no_target_and_no_oddity() {
    let solver = "labels: {acme.cert-manager.io/http01-solver: 'true'}, namespace: shop";
    let objects = format!(
        "
- kind: Service
  metadata: {{name: cm-acme-http-solver-x, {solver}}}
  spec: {{type: NodePort, clusterIPs: [10.96.0.77], ports: [{{name: http, port: 8089}}]}}
- kind: Ingress
  metadata: {{name: cm-acme-http-solver-y, {solver}}}
  spec:
    rules:
    - host: new.example.test
      http: {{paths: [{{path: /.well-known/acme-challenge/a, backend: {{service: {{name: cm-acme-http-solver-x}}}}}}]}}
"
    );
    let with = discovered(&format!("{SHOP}{objects}"), TargetDefaults::Published);
    let without = discovered(SHOP, TargetDefaults::Published);
    assert_eq!(
        serde_json::to_value(&with).unwrap(),
        serde_json::to_value(&without).unwrap()
    );
    // An Ingress edited in place: the application's path is the one that users request.
    let edited = "
- kind: Ingress
  metadata: {namespace: shop, name: edited}
  spec:
    rules:
    - host: edited.example.test
      http:
        paths:
        - {path: /.well-known/acme-challenge/a, backend: {service: {name: cm-acme-http-solver-x}}}
        - {path: /app, backend: {service: {name: web}}}
";
    let notes = discovered(&format!("{SHOP}{objects}{edited}"), TargetDefaults::Published).notes;
    let texts: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert!(!texts.iter().any(|note| note.contains("solver")), "{texts:?}");
}

#[test]
fn nothing_of_a_namespace_that_is_being_deleted_is_probed() {
    let of_shop = |more: &str| {
        let spec = discovered(&format!("{SHOP}{more}"), TargetDefaults::Published).spec;
        let published = spec.published.iter();
        let hosts = published.filter(|p| {
            p.origin
                .as_ref()
                .is_some_and(|key| key.namespace.as_str() == "shop")
        });
        let services = spec
            .services
            .iter()
            .filter(|service| service.namespace.as_str() == "shop");
        let probed = services.filter(|service| service.probe.enabled != Some(false));
        (hosts.count(), probed.count())
    };
    let (hosts, services) = of_shop("");
    assert!(hosts > 0 && services > 0);
    let leaving = "- kind: Namespace\n  metadata: {name: shop, deletionTimestamp: '2026-01-01T00:00:00Z'}\n";
    assert_eq!(of_shop(leaving), (0, 0));
}
