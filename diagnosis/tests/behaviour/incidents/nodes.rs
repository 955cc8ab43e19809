//! Incidents of nodes and of single vantages.

use super::*;

/// Found in the lab: a prober does not respond to echo requests before its first plan.
#[test]
fn a_node_that_joins_and_does_not_answer_yet_is_not_broken_and_one_that_answered_before_is() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    mesh.change(cluster(4, &[1, 2], 1, "Cluster"), 3 * INTERVAL);
    let no_echo = |node: &'static str| {
        move |p: &Probe| {
            (p.channel == "mesh" && p.node.as_deref() == Some(node)).then_some(("check", "status"))
        }
    };
    for round in 3..8 {
        let view = mesh.round(round, &no_echo("n4"));
        assert_eq!(view.incidents, []);
    }
    let out_of_reach = |p: &Probe| {
        (p.channel == "mesh" && p.node.as_deref() == Some("n3")).then_some(("connect", "connect_timeout"))
    };
    let mut view = None;
    for round in 8..16 {
        view = Some(mesh.round(round, &out_of_reach));
    }
    let named = view.unwrap().incidents;
    assert!(
        named.iter().any(|i| i.verdict.region.members == ["n3"]),
        "{named:?}"
    );
}

/// Found in the lab: a node joins while the API server is away; its prober is denied a plan, and its first
/// responses arrive after the node is known.
#[test]
fn a_node_whose_prober_refuses_the_echo_is_reached() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let refuses =
        |p: &Probe| (p.channel == "mesh" && p.node.as_deref() == Some("n4")).then_some(("check", "status"));
    for round in 3..12 {
        let view = mesh.round(round, &refuses);
        assert_eq!((view.incidents, view.investigations), (Vec::new(), Vec::new()));
    }
}

/// Found in the lab: a suspended prober does not respond to echo requests either.
#[test]
fn a_prober_that_answers_nobody_is_no_broken_node_while_another_pod_there_answers() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let no_echo = |p: &Probe| {
        (p.channel == "mesh" && p.node.as_deref() == Some("n2")).then_some(("body", "first_byte_timeout"))
    };
    for round in 3..9 {
        let view = mesh.round(round, &no_echo);
        assert_eq!(view.incidents, []);
    }
    let view = mesh.round(9, &no_echo);
    let sentences: Vec<_> = view.investigations.iter().map(|i| i.sentence.as_str()).collect();
    assert_eq!(
        sentences,
        [
            "the prober on node n2 does not respond, but the other Pods on the node do: check the prober, not the node"
        ]
    );

    // From here on the endpoint on that node is unreachable too.
    let mut view = None;
    for round in 10..16 {
        view = Some(mesh.round(round, &|p| {
            (p.client != "n2" && p.channel != "dns" && p.node.as_deref() == Some("n2"))
                .then_some(("connect", "connect_timeout"))
        }));
    }
    let named = view.unwrap().incidents;
    assert!(
        named.iter().any(|i| i.verdict.region.members == ["n2"]),
        "{named:?}"
    );
}

#[test]
fn a_broken_node_is_one_incident_about_the_node_over_all_fronts() {
    let mut mesh = SimulatedMesh::new(cluster(5, &[1, 2], 3, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..10 {
        view = Some(mesh.round(round, &|p| {
            (p.client == "n4").then_some(("connect", "connect_timeout"))
        }));
    }
    let view = view.unwrap();
    let found: Vec<_> = view
        .incidents
        .iter()
        .map(|i| i.verdict.region.to_string())
        .collect();
    assert_eq!(found, ["client n4"]);
    assert_eq!(view.incidents[0].verdict.subject.to_string(), "node n4");
}

#[test]
fn a_stale_node_is_told_from_a_broken_one() {
    let mut mesh = SimulatedMesh::new(cluster(5, &[1, 2], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..9 {
        view = Some(mesh.round(round, &|p| {
            (p.client == "n4" && p.front.as_deref() == Some("203.0.113.10:80"))
                .then_some(("connect", "connect_timeout"))
        }));
    }
    let view = view.unwrap();
    let found: Vec<_> = view
        .incidents
        .iter()
        .map(|i| i.verdict.region.to_string())
        .collect();
    assert_eq!(found, ["client-vip n4"]);
    assert_eq!(view.incidents[0].verdict.causes[0].id, "F24");
}

/// `parallax up` on a laptop: endpoints are unknown, and there is no second client for comparison.
#[test]
fn what_one_vantage_alone_sees_fail_is_said_of_the_address_and_the_vantage_is_listed_beside() {
    let spec = serde_json::json!({"targets": [{"url": "tcp://192.0.2.7:5432"}]});
    let spec: parallax_diagnosis::topology::TopologySpec = serde_json::from_value(spec).unwrap();
    let topology = parallax_diagnosis::topology::Topology::try_from(spec).unwrap();
    let topology = std::sync::Arc::new(topology.with_vantage("laptop/host".parse().unwrap()));
    let settings = parallax_diagnosis::Settings {
        interval: Micros(INTERVAL.unsigned_abs()),
        timeout: Micros::from_secs(3),
    };
    let mut engine = parallax_diagnosis::Engine::new(settings, topology);
    for round in 0..12 {
        let ok = round < 4;
        let mut line = serde_json::json!({
            "vantage": "laptop/host", "incarnation": "a-1", "seq": round + 1, "t_us": round * INTERVAL + 1_000,
            "target": "tcp://192.0.2.7:5432", "channel": "vip", "front": "192.0.2.7:5432",
            "result": if ok { "ok" } else { "failed" }, "times": {"connect_us": 400},
        });
        if !ok {
            line["phase"] = serde_json::json!("connect");
            line["kind"] = serde_json::json!("refused");
        }
        engine.observe(&serde_json::from_value(line).unwrap());
        engine.advance(EventTime((round + 1) * INTERVAL + 4_000_001));
    }
    let view = engine.view(EventTime(12 * INTERVAL));
    let verdict = &view.incidents[0].verdict;
    let members: Vec<&str> = verdict
        .class
        .iter()
        .map(|region| region.region.as_str())
        .collect();
    assert!(!members[0].starts_with("client"), "{members:?}");
    assert!(members.contains(&"client"), "{members:?}");
    assert!(!verdict.sentence.contains("direct"), "{}", verdict.sentence);
}

/// One of two ingress Pods has been broken for a while when the node of the other one loses its power. The address then fails for
/// everyone, and the echoes to the node are withheld until its prober cannot merely restart.
#[test]
fn a_node_with_the_last_endpoint_of_an_address_is_named_and_not_the_address() {
    for (nodes, dead) in [(6, 23), (6, 28), (10, 23), (10, 25)] {
        let mut mesh = SimulatedMesh::new(cluster(nodes, &[1, 2], 0, "Cluster"));
        let mut named: Vec<String> = Vec::new();
        for round in 0..dead + 10 {
            mesh.silent = if round >= dead { vec!["n2"] } else { Vec::new() };
            let view = mesh.round(round, &|probe| {
                let is_broken = round >= 20 && probe.entry.as_deref() == Some("ingress-1");
                let is_away = probe.at_us >= dead * INTERVAL + 600_000 && probe.node.as_deref() == Some("n2");
                (is_broken || is_away).then_some(("connect", "connect_timeout"))
            });
            for incident in &view.incidents {
                let region = incident.verdict.region.to_string();
                if !named.contains(&region) {
                    named.push(region);
                }
            }
        }
        assert_eq!(
            named,
            ["backend ingress-1", "bnode n2"],
            "{nodes} nodes, round {dead}"
        );
    }
}
