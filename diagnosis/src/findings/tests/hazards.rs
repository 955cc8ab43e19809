//! Incidents I6, I8.3 and similar: hazards reported before any client fails.

mod kube_proxy;
mod node_facts;
mod quotas;

use serde_json::json;

use super::*;
use crate::findings::{Hazard, ObservedFacts, Severity, hazards};

/// A cluster with `nodes` nodes and one ingress Service with a Pod on each node of `on`.
fn ingress(nodes: usize, on: &[usize], policy: &str) -> Value {
    json!({
        "proxyMode": "iptables",
        "nodes": (1..=nodes).map(|i| json!({"name": format!("n{i}")})).collect::<Vec<_>>(),
        "services": [{
            "namespace": "ingress", "name": "nginx", "type": "LoadBalancer",
            "clusterIPs": ["10.96.0.50"], "loadBalancer": [{"ip": "203.0.113.10"}],
            "externalTrafficPolicy": policy,
            "ports": [{"port": 80, "targetPort": 8080}, {"port": 443, "targetPort": 8443}],
            "endpoints": on.iter().map(|i| json!({"pod": format!("ingress-{i}"),
                "address": format!("10.244.{i}.10"), "node": format!("n{i}")})).collect::<Vec<_>>(),
        }],
        "ingresses": [{"namespace": "shop", "name": "shop", "service": "ingress/nginx", "hosts": ["a.example.test"]}],
    })
}

fn of(spec: &Value) -> Vec<Hazard> {
    with(spec, &ObservedFacts::default())
}

fn with(spec: &Value, facts: &ObservedFacts) -> Vec<Hazard> {
    hazards(&topology(spec), facts)
}

fn labels(hazards: &[Hazard]) -> Vec<&'static str> {
    hazards.iter().map(|hazard| hazard.kind.label()).collect()
}

fn only(spec: &Value, kind: &str) -> Hazard {
    let all = of(spec);
    all.iter()
        .find(|hazard| hazard.kind.label() == kind)
        .unwrap_or_else(|| panic!("{kind} is not among {:?}", labels(&all)))
        .clone()
}

fn seen(nodes: &[&str]) -> ObservedFacts {
    let mut facts = ObservedFacts::default();
    let nodes = nodes.iter().map(|node| node.parse().unwrap()).collect();
    facts.passing.insert("ingress/nginx".parse().unwrap(), nodes);
    facts
}

#[test]
fn a_sound_cluster_has_no_hazard() {
    assert_eq!(of(&ingress(3, &[1, 2, 3], "Local")), []);
    assert_eq!(of(&ingress(3, &[1, 2], "Cluster")), []);
    assert_eq!(
        of(&ingress(3, &[1, 2], "Local")),
        [],
        "iptables serves such nodes"
    );
    assert_eq!(of(&json!({})), []);
}

#[test]
fn every_entry_on_one_node_is_a_hazard_with_the_price_of_spreading_them() {
    let hazard = only(&ingress(4, &[2], "Cluster"), "single-node");
    assert_eq!(
        hazard.sentence,
        "all clients would lose Service ingress/nginx (1 target) if node n2 failed: it runs the only endpoint"
    );
    assert!(
        hazard.remedies[1].trade_off.starts_with("3 more Pods"),
        "{}",
        hazard.remedies[1].trade_off
    );
    assert_eq!(of(&ingress(1, &[1], "Cluster")), [], "there is no other node");
}

#[test]
fn an_aaaa_that_no_front_has_and_nobody_reached_endangers_ipv6_clients() {
    let spec = ingress(3, &[1, 2], "Cluster");
    let mut facts = ObservedFacts::default();
    let dead = ["2001:db8::7".parse().unwrap()];
    facts.published.insert("a.example.test".to_owned(), dead.into());
    facts
        .published
        .insert("elsewhere.example.test".to_owned(), dead.into());
    let all = with(&spec, &facts);
    assert_eq!(labels(&all), ["unserved-ipv6"]);
    assert!(all[0].sentence.contains("a.example.test"));
    facts.reached.extend(dead);
    assert_eq!(with(&spec, &facts), []);
}

#[test]
fn the_engine_learns_published_addresses_and_passing_nodes_from_observations() {
    let mut spec = ingress(4, &[1, 2], "Local");
    spec["proxyMode"] = json!("ipvs");
    for i in 0..4 {
        spec["nodes"][i]["prober"] = json!({"pod": format!("p{i}"), "address": format!("10.244.{i}.5:9095")});
    }
    let mut stage = FindingsFixture::new(&spec);
    let before = stage.engine.view(EventTime(0));
    assert_eq!(labels(&before.hazards), ["local-policy"]);
    let line = json!({"target": "http://a.example.test/", "channel": "vip", "front": "203.0.113.10:80", "result": "ok",
        "status": 200, "dns": {"resolver": "10.96.0.10:53", "name": "a.example.test.",
            "addresses": ["203.0.113.10", "2001:db8::7"]}});
    for round in 0..2 {
        for vantage in ["n3/pod", "n4/pod"] {
            stage.observe(round, vantage, line.clone());
        }
    }
    let after = stage.close(1);
    assert_eq!(labels(&after.hazards), ["unserved-ipv6"]);
}

#[test]
fn every_remedy_of_every_hazard_has_a_price_and_says_when_it_would_not_help() {
    let mut spec = ingress(4, &[1], "Local");
    spec["proxyMode"] = json!("ipvs");
    spec["services"][0]["loadBalancer"] =
        json!([{"ip": "203.0.113.10"}, {"ip": "10.0.0.8", "ipMode": "Proxy"}]);
    spec["services"][0]["annotations"] = json!({"x/proxy-protocol": "v2"});
    spec["nodes"][0]["facts"] = json!({"hairpin": false});
    spec["balancers"] = json!([{"name": "slb", "services": ["ingress/nginx"], "quota": {"targets": 2}}]);
    let mut facts = ObservedFacts::default();
    facts.published.insert(
        "a.example.test".to_owned(),
        ["2001:db8::7".parse().unwrap()].into(),
    );
    let all = with(&spec, &facts);
    let mut found = labels(&all);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "hairpin",
            "local-policy",
            "loopback",
            "proxy-bypass",
            "quota",
            "single-node",
            "unserved-ipv6"
        ]
    );
    for hazard in &all {
        assert!(
            !hazard.remedies.is_empty() && !hazard.evidence.is_empty(),
            "{}",
            hazard.id
        );
        for remedy in &hazard.remedies {
            assert!(
                !remedy.trade_off.is_empty() && remedy.ineffective_when.is_some(),
                "{}: {}",
                hazard.id,
                remedy.action
            );
        }
    }
}
