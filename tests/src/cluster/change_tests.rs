use std::path::Path;

use parallax_model::{HostName, NodeName, PodName};

use super::super::{ChangeEffect, Cluster, OpError, ProberChange};
use crate::{incident::FaultOperation, incident_file::load};

fn cluster(id: &str) -> Cluster {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("incidents");
    Cluster::derive(&load(&folder, id).unwrap()).unwrap()
}

fn op(yaml: &str) -> FaultOperation {
    serde_saphyr::from_str(yaml).unwrap()
}

#[test]
fn one_resolver_deviates_and_the_others_answer_as_before() {
    let mut cluster = cluster("i3-missing");
    let host: HostName = "pay.example.test".parse().unwrap();
    let (dns, edge): (PodName, PodName) = ("dns".parse().unwrap(), "dns-edge".parse().unwrap());
    let public: PodName = "public".parse().unwrap();
    let answers = |cluster: &Cluster, resolver: &PodName| -> Vec<String> {
        cluster.answers(resolver)[&host]
            .iter()
            .map(|address| address.to_string())
            .collect()
    };
    assert_eq!(answers(&cluster, &edge), ["10.96.0.50"]);
    assert_eq!(answers(&cluster, &public), ["203.0.113.10"]);
    let effect = cluster.apply(&op("set-record: {resolver: dns-edge, host: pay.example.test}"));
    assert_eq!(effect, Ok(ChangeEffect::Resolver(edge.clone())));
    assert!(!cluster.answers(&edge).contains_key(&host));
    assert_eq!(answers(&cluster, &dns), ["10.96.0.50"]);
    let unknown = cluster.apply(&op("set-record: {resolver: dns-9, host: pay.example.test}"));
    assert!(matches!(unknown, Err(OpError::NoResolver(_))));
}

#[test]
fn pods_of_a_node_ask_the_resolver_that_serves_it() {
    let cluster = cluster("i3-missing");
    let address = |node: &str| cluster.resolver_address(&node.parse().unwrap()).to_string();
    assert_eq!(address("n3"), "10.244.3.3");
    assert_eq!(address("n1"), "10.96.0.10");
}

#[test]
fn an_ingress_of_another_class_is_no_longer_served_where_dns_leads() {
    let mut cluster = cluster("i4-wrong-class");
    let served = |cluster: &Cluster| -> Vec<String> {
        let service = &cluster.services[0];
        let hosts = cluster.served_hosts(service, &service.server);
        hosts.iter().map(ToString::to_string).collect()
    };
    assert_eq!(served(&cluster), ["shop.example.test", "www.example.test"]);
    let effect = cluster
        .apply(&op("set-class: {ingress: www/www, class: internal}"))
        .unwrap();
    assert_eq!(served(&cluster), ["shop.example.test"]);
    let ChangeEffect::Served(pods) = effect else {
        panic!("controllers read their Ingresses anew")
    };
    assert_eq!(pods.len(), 4, "those of both classes");
    assert!(
        cluster
            .names()
            .any(|(host, _)| host.as_str() == "www.example.test")
    );
}

#[test]
fn a_node_joins_and_leaves_once_and_its_prober_with_it() {
    let mut cluster = cluster("quiet-nodes");
    let n5: NodeName = "n5".parse().unwrap();
    assert_eq!(cluster.present_nodes().count(), 4);
    let joined = cluster.apply(&op("join-node: {node: n5}"));
    assert_eq!(joined, Ok(ChangeEffect::Prober(n5, ProberChange::Start)));
    assert_eq!(cluster.present_nodes().count(), 5);
    assert!(matches!(
        cluster.apply(&op("join-node: {node: n5}")),
        Err(OpError::Presence { .. })
    ));
}

#[test]
fn steps_on_the_wires_name_things_that_are_there() {
    let mut cluster = cluster("i1");
    for unknown in [
        "hairpin: {node: n9, on: false}",
        "loss: {node: n9, percent: 30}",
        "security-group: {service: a/b, blocks: true}",
        "crash-pod: {pod: nobody}",
        "command: {namespace: nowhere, run: 'true'}",
    ] {
        assert!(cluster.apply(&op(unknown)).is_err(), "{unknown}");
    }
    let effect = cluster.apply(&op("loss: {node: n2, percent: 30}")).unwrap();
    let ChangeEffect::Run(None, script) = effect else {
        panic!("{effect:?}")
    };
    assert!(script.contains("dev node2 root netem loss 30%") && script.contains("/run/netns/n2"));
}
