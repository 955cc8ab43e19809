//! The end of rounds, and the observations that count in them.

use super::*;

#[test]
fn every_observation_counts_once_or_is_accounted_for() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    mesh.round(0, &healthy);
    let first = mesh.observed[0].clone();
    assert_eq!(mesh.engine.observe(&first), ObservationResult::Late);
    let mut unknown_vantage = first.clone();
    unknown_vantage.vantage = "n9/pod".parse().unwrap();
    assert_eq!(mesh.engine.observe(&unknown_vantage), ObservationResult::Unknown);
    let mut ahead = first.clone();
    ahead.observation.seq = parallax_model::ReportSeq(900);
    ahead.observation.started = EventTime(2 * 3_600_000_000);
    assert_eq!(mesh.engine.observe(&ahead), ObservationResult::Implausible);
    ahead.observation.started = EventTime(-1);
    assert_eq!(mesh.engine.observe(&ahead), ObservationResult::Implausible);
    let mut late = first;
    late.observation.seq = parallax_model::ReportSeq(901);
    assert_eq!(mesh.engine.observe(&late), ObservationResult::Late);
    let counters = mesh.engine.view(EventTime(6_000_000)).counters;
    assert_eq!((counters.late, counters.unknown, counters.implausible), (1, 1, 2));
    assert_eq!(counters.accepted, u64::try_from(mesh.observed.len()).unwrap());
}

#[test]
fn a_round_closes_early_only_when_every_speaking_vantage_is_past_it() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    for probe in mesh.probes(0) {
        let recorded = mesh.record(&probe, &healthy);
        mesh.engine.observe(&recorded);
    }
    let end = EventTime(INTERVAL);
    for node in ["n1", "n2"] {
        mesh.engine
            .record_progress(&format!("{node}/pod").parse().unwrap(), end);
    }
    assert!(!mesh.engine.advance(end.shifted(500_000)));
    mesh.engine.record_progress(&"n3/pod".parse().unwrap(), end);
    assert!(mesh.engine.advance(end.shifted(500_000)));
}

#[test]
fn a_round_closes_by_time_when_a_vantage_never_says_that_it_is_complete() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    for probe in mesh.probes(0) {
        let recorded = mesh.record(&probe, &healthy);
        mesh.engine.observe(&recorded);
    }
    assert!(!mesh.engine.advance(EventTime(INTERVAL + 3_999_999)));
    assert!(mesh.engine.advance(EventTime(INTERVAL + 4_000_000)));
}

#[test]
fn a_target_with_a_longer_timeout_that_is_added_later_keeps_rounds_open_for_its_probes() {
    let mut spec = cluster(3, &[1], 1, "Local");
    let mut mesh = SimulatedMesh::new(spec.clone());
    spec["targets"] = serde_json::json!([{"url": "http://slow.example.test/", "timeoutMs": 10_000}]);
    mesh.change(spec, 0);
    for probe in mesh.probes(0) {
        let recorded = mesh.record(&probe, &healthy);
        mesh.engine.observe(&recorded);
    }
    assert!(!mesh.engine.advance(EventTime(INTERVAL + 10_999_999)));
    assert!(mesh.engine.advance(EventTime(INTERVAL + 11_000_000)));
}
