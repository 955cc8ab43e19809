//! Ordinary events: they cause at most a notice, never an incident.

mod names;
mod nodes;

use parallax_diagnosis::view::{CellState, View};
use serde_json::json;

use crate::scripted_mesh::{
    ALL, INTERVAL, NODES, ScriptedMesh, cluster, nodes, open_sentences, succeeds, with_outcome,
};

/// Returns the failures of the cells shown as failing.
fn failing_cells(view: &View) -> Vec<&str> {
    let cells = view.matrix.iter().flat_map(|row| &row.cells);
    let failing = cells.filter(|cell| matches!(cell.state, CellState::Failing | CellState::Flaky));
    failing.filter_map(|cell| cell.last_failure.as_deref()).collect()
}

#[test]
fn one_lost_echo_after_a_cured_fault_reopens_nothing() {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    let cut = |from, to| (from == 2 && to == 3).then_some(("connect", "connect_timeout"));
    let mut opened = 0;
    for round in 0..100 {
        let broken = (12..36).contains(&round) || round == 99;
        day.mesh(round, &ALL, |from, to| if broken { cut(from, to) } else { None });
        day.web(round, &ALL, succeeds);
        let view = day.close(round, &ALL);
        opened = opened.max(open_sentences(&view).len());
        if round >= 45 {
            assert_eq!(open_sentences(&view), [""; 0], "round {round}");
        }
    }
    assert_eq!(opened, 1);
    for round in 100..104 {
        day.mesh(round, &ALL, succeeds);
        assert_eq!(open_sentences(&day.close(round, &ALL)), [""; 0], "round {round}");
    }
}

#[test]
fn a_soft_fault_is_one_incident_that_is_never_first_named_after_its_cure() {
    for one_in in [11, 23, 37] {
        let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
        let mut named = Vec::new();
        for round in 0..240 {
            // One in `one_in` echoes into n4 is lost for five minutes.
            day.mesh(round, &ALL, |from, to| {
                let turn = round * 5 + i64::try_from(from).unwrap();
                let lost = (10..70).contains(&round) && to == 4 && turn % one_in == 0;
                lost.then_some(("connect", "connect_timeout"))
            });
            let view = day.close(round, &ALL);
            for incident in &view.incidents {
                if !named.iter().any(|(id, _)| *id == incident.id) {
                    named.push((incident.id.clone(), round));
                }
                assert_eq!(incident.occurrences, 1, "one in {one_in}, round {round}");
            }
            if round >= 230 {
                assert_eq!(open_sentences(&view), [""; 0], "one in {one_in}");
                assert!(view.investigations.is_empty(), "{:?}", view.investigations);
            }
        }
        assert!(named.len() <= 1, "one in {one_in}: {named:?}");
        assert!(
            named.iter().all(|(_, round)| *round < 71),
            "one in {one_in}: {named:?}"
        );
    }
}
