use std::path::Path;

use super::*;
use crate::incident_file::parse;

fn cluster() -> Cluster {
    let text = r"
id: x
title: t
description: d
dataplane: iptables
intervalMs: 3000
timeoutMs: 2500
topology:
  nodes: [{name: n1, zone: z1}, {name: n2, zone: z2}]
  services:
  - service: shop/app
    type: ClusterIP
    clusterIP: None
    ports: [{name: http, port: 80, targetPort: 8080}]
    endpoints: [{pod: app-1, node: n1}]
  - service: parallax/echo
    type: ClusterIP
    clusterIP: None
    ports: [{name: http, port: 9095, targetPort: 9095}]
    behind: probers
  - service: shop/new
    type: ClusterIP
    clusterIP: 10.96.0.60
    ports: [{name: http, port: 80, targetPort: 8080}]
    absent: true
expected: {outcome: {quiet: {seconds: 1}}, packets: {healthy: []}}
";
    Cluster::derive(&parse(Path::new("x.yaml"), text).unwrap()).unwrap()
}

fn apply(cluster: &mut Cluster, yaml: &str) -> Result<ChangeEffect, OpError> {
    cluster.apply(&serde_saphyr::from_str(yaml).unwrap())
}

fn led_to(cluster: &Cluster, name: &str) -> Option<Vec<String>> {
    let names = cluster.service_names();
    let all = names.get(name)?;
    Some(all.iter().map(ToString::to_string).collect())
}

const APP: &str = "app.shop.svc.cluster.local";
const ECHO: &str = "echo.parallax.svc.cluster.local";

#[test]
fn a_headless_name_leads_to_a_pod_from_when_it_is_ready_until_it_terminates() {
    let mut cluster = cluster();
    assert_eq!(led_to(&cluster, APP).unwrap(), ["10.244.1.10"]);
    let placed = apply(
        &mut cluster,
        "start-pod: {service: shop/app, pod: app-2, node: n2}",
    );
    assert!(matches!(placed, Ok(ChangeEffect::Placed(_))), "{placed:?}");
    assert_eq!(led_to(&cluster, APP).unwrap(), ["10.244.1.10"]);
    let served = apply(&mut cluster, "ready-pod: {service: shop/app, pod: app-2}");
    assert_eq!(served, Ok(ChangeEffect::Served(vec!["app-2".parse().unwrap()])));
    assert_eq!(led_to(&cluster, APP).unwrap(), ["10.244.1.10", "10.244.2.10"]);
    apply(&mut cluster, "terminate-pod: {service: shop/app, pod: app-1}").unwrap();
    assert_eq!(led_to(&cluster, APP).unwrap(), ["10.244.2.10"]);
    apply(&mut cluster, "remove-endpoint: {service: shop/app, pod: app-1}").unwrap();
    assert!(
        cluster
            .service(&"shop/app".parse().unwrap())
            .unwrap()
            .states
            .is_empty()
    );
}

#[test]
fn a_step_that_does_not_follow_from_the_last_one_is_refused() {
    let mut cluster = cluster();
    for step in [
        "ready-pod: {service: shop/app, pod: app-1}",
        "start-prober: {node: n1}",
        "create-prober: {node: n1}",
        "recover-node: {node: n1}",
        "create-service: {service: shop/app}",
        "delete-service: {service: shop/app}",
        "start-pod: {service: shop/new, pod: new-1, node: n1}",
    ] {
        let before = cluster.clone();
        assert!(apply(&mut cluster, step).is_err(), "{step}");
        assert_eq!(cluster, before, "{step}");
    }
}

#[test]
fn a_prober_in_place_keeps_its_address_and_a_new_one_has_another() {
    let mut cluster = cluster();
    apply(&mut cluster, "stop-prober: {node: n1}").unwrap();
    assert_eq!(led_to(&cluster, ECHO).unwrap(), ["10.244.2.5"]);
    apply(&mut cluster, "start-prober: {node: n1}").unwrap();
    assert_eq!(led_to(&cluster, ECHO).unwrap(), ["10.244.1.5", "10.244.2.5"]);
    let stopped = apply(&mut cluster, "delete-prober: {node: n1}");
    assert!(matches!(stopped, Ok(ChangeEffect::Stopped(_))), "{stopped:?}");
    assert_eq!(led_to(&cluster, ECHO).unwrap(), ["10.244.2.5"]);
    for (number, address) in [(2, "10.244.1.11"), (3, "10.244.1.12")] {
        apply(&mut cluster, "create-prober: {node: n1}").unwrap();
        apply(&mut cluster, "start-prober: {node: n1}").unwrap();
        assert_eq!(led_to(&cluster, ECHO).unwrap(), ["10.244.2.5", address]);
        let node = cluster.node(&"n1".parse().unwrap()).unwrap();
        assert_eq!(node.prober.name.as_str(), format!("prober-n1-{number}"));
        apply(&mut cluster, "delete-prober: {node: n1}").unwrap();
    }
}

#[test]
fn a_node_that_is_cut_off_is_ready_until_the_node_controller_takes_notice() {
    let mut cluster = cluster();
    let n1: NodeName = "n1".parse().unwrap();
    let cut = apply(&mut cluster, "crash-node: {node: n1}").unwrap();
    assert_eq!(cut, ChangeEffect::Run(None, "ip link set node1 down".to_owned()));
    assert!(cluster.node(&n1).unwrap().ready && cluster.is_kube_proxy_stopped(&n1));
    assert_eq!(led_to(&cluster, APP).unwrap(), ["10.244.1.10"]);
    let resolvers = |cluster: &Cluster| cluster.resolver_service.usable_pods().len();
    assert_eq!(resolvers(&cluster), 1);
    cluster.set_heard(&n1, false).unwrap();
    assert_eq!(resolvers(&cluster), 0);
    assert!(!cluster.node(&n1).unwrap().ready);
    assert!(led_to(&cluster, APP).unwrap().is_empty());
    assert_eq!(led_to(&cluster, ECHO).unwrap(), ["10.244.2.5"]);
    apply(&mut cluster, "recover-node: {node: n1}").unwrap();
    assert!(cluster.node(&n1).unwrap().ready && !cluster.is_kube_proxy_stopped(&n1));
    assert_eq!(led_to(&cluster, APP).unwrap(), ["10.244.1.10"]);
}

#[test]
fn a_service_that_is_created_later_has_no_name_before() {
    let mut cluster = cluster();
    let name = "new.shop.svc.cluster.local";
    assert_eq!(led_to(&cluster, name), None);
    apply(&mut cluster, "create-service: {service: shop/new}").unwrap();
    assert_eq!(led_to(&cluster, name).unwrap(), ["10.96.0.60"]);
    apply(&mut cluster, "delete-service: {service: shop/new}").unwrap();
    assert_eq!(led_to(&cluster, name), None);
}
