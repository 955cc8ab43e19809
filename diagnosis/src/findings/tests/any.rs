//! Properties for any cluster and any reports: no panic, and the same text in any order of arrival.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::findings::{ObservedFacts, hazards};

/// A cluster of up to four nodes and three Services, with any mix of facts, annotations, classes and balancers.
fn any_cluster() -> impl Strategy<Value = Value> {
    let node = (any::<Option<bool>>(), any::<Option<bool>>(), 0..4_usize);
    let service = (
        0..4_usize,
        prop::collection::vec(0..4_usize, 0..4),
        any::<(bool, bool, bool)>(),
        0..3_usize,
        any::<bool>(),
    );
    (
        0..3_usize,
        prop::collection::vec(node, 0..4),
        prop::collection::vec(service, 0..3),
        any::<Option<bool>>(),
        0..12_u32,
    )
        .prop_map(|(mode, nodes, services, keeps, quota)| {
            let versions = ["1.22.0", "v1.33.9", "?", ""];
            let count = nodes.len();
            let nodes: Vec<Value> = nodes
                .iter()
                .enumerate()
                .map(|(i, (hairpin, bridge, version))| {
                    let mut facts = json!({"hairpin": hairpin, "bridgeNfCallIptables": bridge});
                    if !versions[*version].is_empty() {
                        facts["kubeProxyVersion"] = json!(versions[*version]);
                    }
                    json!({"name": format!("n{i}"), "facts": facts,
                        "prober": {"pod": format!("p{i}"), "address": format!("10.1.{i}.5:9095")}})
                })
                .collect();
            let specs: Vec<Value> = services
                .iter()
                .enumerate()
                .map(|(s, (ports, on, (local, proxy, annotated), class, private))| {
                    let ip = if *private { format!("10.9.0.{s}") } else { format!("203.0.113.{s}") };
                    json!({"namespace": "a", "name": format!("s{s}"), "type": "LoadBalancer",
                        "clusterIPs": [format!("10.96.0.{}", s + 1)],
                        "loadBalancer": [{"ip": ip, "ipMode": if *proxy { "Proxy" } else { "VIP" }}],
                        "externalTrafficPolicy": if *local { "Local" } else { "Cluster" },
                        "annotations": if *annotated { json!({"x/proxy-protocol": "on"}) } else { json!({}) },
                        "ingressClass": (["x", "y"].get(*class)),
                        "ports": (0..=*ports).map(|p| json!({"port": 80 + p, "targetPort": 8080 + p})).collect::<Vec<_>>(),
                        "endpoints": on.iter().enumerate().map(|(e, node)| json!({"pod": format!("s{s}-{e}"),
                            "address": format!("10.2.{s}.{e}"),
                            "node": (*node < count).then(|| format!("n{node}"))})).collect::<Vec<_>>()})
                })
                .collect();
            let keys: Vec<String> = (0..specs.len()).map(|s| format!("a/s{s}")).collect();
            json!({
                "proxyMode": (["ipvs", "nftables", "iptables"][mode]),
                "nodes": nodes,
                "ingresses": keys.iter().enumerate().map(|(i, key)| json!({"namespace": "a", "name": format!("i{i}"),
                    "service": key, "hosts": [format!("h{i}.example.test")]})).collect::<Vec<_>>(),
                "balancers": [{"name": "b", "services": keys, "quota": {"targets": quota}, "preservesClientAddress": keeps}],
                "services": specs,
                "resolvers": {"public": ["198.51.100.1"]},
            })
        })
}

/// Any answer of any resolver to any vantage, any print of any exposure, and unknown targets.
fn any_line() -> impl Strategy<Value = (i64, usize, Value)> {
    let address = prop::sample::select(vec![
        "203.0.113.0",
        "203.0.113.1",
        "10.96.0.1",
        "10.96.0.2",
        "10.2.0.0",
        "10.7.7.7",
        "192.0.2.1",
        "2001:db8::1",
        "fd00::1",
    ]);
    let resolver = prop::sample::select(vec!["10.96.0.10:53", "169.254.20.10:53", "198.51.100.1:53"]);
    let answers = prop::collection::vec(address, 0..4);
    (0..6_i64, 0..5_usize, 0..4_usize, answers, resolver, 0..5_u16, any::<bool>()).prop_map(
        |(round, vantage, host, addresses, resolver, status, exposure)| {
            let target = format!("http://h{host}.example.test/");
            let line = if exposure {
                json!({"target": format!("{target}#at=203.0.113.{}:80", status % 3), "channel": "vip", "result": "ok",
                    "print": {"status": status * 100, "body": "0a".repeat(16)}})
            } else if addresses.is_empty() {
                json!({"target": target, "channel": "vip", "result": "failed", "phase": "resolve", "kind": "nxdomain",
                    "dns": {"resolver": resolver, "name": "x", "addresses": []}})
            } else {
                json!({"target": target, "channel": "vip", "result": "ok", "front": format!("{}:80",
                        if addresses[0].contains(':') { format!("[{}]", addresses[0]) } else { addresses[0].to_owned() }),
                    "dns": {"resolver": resolver, "name": format!("h{host}.example.test."), "addresses": addresses,
                        "ttl_s": status}})
            };
            (round, vantage, line)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_cluster_and_any_reports_give_the_same_findings_in_any_order_and_never_a_panic(
        spec in any_cluster(),
        later in any_cluster(),
        lines in prop::collection::vec(any_line(), 0..60),
    ) {
        let run = |backwards: bool| {
            let mut stage = FindingsFixture::new(&spec);
            let vantages = ["n0/pod", "n1/pod", "n2/host", "n9/pod", "internet:laptop"];
            let mut recorded: Vec<(i64, Recorded)> = lines
                .iter()
                .zip(1..)
                .map(|((round, vantage, line), i)| {
                    let mut line = line.clone();
                    line["t_us"] = json!(round * INTERVAL + i * 1_000);
                    (*round, stage.record(*round, vantages[*vantage], line))
                })
                .collect();
            recorded.sort_by_key(|(round, _)| *round);
            let mut views = Vec::new();
            for round in 0..6 {
                let mut this: Vec<_> = recorded.iter().filter(|(r, _)| *r == round).collect();
                if backwards {
                    this.reverse();
                }
                if round == 4 {
                    stage.change(&later, round);
                }
                for (_, one) in this {
                    stage.engine.observe(one);
                }
                let view = stage.close(round);
                views.push((view.findings, view.hazards, view.names, view.exposures));
            }
            views
        };
        prop_assert_eq!(run(false), run(true));
    }

    #[test]
    fn ids_of_hazards_are_unique_and_no_sentence_is_empty(spec in any_cluster()) {
        let all = hazards(&topology(&spec), &ObservedFacts::default());
        let ids: std::collections::BTreeSet<_> = all.iter().map(|hazard| &hazard.id).collect();
        prop_assert_eq!(ids.len(), all.len());
        prop_assert!(all.iter().all(|hazard| !hazard.sentence.is_empty() && !hazard.remedies.is_empty()));
    }
}
