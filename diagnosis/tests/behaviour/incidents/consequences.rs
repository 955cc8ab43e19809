//! What follows from a cause beside failures of targets.

use parallax_diagnosis::verdict::Consequence;

use super::*;

fn between(probe: &Probe, a: &str, b: &str) -> bool {
    let node = probe.node.as_deref();
    probe.channel != "dns" && (probe.client == a && node == Some(b) || probe.client == b && node == Some(a))
}

fn silenced(incident: &Incident) -> Vec<String> {
    let silent = incident
        .consequences
        .iter()
        .filter_map(|consequence| match consequence {
            Consequence::SilentVantage { vantage } => Some(vantage.to_string()),
            Consequence::Hazard { .. } => None,
        });
    silent.collect()
}

/// Found on a real cluster: nodes n1 and n3 were cut off from each other, and n1 fell silent because the aggregator ran on
/// n3.
#[test]
fn a_vantage_that_a_broken_link_keeps_from_the_aggregator_is_silent_because_of_it() {
    let mut spec = cluster(5, &[2, 4], 1, "Cluster");
    spec["aggregator"] = serde_json::json!("n3");
    let mut mesh = SimulatedMesh::new(spec);
    for round in 0..4 {
        mesh.round(round, &healthy);
    }
    // Another vantage stops at the same time, for a reason of its own.
    mesh.silent = vec!["n1", "n5"];
    let cut = |probe: &Probe| between(probe, "n1", "n3").then_some(("connect", "connect_timeout"));
    let mut view = None;
    for round in 4..14 {
        view = Some(mesh.round(round, &cut));
    }
    let view = view.unwrap();
    let incident = only_incident(&view);
    assert_eq!(silenced(incident), ["n1/pod"]);
    let explained: Vec<(String, bool)> = view
        .vantages
        .iter()
        .map(|vantage| {
            (
                vantage.vantage.to_string(),
                vantage.explained_by.as_ref() == Some(&incident.id),
            )
        })
        .collect();
    let expected = ["n1/pod", "n2/pod", "n3/pod", "n4/pod", "n5/pod"];
    assert_eq!(
        explained,
        expected.map(|name| (name.to_owned(), name == "n1/pod"))
    );

    mesh.silent.clear();
    for round in 14..30 {
        mesh.round(round, &healthy);
    }
    let view = mesh.finish(30);
    assert!(view.vantages.iter().all(|vantage| vantage.explained_by.is_none()));
    assert_eq!(view.incidents[0].consequences, []);
}

/// A vantage that was silent long before the fault has a reason of its own.
#[test]
fn a_vantage_that_was_silent_before_the_fault_is_not_explained_by_it() {
    let mut spec = cluster(5, &[2, 4], 1, "Cluster");
    spec["aggregator"] = serde_json::json!("n3");
    let mut mesh = SimulatedMesh::new(spec);
    for round in 0..4 {
        mesh.round(round, &healthy);
    }
    mesh.silent = vec!["n1"];
    for round in 4..14 {
        mesh.round(round, &healthy);
    }
    let cut = |probe: &Probe| between(probe, "n1", "n3").then_some(("connect", "connect_timeout"));
    let mut view = None;
    for round in 14..24 {
        view = Some(mesh.round(round, &cut));
    }
    let view = view.unwrap();
    assert_eq!(view.incidents.len(), 1);
    assert_eq!(view.incidents[0].consequences, []);
}

/// Found on a real cluster: beside the incident of a dead node stood a hazard that was only its shadow: the remaining
/// endpoint of a Service was on one node.
#[test]
fn a_hazard_that_a_dead_node_leaves_behind_belongs_to_its_incident() {
    let mut mesh = SimulatedMesh::new(cluster(5, &[1, 2], 1, "Cluster"));
    for round in 0..4 {
        mesh.round(round, &healthy);
    }
    mesh.silent = vec!["n2"];
    let dead = |probe: &Probe| {
        (probe.node.as_deref() == Some("n2") && probe.channel != "dns")
            .then_some(("connect", "connect_timeout"))
    };
    for round in 4..10 {
        mesh.round(round, &dead);
    }
    let mut after = mesh.spec.clone();
    after["nodes"][1]["readiness"] = serde_json::json!("NotReady");
    after["services"][0]["endpoints"][1]["ready"] = serde_json::json!(false);
    mesh.change(after, 10 * INTERVAL);
    // kube-proxy selects no endpoint that is not ready.
    mesh.spec["services"][0]["endpoints"]
        .as_array_mut()
        .unwrap()
        .pop();
    let mut view = None;
    for round in 10..14 {
        view = Some(mesh.round(round, &dead));
    }
    let view = view.unwrap();
    let incident = only_incident(&view);
    assert_eq!(silenced(incident), ["n2/pod"]);
    assert_eq!(view.hazards, [], "{:#?}", incident.consequences);
    let sentences: Vec<String> = incident.consequences.iter().map(ToString::to_string).collect();
    assert!(
        sentences
            .iter()
            .any(|sentence| sentence.contains("would lose Service ingress/nginx")),
        "{sentences:#?}"
    );
}
