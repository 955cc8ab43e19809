//! Hazards of kube-proxy: the policy `Local`, loopback, proxy annotations, and hairpin.

use super::*;

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
