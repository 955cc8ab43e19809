//! Nodes that restart, die or leave.

use super::*;

#[test]
fn a_prober_that_restarts_in_place_is_away_and_its_node_is_not_broken() {
    for (kind, away) in [("refused", 1), ("refused", 4), ("connect_timeout", 4), ("eof", 2)] {
        let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
        for round in 0..60 {
            let restarts = (12..12 + away).contains(&round);
            let present: Vec<usize> = ALL.into_iter().filter(|node| !restarts || *node != 5).collect();
            day.mesh(round, &present, |_, to| {
                (restarts && to == 5).then_some(("connect", kind))
            });
            day.web(round, &present, succeeds);
            let view = day.close(round, &present);
            assert_eq!(
                open_sentences(&view),
                [""; 0],
                "{kind} for {away} rounds, round {round}"
            );
            assert!(view.investigations.is_empty(), "{:?}", view.investigations);
        }
    }
}

/// Returns what is said if the prober beside the aggregator is away in the rounds `own`, and all others in `others`.
fn incidents_if_others_are_away(own: std::ops::Range<i64>, others: std::ops::Range<i64>) -> Vec<String> {
    const BESIDE_AGGREGATOR: usize = 3;
    let mut named = Vec::new();
    for kind in ["refused", "connect_timeout"] {
        let mut spec = cluster(&nodes(NODES), &[(0, 0)]);
        spec["aggregator"] = json!("n3");
        let mut day = ScriptedMesh::new(spec);
        for round in 0..60 {
            let is_present = |node: &usize| {
                let away = if *node == BESIDE_AGGREGATOR { &own } else { &others };
                !away.contains(&round)
            };
            let present: Vec<usize> = ALL.into_iter().filter(is_present).collect();
            day.mesh(round, &present, |_, to| {
                (!is_present(&to)).then_some(("connect", kind))
            });
            named.extend(open_sentences(&day.close(round, &present)));
        }
    }
    named
}

#[test]
fn probers_that_start_after_the_one_beside_the_aggregator_are_no_fault_of_its_node() {
    let never = 0..0;
    assert_eq!(incidents_if_others_are_away(never, 0..6), [""; 0], "installation");
    assert_eq!(
        incidents_if_others_are_away(12..14, 12..18),
        [""; 0],
        "restart of all"
    );
}

/// During an upgrade the last prober asks the Pods of its plan, which have been replaced, until it gets a new plan.
#[test]
fn a_prober_with_an_old_plan_is_no_broken_client() {
    const LAST: usize = 5;
    let replaced = |node: usize| format!("prober-n{node}-new");
    let mut upgraded = nodes(NODES);
    for (i, node) in upgraded.iter_mut().enumerate().filter(|(i, _)| *i != LAST) {
        node["prober"] = json!({"pod": replaced(i), "address": format!("10.244.{i}.6:9095")});
    }
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    for round in 0..40 {
        if round == 12 {
            day.change(cluster(&upgraded, &[(0, 0)]), round * INTERVAL);
        }
        let is_old = |node: usize| round < 12 || node == LAST;
        for from in ALL {
            for to in ALL.into_iter().filter(|to| *to != from) {
                let in_plan = if is_old(from) || is_old(to) {
                    (format!("10.244.{to}.5:9095"), format!("prober-n{to}"))
                } else {
                    (format!("10.244.{to}.6:9095"), replaced(to))
                };
                let line = json!({"channel": "mesh", "target": format!("echo://n{to}"), "dst_node": format!("n{to}"),
                    "front": in_plan.0, "entry": in_plan.1});
                let fails = is_old(from) && !is_old(to);
                let failure = fails.then_some(("connect", "connect_timeout"));
                day.probe(round, from, 1_500_000, with_outcome(line, failure));
            }
        }
        day.web(round, &ALL, succeeds);
        let view = day.close(round, &ALL);
        assert_eq!(open_sentences(&view), [""; 0], "round {round}");
    }
}

#[test]
fn a_dead_node_is_named_by_its_other_pods_and_without_any_by_long_silence() {
    let dead = |pods: bool| {
        let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
        let node = if pods { 3 } else { 5 };
        for round in 0..60 {
            let off = round >= 12;
            let present: Vec<usize> = ALL.into_iter().filter(|other| !off || *other != node).collect();
            day.mesh(round, &present, |_, to| {
                (off && to == node).then_some(("connect", "connect_timeout"))
            });
            day.web(round, &present, |from, to| match to {
                Some(to) => (off && to == node).then_some(("connect", "connect_timeout")),
                // Every other connection through the address ends on the dead node.
                None => (off && node == 3 && (from + usize::try_from(round).unwrap()) % 2 == 0)
                    .then_some(("connect", "connect_timeout")),
            });
            let view = day.close(round, &present);
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

/// Returns in which round the incident begins if a node without other Pods is cut off in the rounds 12 to 15, and again from 18 on.
fn first_round_of_pausing_outage(restarts_between: bool) -> i64 {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    for round in 0..60 {
        let off = (12..16).contains(&round) || round >= 18;
        if round == 16 && restarts_between {
            day.restarts[5] += 1;
        }
        let present: Vec<usize> = ALL.into_iter().filter(|node| !off || *node != 5).collect();
        day.mesh(round, &present, |_, to| {
            (off && to == 5).then_some(("connect", "connect_timeout"))
        });
        day.web(round, &present, succeeds);
        let view = day.close(round, &present);
        if let Some(incident) = view.incidents.first() {
            assert_eq!(incident.verdict.region.members, ["n5"]);
            return incident.since.0 / INTERVAL;
        }
    }
    panic!("never named");
}

#[test]
fn an_outage_of_a_node_begins_with_its_silence_unless_its_prober_restarted() {
    assert_eq!(first_round_of_pausing_outage(false), 12);
    assert_eq!(first_round_of_pausing_outage(true), 18);
}

/// Returns what is said first if every other connection to an address fails from round 12 on, whose Pods on n0 and n3 are not
/// probed directly, and the prober on n3 reports or not.
fn first_sentence_of_half_failing_address(is_silent: bool) -> String {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    for round in 0..60 {
        let off = round >= 12;
        let present: Vec<usize> = ALL
            .into_iter()
            .filter(|node| !off || !is_silent || *node != 3)
            .collect();
        day.mesh(round, &present, |_, to| {
            (off && is_silent && to == 3).then_some(("connect", "connect_timeout"))
        });
        for from in &present {
            let on_n3 = (from % 2 == 0) == (round % 2 == 0);
            let line = json!({"channel": "vip", "target": "http://10.96.1.1:80/", "front": "10.96.1.1:80"});
            let failure = (off && on_n3).then_some(("connect", "connect_timeout"));
            day.probe(round, *from, 500_000, with_outcome(line, failure));
        }
        let view = day.close(round, &present);
        if let Some(incident) = view.incidents.first() {
            return incident.verdict.sentence.clone();
        }
    }
    panic!("never named");
}

#[test]
fn a_prober_that_falls_silent_with_the_failures_speaks_for_its_node() {
    let silent = first_sentence_of_half_failing_address(true);
    assert!(silent.contains("node n3"), "{silent}");
    let reports = first_sentence_of_half_failing_address(false);
    assert!(!reports.contains("node n3"), "{reports}");
}

#[test]
fn a_node_that_dies_within_a_round_is_not_said_to_reach_itself() {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    for round in 0..60 {
        let off = round >= 12;
        let present: Vec<usize> = ALL.into_iter().filter(|other| !off || *other != 3).collect();
        // The first half of the node's last round succeeds.
        if round == 12 {
            day.web(round, &[3], succeeds);
        }
        day.mesh(round, &present, |_, to| {
            (off && to == 3).then_some(("connect", "connect_timeout"))
        });
        day.web(round, &present, |from, to| {
            let chosen = to.unwrap_or(if (from + usize::try_from(round).unwrap()) % 2 == 0 {
                3
            } else {
                0
            });
            (off && chosen == 3).then_some(("connect", "connect_timeout"))
        });
        let view = day.close(round, &present);
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
            let present = if round < 12 { ALL.to_vec() } else { left.clone() };
            // One of three connections through the address goes to the dead endpoint.
            day.web(round, &present, |from, to| {
                let turn = usize::try_from(round).unwrap() + from;
                let lost = to.is_none() && (12..forgotten).contains(&round) && turn % 3 == 0;
                lost.then_some(("connect", "connect_timeout"))
            });
            named.extend(
                open_sentences(&day.close(round, &present))
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

/// Observes a cluster address that fails for ten rounds, and is not probed by the last node afterwards. Returns whether the
/// incident is open at the end.
fn remains_open(last_node_reports: bool) -> bool {
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
    let others = &ALL[..NODES - 1];
    let mut open = false;
    for round in 0..60 {
        let broken = (5..15).contains(&round);
        let heard = if round < 15 || last_node_reports {
            &ALL[..]
        } else {
            others
        };
        day.mesh(round, heard, succeeds);
        let asked = if round < 15 { &ALL[..] } else { others };
        day.web(round, asked, |_, _| broken.then_some(("connect", "refused")));
        let view = day.close(round, heard);
        open = !open_sentences(&view).is_empty();
        if round == 14 {
            assert!(open, "it is named");
        }
    }
    open
}

#[test]
fn a_client_whose_plan_changed_need_not_prove_a_fault_over_and_a_silent_one_must() {
    assert!(!remains_open(true), "it reports, and was not asked again");
    assert!(remains_open(false), "whether it still fails is not known");
}

/// Seen after a rollback: the first probe of a new prober went to a Pod that was about to leave.
#[test]
fn the_only_probe_of_a_prober_that_has_just_started_shows_no_failing_path() {
    for (lost, expected) in [(1, CellState::Flaky), (2, CellState::Failing)] {
        let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0)]));
        let mut view = None;
        for round in 0..12 + lost {
            let started = |node: &usize| round >= 12 || *node != 5;
            let present: Vec<usize> = ALL.into_iter().filter(started).collect();
            day.mesh(round, &present, succeeds);
            for node in &present {
                let gone: &[&str] = if *node == 5 { &["10.244.0.20"] } else { &[] };
                day.name(round, *node, &["10.244.0.20"], 30, gone);
            }
            view = Some(day.close(round, &present));
        }
        let view = view.unwrap();
        let is_of_new_prober = |cell: &&parallax_diagnosis::view::MatrixCell| {
            view.vantages[cell.vantage].vantage.to_string() == "n5/pod"
        };
        let mut rows = view.matrix.iter();
        let row = rows
            .find(|row| row.target.to_string().contains("db.data.svc"))
            .unwrap();
        let cell = row.cells.iter().find(is_of_new_prober).unwrap();
        assert_eq!(cell.state, expected, "{lost} lost");
    }
}
