use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::topology::{ServiceType, TopologyHints};

/// Parses one endpoint: `pod node r|d|u [zones] [nodes]` (ready, draining, unready; comma-separated names).
fn endpoint(line: &str) -> Endpoint {
    let words: Vec<&str> = line.split(' ').collect();
    let names = |i: usize| {
        words
            .get(i)
            .into_iter()
            .flat_map(|list| list.split(','))
            .filter(|name| !name.is_empty() && *name != "-")
    };
    Endpoint {
        pod: words[0].parse().unwrap(),
        address: "10.0.0.1".parse().unwrap(),
        node: (words[1] != "-").then(|| words[1].parse().unwrap()),
        condition: match words[2] {
            "r" => EndpointCondition::Ready,
            "d" => EndpointCondition::Draining,
            _ => EndpointCondition::Unready,
        },
        hints: TopologyHints {
            for_zones: names(3).map(|zone| zone.parse().unwrap()).collect(),
            for_nodes: names(4).map(|node| node.parse().unwrap()).collect(),
        },
    }
}

fn service(lines: &[&str]) -> Service {
    of(lines.iter().map(|line| endpoint(line)).collect())
}

fn of(endpoints: Vec<Endpoint>) -> Service {
    Service {
        health_check_node_port: None,
        guarded_by: None,
        selector: BTreeMap::new(),
        key: "shop/web".parse().unwrap(),
        service_type: ServiceType::ClusterIP,
        external_traffic_policy: TrafficPolicy::Cluster,
        internal_traffic_policy: TrafficPolicy::Cluster,
        headless: false,
        echo: false,
        ports: Vec::new(),
        endpoints,
        annotations: BTreeMap::new(),
        ingress_class: None,
    }
}

fn names(endpoints: &[&Endpoint]) -> String {
    let pods: Vec<_> = endpoints.iter().map(|e| e.pod.to_string()).collect();
    pods.join(" ")
}

/// Endpoints selected for a client on node n1 in zone z1, with policy Cluster and with policy Local.
#[test]
fn each_row_of_the_rules_of_kube_proxy_holds() {
    for (case, endpoints, cluster, local) in [
        ("no endpoint at all", &[][..], "", ""),
        ("ready ones, wherever they are", &["a n1 r", "b n2 r"], "a b", "a"),
        ("unready ones never", &["a n1 u", "b n2 r"], "b", ""),
        (
            "nothing ready: draining ones",
            &["a n1 d", "b n2 d", "c n2 u"],
            "a b",
            "a",
        ),
        (
            "one ready elsewhere: the cluster leaves the draining one, the node keeps its own",
            &["a n1 d", "b n2 r"],
            "b",
            "a",
        ),
        (
            "zone hints narrow the cluster, never the node",
            &["a n1 r z2", "b n2 r z1", "c n3 r z1"],
            "b c",
            "a",
        ),
        (
            "one ready endpoint without hints switches them off",
            &["a n1 r z2", "b n2 r z1", "c n3 r"],
            "a b c",
            "a",
        ),
        (
            "an endpoint that is not ready has no say in that",
            &["a n2 r z1", "b n3 r z2", "c n3 d", "d n3 u"],
            "a",
            "",
        ),
        (
            "no hint for the client's zone",
            &["a n2 r z2", "b n3 r z3"],
            "a b",
            "",
        ),
        (
            "node hints come before zone hints",
            &["a n1 r z1 n1", "b n2 r z1 n2"],
            "a",
            "a",
        ),
        (
            "no hint for the client's node: its zone",
            &["a n2 r z1 n2", "b n3 r z2 n3"],
            "a",
            "",
        ),
        (
            "hints are of no account once everything drains",
            &["a n2 d z1", "b n3 d z2"],
            "a b",
            "",
        ),
    ] {
        let service = service(endpoints);
        let (node, zone) = ("n1".parse().unwrap(), "z1".parse().unwrap());
        assert_eq!(
            names(&service.usable_from(&node, Some(&zone))),
            cluster,
            "{case}: Cluster"
        );
        assert_eq!(names(&service.usable_on(&node)), local, "{case}: Local");
    }
}

#[test]
fn a_node_without_a_zone_is_narrowed_by_no_zone_hint() {
    let service = service(&["a n2 r z1", "b n3 r z2"]);
    let node = "n1".parse().unwrap();
    assert_eq!(service.hint_preference(&node, None), HintPreference::None);
    assert_eq!(names(&service.usable_from(&node, None)), "a b");
}

#[test]
fn a_node_that_only_drains_holds_the_service_under_policy_local_alone() {
    let service = service(&["a n1 d", "b n2 r", "c n3 u"]);
    let holders = |policy| -> Vec<String> {
        service
            .entry_nodes(policy)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(holders(TrafficPolicy::Cluster), ["n2"]);
    assert_eq!(holders(TrafficPolicy::Local), ["n1", "n2"]);
}

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    let hints = |letter: &'static str| {
        prop::collection::btree_set(0..3_u8, 0..3).prop_map(move |set| {
            set.into_iter()
                .map(|i| format!("{letter}{i}"))
                .collect::<Vec<_>>()
                .join(",")
        })
    };
    (
        "[a-f]",
        0..3_u8,
        prop::sample::select(vec!["r", "d", "u"]),
        hints("z"),
        hints("n"),
    )
        .prop_map(|(pod, node, condition, zones, nodes)| {
            endpoint(&format!("{pod} n{node} {condition} {zones} {nodes}"))
        })
}

proptest! {
    #[test]
    fn nobody_is_sent_to_an_endpoint_that_is_not_ready_while_a_ready_one_is_admitted(
        endpoints in prop::collection::vec(any_endpoint(), 0..8),
        node in "n[0-3]", zone in "z[0-3]",
    ) {
        let service = of(endpoints);
        let (node, zone) = (node.parse().unwrap(), zone.parse().unwrap());
        let cluster = service.usable_from(&node, Some(&zone));
        let local = service.usable_on(&node);
        // Hints restrict the selection but never make it empty.
        prop_assert_eq!(cluster.is_empty(), service.usable().is_empty());
        for set in [&cluster, &local] {
            let conditions: BTreeSet<_> = set.iter().map(|e| e.condition).collect();
            prop_assert!(conditions.len() <= 1, "ready and draining are never mixed: {:?}", conditions);
            prop_assert!(!conditions.contains(&EndpointCondition::Unready));
        }
        prop_assert!(cluster.iter().all(|e| service.usable().contains(e)));
        prop_assert!(local.iter().all(|e| e.node.as_ref() == Some(&node)));
        let holds = service.entry_nodes(TrafficPolicy::Local).contains(&node);
        prop_assert_eq!(holds, !local.is_empty());
    }
}
