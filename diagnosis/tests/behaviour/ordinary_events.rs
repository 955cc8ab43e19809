//! Ordinary events: they cause at most a notice, never an incident.

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
fn a_rolled_headless_service_whose_names_are_cached_is_a_notice_with_the_length_of_the_window() {
    let before = cluster(&nodes(NODES), &[(0, 0), (1, 1), (3, 3)]);
    let after = cluster(&nodes(NODES), &[(0, 0), (2, 2), (3, 3)]);
    let (old, new) = (
        ["10.244.0.20", "10.244.1.21", "10.244.3.23"],
        ["10.244.0.20", "10.244.2.22", "10.244.3.23"],
    );
    let mut day = ScriptedMesh::new(before);
    for round in 0..12 {
        day.mesh(round, &ALL, succeeds);
        for node in ALL {
            day.name(round, node, &old, 30, &[]);
        }
        assert_eq!(open_sentences(&day.close(round, &ALL)), [""; 0]);
    }
    day.change(after, 12 * INTERVAL + 400_000);
    let mut windows = 0;
    for round in 12..60 {
        day.mesh(round, &ALL, succeeds);
        // Two replicas of the resolver: half of the nodes get the new answer at once, the others 25 s later.
        for node in ALL {
            let cached = node % 2 == 0 && round < 17;
            day.name(
                round,
                node,
                if cached { &old } else { &new },
                30,
                &["10.244.1.21"],
            );
        }
        let view = day.close(round, &ALL);
        assert_eq!(open_sentences(&view), [""; 0], "round {round}");
        assert!(view.investigations.is_empty(), "{:?}", view.investigations);
        assert_eq!(failing_cells(&view), [""; 0], "round {round}");
        let kinds: Vec<_> = view.findings.iter().map(|finding| finding.kind.label()).collect();
        assert!(
            kinds.iter().all(|kind| *kind == "cache-window"),
            "round {round}: {kinds:?}"
        );
        windows += kinds.len();
        if round == 20 {
            assert!(
                view.findings[0]
                    .sentence
                    .contains("for up to 24.6 s after the Service lost them (TTL 30 s)"),
                "{}",
                view.findings[0].sentence
            );
        }
    }
    assert!(windows > 20, "the window is shown for a while");
}

#[test]
fn the_same_address_long_after_its_ttl_is_a_stale_answer_and_still_no_front() {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0), (1, 1)]));
    let old = ["10.244.0.20", "10.244.1.21"];
    for round in 0..6 {
        for node in ALL {
            day.name(round, node, &old, 5, &[]);
        }
        day.close(round, &ALL);
    }
    day.change(cluster(&nodes(NODES), &[(0, 0), (2, 2)]), 6 * INTERVAL);
    let mut view = None;
    for round in 6..20 {
        for node in ALL {
            day.name(round, node, &old, 5, &["10.244.1.21"]);
        }
        view = Some(day.close(round, &ALL));
    }
    let view = view.unwrap();
    assert_eq!(open_sentences(&view), [""; 0]);
    assert_eq!(view.findings[0].kind.label(), "stale-answer");
    assert_eq!(
        failing_cells(&view).len(),
        ALL.len(),
        "clients fail, and no cache can be the reason"
    );
}

#[test]
fn a_name_that_one_replica_of_the_resolver_still_denies_resolves() {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[]));
    for round in 0..6 {
        day.mesh(round, &ALL, succeeds);
        day.close(round, &ALL);
    }
    day.change(cluster(&nodes(NODES), &[(0, 0)]), 6 * INTERVAL);
    for round in 6..30 {
        day.mesh(round, &ALL, succeeds);
        for node in ALL {
            if node % 2 == 0 && round < 12 {
                day.absent(round, node);
            } else {
                day.name(round, node, &["10.244.0.20"], 30, &[]);
            }
        }
        let view = day.close(round, &ALL);
        assert_eq!(open_sentences(&view), [""; 0], "round {round}");
        assert_eq!(failing_cells(&view), [""; 0], "round {round}");
        assert!(view.findings.is_empty(), "round {round}: {:?}", view.findings);
        if round == 11 {
            let denied = view.matrix[1]
                .cells
                .iter()
                .find(|cell| cell.last_failure.is_some())
                .unwrap();
            assert_eq!(denied.state, CellState::Unknown, "unknown is not ok");
            assert_eq!(
                denied.last_failure.as_deref(),
                Some("nxdomain in resolve: outdated, from before the latest change of names or endpoints")
            );
        }
    }
    // If it is denied for longer than any cache may keep the answer, the name does not resolve.
    let mut view = None;
    for round in 30..40 {
        day.mesh(round, &ALL, succeeds);
        for node in ALL {
            day.absent(round, node);
        }
        view = Some(day.close(round, &ALL));
    }
    let view = view.unwrap();
    // It is the only name that is queried.
    assert_eq!(view.incidents[0].verdict.region.region, "dns-all");
}

/// A `StatefulSet` moves its only Pod. Two replicas of the resolver learn of it at different times, and clients
/// alternate between them.
#[test]
fn a_name_whose_only_endpoint_moves_does_not_flap() {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    let (old, new) = ("10.244.0.20", "10.244.2.22");
    let answers = |round: i64| match round {
        6 | 8 | 10 | 12 => None,
        0..10 => Some(old),
        _ => Some(new),
    };
    for round in 0..40 {
        match round {
            6 => day.change(cluster(&nodes(NODES), &[]), 6 * INTERVAL),
            10 => day.change(cluster(&nodes(NODES), &[(2, 2)]), 10 * INTERVAL),
            _ => {}
        }
        day.mesh(round, &ALL, succeeds);
        for node in ALL {
            match answers(round) {
                Some(address) => day.name(round, node, &[address], 30, &[old][..usize::from(round >= 6)]),
                None => day.absent(round, node),
            }
        }
        let view = day.close(round, &ALL);
        let kinds: Vec<_> = view.findings.iter().map(|finding| finding.kind.label()).collect();
        assert!(
            kinds.iter().all(|kind| *kind == "cache-window"),
            "round {round}: {kinds:?}"
        );
    }
}

#[test]
fn a_headless_service_without_endpoints_lacks_endpoints_and_no_name() {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0), (1, 1)]));
    for round in 0..12 {
        for node in ALL {
            day.name(round, node, &["10.244.0.20", "10.244.1.21"], 5, &[]);
        }
        day.close(round, &ALL);
    }
    day.change(cluster(&nodes(NODES), &[]), 12 * INTERVAL);
    let mut view = None;
    for round in 12..20 {
        for node in ALL {
            day.absent(round, node);
        }
        view = Some(day.close(round, &ALL));
    }
    let view = view.unwrap();
    assert_eq!(view.incidents.len(), 1, "{:?}", open_sentences(&view));
    assert_eq!(view.incidents[0].verdict.causes[0].id, "F26");
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

#[test]
fn a_prober_that_restarts_in_place_is_away_and_its_node_is_not_broken() {
    for (kind, away) in [("refused", 1), ("refused", 4), ("connect_timeout", 4), ("eof", 2)] {
        let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
        for round in 0..60 {
            let restarts = (12..12 + away).contains(&round);
            let there: Vec<usize> = ALL.into_iter().filter(|node| !restarts || *node != 5).collect();
            day.mesh(round, &there, |_, to| {
                (restarts && to == 5).then_some(("connect", kind))
            });
            day.web(round, &there, succeeds);
            let view = day.close(round, &there);
            assert_eq!(
                open_sentences(&view),
                [""; 0],
                "{kind} for {away} rounds, round {round}"
            );
            assert!(view.investigations.is_empty(), "{:?}", view.investigations);
        }
    }
}

#[test]
fn a_dead_node_is_named_by_its_other_pods_and_without_any_by_long_silence() {
    let dead = |pods: bool| {
        let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
        let node = if pods { 3 } else { 5 };
        for round in 0..60 {
            let off = round >= 12;
            let there: Vec<usize> = ALL.into_iter().filter(|other| !off || *other != node).collect();
            day.mesh(round, &there, |_, to| {
                (off && to == node).then_some(("connect", "connect_timeout"))
            });
            day.web(round, &there, |from, to| match to {
                Some(to) => (off && to == node).then_some(("connect", "connect_timeout")),
                // Every other connection through the address ends on the dead node.
                None => (off && node == 3 && (from + usize::try_from(round).unwrap()) % 2 == 0)
                    .then_some(("connect", "connect_timeout")),
            });
            let view = day.close(round, &there);
            if let Some(incident) = view.incidents.first() {
                assert_eq!(
                    incident.verdict.region.members,
                    [format!("n{node}")],
                    "{}",
                    incident.verdict.sentence
                );
                return round - 12;
            }
        }
        panic!("never named");
    };
    assert!(dead(true) <= 3);
    let alone = dead(false);
    assert!((6..=10).contains(&alone), "after {alone} rounds");
}

#[test]
fn a_node_that_dies_within_a_round_is_not_said_to_reach_itself() {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    for round in 0..60 {
        let off = round >= 12;
        let there: Vec<usize> = ALL.into_iter().filter(|other| !off || *other != 3).collect();
        // The first half of the node's last round succeeds.
        if round == 12 {
            day.web(round, &[3], succeeds);
        }
        day.mesh(round, &there, |_, to| {
            (off && to == 3).then_some(("connect", "connect_timeout"))
        });
        day.web(round, &there, |from, to| {
            let chosen = to.unwrap_or(if (from + usize::try_from(round).unwrap()) % 2 == 0 {
                3
            } else {
                0
            });
            (off && chosen == 3).then_some(("connect", "connect_timeout"))
        });
        let view = day.close(round, &there);
        if let Some(incident) = view.incidents.first() {
            let region = &incident.verdict.region;
            assert_eq!(
                (region.region.as_str(), region.members.as_slice()),
                ("bnode", &["n3".to_owned()][..])
            );
            return;
        }
    }
    panic!("never named");
}

#[test]
fn an_endpoint_that_outlives_its_node_is_awaited_and_named_where_it_stays() {
    // A Pod of its own on n5; the others on n0 and n3.
    let spec = |node: bool, endpoint: bool| {
        let mut spec = cluster(&nodes(if node { NODES } else { 5 }), &[(0, 0)]);
        let endpoints = spec["services"][1]["endpoints"].as_array_mut().unwrap();
        if node {
            endpoints.push(json!({"pod": "web-5", "address": "10.244.5.10", "node": "n5"}));
        } else if endpoint {
            endpoints.push(
                json!({"pod": "web-5", "address": "10.244.5.10", "ready": false, "serving": false,
                "terminating": true}),
            );
        }
        spec
    };
    // The cluster removes the endpoint after 30 s, or never.
    for forgotten in [18, 99] {
        let mut day = ScriptedMesh::new(spec(true, true));
        let left: Vec<usize> = (0..5).collect();
        let mut named = Vec::new();
        for round in 0..60 {
            if round == 12 {
                day.change(spec(false, true), round * INTERVAL);
            }
            if round == forgotten {
                day.change(spec(false, false), round * INTERVAL);
            }
            let there = if round < 12 { ALL.to_vec() } else { left.clone() };
            // One of three connections through the address goes to the dead endpoint.
            day.web(round, &there, |from, to| {
                let turn = usize::try_from(round).unwrap() + from;
                let lost = to.is_none() && (12..forgotten).contains(&round) && turn % 3 == 0;
                lost.then_some(("connect", "connect_timeout"))
            });
            named.extend(
                open_sentences(&day.close(round, &there))
                    .into_iter()
                    .map(|sentence| (round, sentence)),
            );
        }
        match forgotten {
            18 => assert_eq!(named, []),
            _ => assert!(
                named.first().is_some_and(|(round, _)| (27..32).contains(round)),
                "{named:?}"
            ),
        }
    }
}

#[test]
fn a_node_that_leaves_in_order_is_not_accused_and_what_is_said_of_a_node_ends_with_it() {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    for round in 0..12 {
        day.mesh(round, &ALL, succeeds);
        day.close(round, &ALL);
    }
    // Its prober ends; some peers learn of it late.
    let mut leaving = nodes(NODES);
    leaving[5].as_object_mut().unwrap().remove("prober");
    day.change(cluster(&leaving, &[(0, 0)]), 12 * INTERVAL + 400_000);
    let left: Vec<usize> = (0..5).collect();
    for round in 12..16 {
        let late = [0, 1, 2];
        day.mesh(round, &late, |_, to| {
            (to == 5).then_some(("connect", "connect_timeout"))
        });
        assert_eq!(open_sentences(&day.close(round, &left)), [""; 0]);
    }
    day.change(cluster(&nodes(5), &[(0, 0)]), 16 * INTERVAL);
    let cut = |_, to| (to == 4).then_some(("connect", "connect_timeout"));
    let mut last = None;
    for round in 16..24 {
        for from in [0, 1, 2, 3] {
            for to in 0..5 {
                if from != to {
                    let line = json!({"channel": "mesh", "target": format!("echo://n{to}"), "dst_node": format!("n{to}")});
                    day.probe(round, from, 1_000_000, with_outcome(line, cut(from, to)));
                }
            }
        }
        last = Some(day.close(round, &left));
    }
    assert_eq!(open_sentences(&last.unwrap()).len(), 1);
    let mut view = None;
    day.change(cluster(&nodes(4), &[(0, 0)]), 24 * INTERVAL);
    for round in 24..26 {
        for from in [0, 1, 2, 3] {
            let line = json!({"channel": "mesh", "target": format!("echo://n{}", (from + 1) % 4), "dst_node": format!("n{}", (from + 1) % 4)});
            day.probe(round, from, 1_000_000, with_outcome(line, None));
        }
        view = Some(day.close(round, &[0, 1, 2, 3]));
    }
    let view = view.unwrap();
    assert_eq!(open_sentences(&view), [""; 0]);
    assert_eq!(
        view.incidents[0].departure_reason.as_deref(),
        Some("node n4 left the cluster")
    );
}
