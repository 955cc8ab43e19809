//! Recordings of faults on a real cluster: kubelets, kube-proxy, `CoreDNS`, an ingress controller, and a balancer that forwards
//! to the nodes. The generators of this repository did not make them.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
};

use flate2::bufread::GzDecoder;
use parallax_diagnosis::replay::Replay;
use serde_json::Value;

/// Returns what each incident of a recording was named, in order, as `region members (subject)`.
pub(super) fn incidents(recording: &[u8]) -> Vec<Vec<String>> {
    let mut replay = Replay::new();
    let mut out = Vec::new();
    for (i, line) in BufReader::new(GzDecoder::new(recording)).lines().enumerate() {
        out.extend(replay.read_line(i + 1, &line.unwrap()));
    }
    out.extend(replay.finish());
    let mut order = Vec::new();
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in out {
        let record: Value = serde_json::from_str(&line).unwrap();
        if record["type"] != "verdict" {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let members: Vec<String> = record["members"].as_array().unwrap().iter().map(text).collect();
        let subject = record["subject"]["name"].as_str();
        let subject = subject.unwrap_or_else(|| record["subject"]["type"].as_str().unwrap());
        let name = format!("{} {} ({subject})", text(&record["region"]), members.join(","));
        let id = text(&record["id"]);
        if !named.contains_key(&id) {
            order.push(id.clone());
        }
        let incident = named.entry(id).or_default();
        if incident.last() != Some(&name) {
            incident.push(name);
        }
    }
    order.iter().map(|id| named[id].clone()).collect()
}

/// The balancer sends connections to any node, and a third of them cross the cut link on their second hop. Nothing of that is
/// observed; `same-vip` and `lb-own-node` explained the failures best as long as the hop was not part of the paths.
#[test]
fn a_cut_link_behind_a_balancer_is_one_incident() {
    let named = incidents(include_bytes!("../fixtures/real-cluster/pair-cut.ndjson.gz"));
    assert_eq!(named, [["link n1,n3 (network)"]]);
}

/// The node held a resolver Pod, which left its Service half a minute later. The questions that it had lost were then attributed
/// to the other one: the incident got the name of a healthy Pod, and the node a second incident.
#[test]
fn a_lost_node_keeps_its_name_when_its_resolver_pod_leaves() {
    let named = incidents(include_bytes!("../fixtures/real-cluster/node-power.ndjson.gz"));
    assert_eq!(named, [["bnode n3 (n3)"]]);
}

/// A real API server without kubelets: the probers cannot reach each other, and never could. The failures of a target that did work
/// were attributed to the link between the nodes, once the evidence for it sufficed.
#[test]
fn a_network_that_never_worked_is_not_the_cause_of_a_target_that_did() {
    let named = incidents(include_bytes!(
        "../fixtures/real-cluster/without-pod-network.ndjson.gz"
    ));
    assert_eq!(named, [["target  (127.0.0.99:33063)"]]);
}

/// The handshake fails at the address and at its endpoints, for the only host of the port.
#[test]
fn an_expired_certificate_is_one_incident_of_its_host() {
    let named = incidents(include_bytes!(
        "../fixtures/real-cluster/certificate-expired.ndjson.gz"
    ));
    assert_eq!(named, [["target  (https://secure.example.com/)"]]);
}
