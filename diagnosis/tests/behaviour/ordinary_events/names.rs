//! DNS answers that are late, cached or missing.

use super::*;

/// Every node resolves the headless name. Of two replicas of the resolver, one still has the old answer before round `until`, and
/// 10.244.1.21 is gone.
fn resolve_with_cache(day: &mut ScriptedMesh, round: i64, (old, new): (&[&str], &[&str]), until: i64) {
    for node in ALL {
        let cached = node % 2 == 0 && round < until;
        let answer = if cached { old } else { new };
        day.name(round, node, answer, 30, &["10.244.1.21"]);
    }
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
        resolve_with_cache(&mut day, round, (&old, &new), 17);
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

/// Seen after an upgrade: the new aggregator knows only the new Pods, and caches still have the old ones.
#[test]
fn a_pod_that_left_before_the_start_and_is_cached_is_no_failing_target() {
    let old = ["10.244.0.20", "10.244.1.21", "10.244.3.23"];
    let new = ["10.244.0.20", "10.244.2.22", "10.244.3.23"];
    let mut day = ScriptedMesh::new(cluster(&nodes(NODES), &[(0, 0), (2, 2), (3, 3)]));
    for round in 0..30 {
        day.mesh(round, &ALL, succeeds);
        resolve_with_cache(&mut day, round, (&old, &new), 5);
        let view = day.close(round, &ALL);
        assert_eq!(open_sentences(&view), [""; 0], "round {round}");
        assert_eq!(failing_cells(&view), [""; 0], "round {round}");
        assert_eq!(view.findings, [], "round {round}");
    }
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
fn a_workload_scaled_to_zero_is_one_incident_behind_a_headless_and_a_cluster_address() {
    let services = |database: &[(usize, usize)]| {
        let mut spec = cluster(&nodes(NODES), database);
        let headless = &mut spec["services"][0];
        headless["selector"] = json!({"app": "db"});
        let mut behind_address = headless.clone();
        behind_address["name"] = json!("db-address");
        behind_address["clusterIPs"] = json!(["10.96.1.2"]);
        spec["services"].as_array_mut().unwrap().push(behind_address);
        spec
    };
    // Pods that terminate keep their connections at the cluster address, and have no name any more.
    let mut draining = services(&[(0, 0), (1, 1)]);
    for service in [0, 2] {
        for endpoint in draining["services"][service]["endpoints"].as_array_mut().unwrap() {
            endpoint["ready"] = json!(false);
            endpoint["serving"] = json!(true);
            endpoint["terminating"] = json!(true);
        }
    }
    let mut day = ScriptedMesh::new(services(&[(0, 0), (1, 1)]));
    let mut view = None;
    for round in 0..20 {
        let scaled = round >= 12;
        if round == 12 {
            day.change(draining.clone(), 12 * INTERVAL);
        } else if round == 15 {
            day.change(services(&[]), 15 * INTERVAL);
        }
        for node in ALL {
            if scaled {
                day.absent(round, node);
            } else {
                day.name(round, node, &["10.244.0.20", "10.244.1.21"], 5, &[]);
            }
            let line = json!({"channel": "vip", "target": "http://10.96.1.2:80/", "front": "10.96.1.2:80"});
            let refused = (round >= 15).then_some(("connect", "refused"));
            day.probe(round, node, 500_000, with_outcome(line, refused));
        }
        view = Some(day.close(round, &ALL));
    }
    let view = view.unwrap();
    assert_eq!(view.incidents.len(), 1, "{:?}", open_sentences(&view));
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.causes[0].id, "F26", "{}", verdict.sentence);
    assert_eq!(verdict.targets.len(), 2, "{:?}", verdict.targets);
}
