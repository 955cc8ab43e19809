//! Quotas of load balancers.

use super::*;

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
