//! I1: the cluster cannot reach its own public name, from observations to the sentence.

use crate::simulated_mesh::{INTERVAL, Probe, SimulatedMesh, cluster, refused_without_local};
use parallax_diagnosis::{
    verdict::IncidentState,
    view::{CellState, MatrixRow, View},
};
use parallax_model::{Outcome, OwnFault, Placement};

fn healthy(_: &Probe) -> Option<(&'static str, &'static str)> {
    None
}

/// Three nodes with an ingress Pod each; at `fault_us` only the one on n1 is left.
fn after_the_move(fault_us: i64) -> (SimulatedMesh, Option<(i64, View)>) {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2, 3], 2, "Local"));
    for node in ["n1", "n2", "n3"] {
        mesh.ttl.insert(node.to_owned(), 64);
    }
    for round in 0..6 {
        let view = mesh.round(round, &healthy);
        assert!(view.incidents.is_empty());
    }
    let mut moved = false;
    for round in 6..12 {
        let early = mesh.probes(round);
        for probe in early.iter().filter(|p| p.at_us < fault_us) {
            let recorded = mesh.record(probe, &healthy);
            mesh.engine.observe(&recorded);
        }
        if !moved && fault_us < (round + 1) * INTERVAL {
            mesh.change(cluster(3, &[1], 2, "Local"), fault_us);
            moved = true;
        }
        let late = mesh.probes(round);
        for probe in late.iter().filter(|p| p.at_us >= fault_us) {
            let recorded = mesh.record(probe, &refused_without_local(&["n1"]));
            mesh.engine.observe(&recorded);
        }
        let view = mesh.finish(round);
        if !view.incidents.is_empty() {
            return (mesh, Some((view.at.0 - fault_us, view)));
        }
    }
    (mesh, None)
}

#[test]
fn it_is_named_within_fifteen_seconds_whenever_in_the_round_the_pod_moves() {
    for offset in [0, 400_000, 1_000_000, 2_500_000, 4_900_000] {
        let (_, found) = after_the_move(6 * INTERVAL + offset);
        let (delay, view) = found.unwrap_or_else(|| panic!("not named after a move at +{offset} µs"));
        assert!(delay <= 15_000_000, "named after {delay} µs");
        assert_eq!(view.incidents.len(), 1);
        assert_eq!(view.incidents[0].verdict.region.region, "nolocal");
    }
}

#[test]
fn the_evidence_is_what_the_operator_needed_days_to_collect() {
    let (_, found) = after_the_move(6 * INTERVAL);
    let (_, view) = found.unwrap();
    let incident = &view.incidents[0];
    let verdict = &incident.verdict;
    assert_eq!(incident.state, IncidentState::Open);
    assert_eq!(verdict.subject.to_string(), "203.0.113.10:80");
    assert_eq!(verdict.causes[0].id, "F1");
    assert!(verdict.probability.get() > 0.98);
    insta::assert_json_snapshot!("i1_verdict", verdict);
}

#[test]
fn a_cell_shows_why_its_prober_did_not_probe() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Cluster"));
    let cells = |mesh: &SimulatedMesh| {
        let view = mesh.engine.view(parallax_model::EventTime(2_000_000));
        let row = |r: &&MatrixRow| r.target.as_str() == "http://h0.example.test/";
        view.matrix.iter().find(row).unwrap().cells.clone()
    };
    let probes = mesh.probes(0);
    for probe in &probes {
        let mut recorded = mesh.record(probe, &healthy);
        if recorded.vantage.to_string() == "n2/pod" {
            recorded.observation.outcome = Outcome::NotProbed {
                fault: OwnFault::NoCredential,
            };
        }
        mesh.engine.observe(&recorded);
    }
    let shown: Vec<_> = cells(&mesh).iter().map(|c| (c.state, c.not_probed)).collect();
    assert_eq!(
        shown,
        [
            (CellState::Ok, None),
            (CellState::Unknown, Some(OwnFault::NoCredential)),
            (CellState::Ok, None)
        ]
    );
    assert_eq!(
        cells(&mesh)[1].unknown_reason().as_deref(),
        Some("not probed: the prober has no such credential or cannot read its files")
    );
    for probe in &probes {
        let mut recorded = mesh.record(probe, &healthy);
        recorded.observation.started = parallax_model::EventTime(1_900_000);
        mesh.engine.observe(&recorded);
    }
    assert!(
        cells(&mesh).iter().all(|c| c.not_probed.is_none()),
        "it is probed again"
    );
}

#[test]
fn failures_show_in_the_matrix_at_once_and_silence_is_never_ok() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    let mut observe_round = |round| {
        for probe in mesh.probes(round) {
            let recorded = mesh.record(&probe, &refused_without_local(&["n1"]));
            mesh.engine.observe(&recorded);
        }
        mesh.engine
            .view(parallax_model::EventTime(round * INTERVAL + 2_000_000))
    };
    let row_of = |view: View| {
        let mut rows = view.matrix.into_iter();
        rows.find(|row| row.target.as_str() == "http://h0.example.test/")
            .unwrap()
    };
    let states = |row: &MatrixRow| row.cells.iter().map(|cell| cell.state).collect::<Vec<_>>();
    let row = row_of(observe_round(0));
    assert_eq!(states(&row), [CellState::Ok, CellState::Flaky, CellState::Flaky]);
    let row = row_of(observe_round(1));
    assert_eq!(
        states(&row),
        [CellState::Ok, CellState::Failing, CellState::Failing]
    );
    let placements: Vec<_> = row.cells.iter().map(|c| c.placement).collect();
    assert_eq!(
        placements,
        [Placement::SameNode, Placement::NoLocal, Placement::NoLocal]
    );
    assert_eq!(row.cells[1].last_failure.as_deref(), Some("refused in connect"));

    let later = mesh.engine.view(parallax_model::EventTime(60_000_000));
    assert!(
        later
            .matrix
            .iter()
            .flat_map(|r| &r.cells)
            .all(|c| c.state == CellState::Unknown)
    );
}
