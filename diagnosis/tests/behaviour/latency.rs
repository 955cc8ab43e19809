//! Latency is judged with the same regions as failure, as a separate unit.

use crate::simulated_mesh::{INTERVAL, Probe, SimulatedMesh, cluster};
use parallax_diagnosis::{verdict::IncidentState, view::View};

const BALANCER: &str = "203.0.113.10:80";

fn run(mesh: &mut SimulatedMesh, rounds: std::ops::Range<i64>) -> View {
    let mut view = None;
    for round in rounds {
        view = Some(mesh.round(round, &|_: &Probe| None));
    }
    view.expect("at least one round")
}

/// F6: the balancer returns the connection to the node, times out after four seconds and uses the next endpoint.
#[test]
fn four_seconds_more_next_to_the_endpoint_are_named_as_loopback() {
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 2, 3], 3, "Local"));
    run(&mut mesh, 0..12);
    mesh.connect_us = |probe| {
        let back = probe.front.as_deref() == Some(BALANCER) && probe.node.as_deref() == Some(&*probe.client);
        if back { 4_000_600 } else { 400 }
    };
    let view = run(&mut mesh, 12..18);
    let verdict = &view.incidents[0].verdict;
    assert_eq!(view.incidents.len(), 1, "{:?}", view.incidents);
    assert!(
        verdict.class.iter().any(|region| region.region == "same-vip"),
        "{:?}",
        verdict.class
    );
    assert_eq!(verdict.causes[0].id, "F6");
    assert!(
        verdict
            .sentence
            .contains("wait for connections to open (up to 4.0 s instead of"),
        "{}",
        verdict.sentence
    );
    assert!(
        verdict
            .evidence
            .iter()
            .any(|row| row.kinds.iter().any(|(kind, _)| kind == "slow"))
    );
}

/// A lost SYN is retransmitted after a second: that is slow even without a baseline.
#[test]
fn retransmitted_handshakes_between_nodes_are_named_from_the_first_round_on() {
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 4], 1, "Cluster"));
    mesh.connect_us = |probe| {
        let apart = probe.node.as_deref().is_some_and(|node| node != probe.client);
        if apart { 1_003_000 } else { 400 }
    };
    let view = run(&mut mesh, 0..4);
    assert_eq!(
        view.incidents[0].verdict.region.region, "cross",
        "{:?}",
        view.incidents
    );
}

#[test]
fn jitter_that_nobody_waits_for_is_no_finding() {
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 4], 2, "Cluster"));
    mesh.connect_us = |probe| 300 + u64::try_from(probe.at_us % 7_919).unwrap_or(0) * 5;
    let view = run(&mut mesh, 0..40);
    assert!(view.incidents.is_empty(), "{:?}", view.incidents);
    assert!(view.investigations.is_empty());
}

/// A node that gets no CPU time for seconds measures its own delay, on any path.
#[test]
fn a_client_that_is_late_with_its_own_probes_says_nothing_of_slowness() {
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 4], 2, "Cluster"));
    run(&mut mesh, 0..12);
    mesh.connect_us = |_| 1_900_000;
    mesh.lateness_us = |probe| 30_000 + u64::try_from(probe.at_us % 7_919).unwrap_or(0) * 20;
    let view = run(&mut mesh, 12..18);
    assert!(view.incidents.is_empty(), "{:?}", view.incidents);
    mesh.lateness_us = |_| 900;
    let view = run(&mut mesh, 18..24);
    assert!(
        !view.incidents.is_empty(),
        "probes that start on time show the latency"
    );
}

#[test]
fn what_is_fast_again_is_over() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1], 1, "Cluster"));
    run(&mut mesh, 0..12);
    mesh.connect_us = |probe| if probe.client == "n3" { 1_000_900 } else { 400 };
    let view = run(&mut mesh, 12..18);
    assert_eq!(view.incidents[0].state, IncidentState::Open);
    assert!(view.incidents[0].opened.0 <= 18 * INTERVAL);
    mesh.connect_us = |_| 400;
    let view = run(&mut mesh, 18..60);
    assert!(
        view.incidents
            .iter()
            .all(|i| matches!(i.state, IncidentState::Closed { .. })),
        "{:?}",
        view.incidents
    );
}
