//! The end of rounds, and the observations that count in them.

use parallax_model::Recorded;

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
    let before = EventTime(INTERVAL + 10_999_999);
    assert!(!mesh.engine.advance(before) && !mesh.engine.has_overdue_round(before));
    let over = EventTime(INTERVAL + 11_000_000);
    assert!(mesh.engine.has_overdue_round(over));
    assert!(mesh.engine.advance(over) && !mesh.engine.has_overdue_round(over));
}

/// Returns observations of one vantage in one round, each with another sequence number.
fn flood(first: &Recorded, count: u64) -> impl Iterator<Item = Recorded> + '_ {
    (0..count).map(|n| {
        let mut recorded = first.clone();
        recorded.observation.seq = parallax_model::ReportSeq(10_000 + n);
        recorded
    })
}

#[test]
fn a_vantage_that_sends_more_than_its_share_costs_no_other_an_observation() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    let probes = mesh.probes(0);
    let recorded: Vec<Recorded> = probes.iter().map(|probe| mesh.record(probe, &healthy)).collect();
    let sender = recorded[0].vantage.clone();
    let results = flood(&recorded[0], 30_000).map(|recorded| mesh.engine.observe(&recorded));
    let over = results
        .filter(|result| *result == ObservationResult::OverBudget)
        .count();
    assert_eq!(over, 10_000);
    for recorded in recorded.iter().filter(|recorded| recorded.vantage != sender) {
        let result = mesh.engine.observe(recorded);
        assert!(matches!(result, ObservationResult::Accepted { .. }), "{result:?}");
    }
    let view = mesh.engine.view(EventTime(0));
    assert_eq!(view.counters.over_budget, 10_000);
    let discarded = view.vantages.iter().map(|vantage| vantage.discarded);
    assert_eq!(discarded.collect::<Vec<_>>(), [10_000, 0, 0]);
}

#[test]
fn a_vantage_introduces_a_limited_number_of_names() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    let probe = &mesh.probes(0)[0];
    let first = mesh.record(probe, &healthy);
    let named = flood(&first, 10_000).enumerate().map(|(n, mut recorded)| {
        recorded.observation.entry = Some(format!("pod-{n}").parse().unwrap());
        recorded
    });
    let results: Vec<ObservationResult> = named.map(|recorded| mesh.engine.observe(&recorded)).collect();
    let over = results
        .iter()
        .filter(|result| **result == ObservationResult::OverBudget);
    assert_eq!(over.count(), 10_000 - 8_192);
    // Names that are known already cost nothing.
    assert!(matches!(
        mesh.engine.observe(&first),
        ObservationResult::Accepted { .. }
    ));
}
