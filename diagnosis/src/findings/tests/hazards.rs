//! Incidents I6, I8.3 and similar: hazards reported before any client fails.

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
fn policy_local_on_some_nodes_and_an_old_kube_proxy_in_ipvs_mode_names_who_would_be_refused() {
    let mut spec = ingress(4, &[1, 2], "Local");
    spec["proxyMode"] = json!("ipvs");
    spec["platform"] = json!("kubernetes");
    for node in spec["nodes"].as_array_mut().unwrap() {
        node["facts"] = json!({"kubeProxyVersion": "v1.22.3-aliyun.1"});
    }
    let hazard = only(&spec, "local-policy");
    assert_eq!(
        hazard.sentence,
        "Pods on 2 of 4 nodes (n3 and n4) would be refused at 203.0.113.10: Service ingress/nginx has \
         externalTrafficPolicy: Local and endpoints only on n1 and n2"
    );
    let names: Vec<_> = hazard.affected.nodes.iter().map(ToString::to_string).collect();
    assert_eq!(
        (names, hazard.affected.total_nodes),
        (vec!["n3".to_owned(), "n4".to_owned()], 4)
    );
    assert_eq!(hazard.severity, Severity::Warning);
    let cluster = &hazard.remedies[0];
    assert!(
        cluster
            .command
            .as_ref()
            .unwrap()
            .starts_with("kubectl -n ingress patch service nginx")
    );
    assert!(
        cluster.trade_off.contains("2 ports × 4 nodes = 8 backends"),
        "{}",
        cluster.trade_off
    );
    assert!(
        cluster
            .ineffective_when
            .as_ref()
            .unwrap()
            .contains("does not fix loopback")
    );
}

#[test]
fn a_newer_kube_proxy_in_ipvs_mode_endangers_the_host_network_only_and_an_unknown_one_is_said_to_be_unknown()
{
    let mut spec = ingress(3, &[1, 2], "Local");
    spec["proxyMode"] = json!("ipvs");
    let unknown = only(&spec, "local-policy");
    assert!(
        unknown
            .evidence
            .iter()
            .any(|line| line.contains("version is not known"))
    );
    for node in spec["nodes"].as_array_mut().unwrap() {
        node["facts"] = json!({"kubeProxyVersion": "1.31.0"});
    }
    let newer = only(&spec, "local-policy");
    assert_eq!(newer.severity, Severity::Notice);
    assert!(
        newer
            .sentence
            .starts_with("clients in the host network of 1 of 3 nodes (n3)"),
        "{}",
        newer.sentence
    );
}

#[test]
fn nftables_mode_before_its_fix_endangers_the_host_network_and_no_pod() {
    let mut spec = ingress(3, &[1, 2], "Local");
    spec["proxyMode"] = json!("nftables");
    let mut hazard = |version: &str| {
        for node in spec["nodes"].as_array_mut().unwrap() {
            node["facts"] = json!({"kubeProxyVersion": version});
        }
        with(&spec, &ObservedFacts::default())
            .into_iter()
            .find(|h| h.kind.label() == "local-policy")
    };
    let old = hazard("1.33.5").unwrap();
    assert_eq!(old.severity, Severity::Notice);
    assert!(
        old.sentence
            .starts_with("clients in the host network of 1 of 3 nodes (n3)"),
        "{}",
        old.sentence
    );
    assert!(
        old.evidence
            .iter()
            .any(|line| line.contains("1.33.5") && line.contains("132456"))
    );
    assert!(hazard("1.33.6").is_none());
}

#[test]
fn a_node_that_was_seen_to_pass_or_to_fail_is_no_hazard_any_more() {
    let mut spec = ingress(4, &[1, 2], "Local");
    spec["proxyMode"] = json!("ipvs");
    let local = |facts: &ObservedFacts| {
        with(&spec, facts)
            .into_iter()
            .find(|h| h.kind.label() == "local-policy")
            .map(|h| h.affected.nodes.len())
    };
    assert_eq!(local(&seen(&["n3"])), Some(1));
    assert_eq!(local(&seen(&["n3", "n4"])), None);
    let mut failing = ObservedFacts::default();
    std::mem::swap(&mut failing.failing, &mut seen(&["n3", "n4"]).passing);
    assert_eq!(local(&failing), None, "that is an incident");
}

#[test]
fn loopback_is_latent_where_the_balancer_is_really_asked_and_keeps_the_clients_address() {
    let mut spec = ingress(4, &[1, 2], "Local");
    spec["services"][0]["loadBalancer"] = json!([{"ip": "10.0.0.8", "ipMode": "Proxy"}]);
    let perhaps = only(&spec, "loopback");
    assert_eq!(perhaps.severity, Severity::Notice);
    assert!(perhaps.evidence.iter().any(|line| line.contains("not known")));
    spec["balancers"] =
        json!([{"name": "clb", "services": ["ingress/nginx"], "preservesClientAddress": true}]);
    let sure = only(&spec, "loopback");
    assert_eq!(sure.severity, Severity::Warning);
    assert!(
        sure.sentence
            .starts_with("clients on 2 of 4 nodes (n1 and n2) would time out at 10.0.0.8 one time in 2"),
        "{}",
        sure.sentence
    );
    assert!(
        sure.sentence
            .contains("Cluster would not fix this where traffic leaves the node")
    );
    spec["balancers"][0]["preservesClientAddress"] = json!(false);
    assert_eq!(of(&spec), [], "with NAT nothing loops");
}

#[test]
fn a_public_balancer_does_not_loop_and_policy_cluster_endangers_every_node() {
    let mut spec = ingress(3, &[1, 2], "Local");
    spec["services"][0]["loadBalancer"] = json!([{"ip": "203.0.113.10", "ipMode": "Proxy"}]);
    assert_eq!(of(&spec), []);
    spec["services"][0]["loadBalancer"] = json!([{"ip": "10.0.0.8", "ipMode": "Proxy"}]);
    spec["services"][0]["externalTrafficPolicy"] = json!("Cluster");
    let hazard = only(&spec, "loopback");
    assert!(
        hazard
            .sentence
            .starts_with("clients on all 3 nodes would time out"),
        "{}",
        hazard.sentence
    );
    assert!(hazard.sentence.contains("one time in 3"));
}

/// The numbers of incident I6.
#[test]
fn four_ports_on_fifty_nodes_fill_a_quota_of_two_hundred() {
    let on: Vec<usize> = (1..=50).collect();
    let mut spec = ingress(50, &on, "Cluster");
    let port = |i: usize| json!({"port": 8000 + i, "targetPort": 9000 + i});
    spec["services"][0]["ports"] = (0..4).map(port).collect();
    spec["ingresses"] = json!([]);
    spec["balancers"] = json!([{"name": "slb", "services": ["ingress/nginx"], "quota": {"targets": 200}}]);
    let hazard = only(&spec, "quota");
    assert_eq!(
        hazard.sentence,
        "load balancer slb has 200 of 200 backends; one more node does not fit"
    );
    assert_eq!(hazard.severity, Severity::Warning);
    assert!(hazard.evidence[0].contains("4 ports × 50 nodes = 200 backends"));
    spec["balancers"][0]["quota"]["targets"] = json!(199);
    let over = only(&spec, "quota");
    assert_eq!(over.severity, Severity::Critical);
    assert!(over.sentence.contains("1 too many"), "{}", over.sentence);
    spec["balancers"][0]["quota"]["targets"] = json!(400);
    assert_eq!(of(&spec), [], "half is far from full");
}

#[test]
fn a_service_that_is_not_in_the_cluster_is_said_to_be_left_out_of_the_forecast() {
    let mut spec = ingress(3, &[1, 2], "Cluster");
    spec["balancers"] =
        json!([{"name": "slb", "services": ["ingress/nginx", "ingress/ngnix"], "quota": {"targets": 200}}]);
    let hazard = only(&spec, "quota");
    assert_eq!(hazard.severity, Severity::Notice);
    assert!(
        hazard
            .sentence
            .ends_with("Service ingress/ngnix is not in the cluster and not counted"),
        "{}",
        hazard.sentence
    );
}

#[test]
fn a_way_out_that_would_not_fit_the_quota_is_said_before_it_is_taken_and_priced_over_all_services() {
    let mut spec = ingress(50, &[1, 2], "Local");
    spec["services"].as_array_mut().unwrap().push(json!({
        "namespace": "mail", "name": "smtp", "type": "LoadBalancer", "loadBalancer": [{"ip": "203.0.113.11"}],
        "externalTrafficPolicy": "Local", "ports": [{"port": 25, "targetPort": 25}],
        "endpoints": [{"pod": "smtp-1", "address": "10.244.3.10", "node": "n3"},
                      {"pod": "smtp-2", "address": "10.244.4.10", "node": "n4"}],
    }));
    spec["balancers"] =
        json!([{"name": "slb", "services": ["ingress/nginx", "mail/smtp"], "quota": {"targets": 100}}]);
    let hazard = only(&spec, "quota");
    assert_eq!(hazard.severity, Severity::Notice);
    assert_eq!(
        hazard.sentence,
        "load balancer slb has 6 of 100 backends; more nodes do not change this while the policy is Local; \
         externalTrafficPolicy: Cluster for Service ingress/nginx does not fit"
    );
    spec["proxyMode"] = json!("ipvs");
    let policy = of(&spec)
        .into_iter()
        .find(|h| h.id == "local-policy:ingress/nginx")
        .unwrap();
    assert!(
        policy.remedies[0].trade_off.contains(
            "2 ports × 50 nodes = 100 backends, 102 of 100 in total (quota from configuration): 2 too many"
        ),
        "{}",
        policy.remedies[0].trade_off
    );
}

#[test]
fn a_proxy_annotation_on_an_address_that_nodes_answer_for_endangers_every_client_inside() {
    let mut spec = ingress(3, &[1, 2], "Cluster");
    spec["services"][0]["annotations"] = json!({"load-balancer.hetzner.cloud/uses-proxyprotocol": "true"});
    let hazard = only(&spec, "proxy-bypass");
    assert!(
        hazard
            .sentence
            .starts_with("clients on all 3 nodes would be disconnected at 203.0.113.10"),
        "{}",
        hazard.sentence
    );
    assert_eq!(
        with(&spec, &seen(&["n1"])),
        [],
        "the entry takes both, as one client showed"
    );
    spec["services"][0]["annotations"] = json!({"load-balancer.hetzner.cloud/uses-proxyprotocol": "false"});
    assert_eq!(of(&spec), []);
    spec["services"][0]["annotations"] =
        json!({"service.beta.kubernetes.io/do-loadbalancer-enable-proxy-protocol": "true"});
    spec["services"][0]["loadBalancer"] = json!([{"ip": "203.0.113.10", "ipMode": "Proxy"}]);
    assert_eq!(of(&spec), [], "with ipMode Proxy, traffic reaches the balancer");
}

#[test]
fn hairpin_off_names_the_nodes_and_how_often_each_service_would_fail() {
    let mut spec = ingress(3, &[1, 2], "Cluster");
    spec["nodes"][0]["facts"] = json!({"hairpin": false});
    spec["nodes"][2]["facts"] = json!({"hairpin": false});
    let hazard = only(&spec, "hairpin");
    assert!(
        hazard
            .sentence
            .starts_with("Pods on 2 of 3 nodes (n1 and n3) that call themselves"),
        "{}",
        hazard.sentence
    );
    assert!(
        hazard.evidence[1].contains("one in 2 calls"),
        "{:?}",
        hazard.evidence
    );
    spec["nodes"][0]["facts"]["bridgeNfCallIptables"] = json!(false);
    let other = only(&spec, "hairpin");
    assert!(
        other.sentence.contains("other Pods on their own node"),
        "{}",
        other.sentence
    );
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

#[test]
fn a_node_that_says_itself_that_something_is_wrong_is_a_hazard_before_anybody_fails() {
    let mut spec = ingress(3, &[1], "Cluster");
    spec["proxyMode"] = json!("ipvs");
    spec["nodes"][1]["facts"] = json!({"conntrackPercent": 90, "localEndpoints": {"ingress/nginx": 1}});
    spec["nodes"][2]["facts"] =
        json!({"conntrackPercent": 50, "dropsOwnSources": true, "proxyHealthy": false});
    let conntrack = only(&spec, "conntrack");
    assert_eq!(conntrack.affected.nodes, vec!["n2".parse().unwrap()]);
    assert_eq!(conntrack.evidence, ["the conntrack table of n2 is 90 % full"]);
    let proxy = only(&spec, "stale-proxy");
    assert_eq!(
        proxy.evidence,
        [
            "kube-proxy on n2 has 1 endpoint of Service ingress/nginx on that node, the EndpointSlices have 0",
            "kube-proxy on n3 reports that it is not healthy"
        ]
    );
    let own = only(&spec, "own-sources");
    assert!(own.evidence[0].contains("increases on n3"), "{own:?}");
    for hazard in [conntrack, proxy, own] {
        assert!(
            hazard
                .remedies
                .iter()
                .all(|r| !r.trade_off.is_empty() && r.ineffective_when.is_some())
        );
    }
}

#[test]
fn a_node_whose_facts_are_as_they_should_be_is_none() {
    let mut spec = ingress(3, &[1], "Cluster");
    let well = |n: u32| {
        json!({"conntrackPercent": 50, "proxyHealthy": true, "dropsOwnSources": false,
            "localEndpoints": {"ingress/nginx": n, "shop/gone": 7}})
    };
    spec["nodes"][0]["facts"] = well(1);
    spec["nodes"][1]["facts"] = well(0);
    let found = of(&spec);
    for kind in ["conntrack", "stale-proxy", "own-sources"] {
        assert!(!labels(&found).contains(&kind), "{kind}");
    }
}

#[test]
fn while_endpoints_drain_a_count_that_differs_is_no_sign_of_a_stale_kube_proxy() {
    let mut spec = ingress(2, &[1], "Cluster");
    spec["services"][0]["endpoints"][0]["ready"] = json!(false);
    spec["services"][0]["endpoints"][0]["serving"] = json!(true);
    spec["services"][0]["endpoints"][0]["terminating"] = json!(true);
    spec["nodes"][0]["facts"] = json!({"localEndpoints": {"ingress/nginx": 1}});
    assert!(!labels(&of(&spec)).contains(&"stale-proxy"));
}
