//! Baselines: the normal response of a target, and how deviating responses are handled.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

use parallax_diagnosis::view::{CellState, MatrixRow, View};
use serde_json::{Value, json};

use crate::scripted_mesh::{ALL, INTERVAL, NODES, ScriptedMesh, cluster, nodes, open_sentences};

/// A host behind an ingress controller on n1 and n2, with its application on n0 and n3.
pub(crate) fn shop_spec(application: &[(&str, usize)]) -> Value {
    let mut spec = cluster(&nodes(NODES), &[(0, 0)]);
    let services = spec["services"].as_array_mut().unwrap();
    services.push(
        json!({"namespace": "ingress", "name": "controller", "clusterIPs": ["10.96.0.50"],
        "ingressClass": "public", "ports": [{"name": "http", "port": 80, "targetPort": 8000}],
        "endpoints": [{"pod": "controller-1", "address": "10.244.1.30", "node": "n1"},
                      {"pod": "controller-2", "address": "10.244.2.30", "node": "n2"}]}),
    );
    services.push(json!({"namespace": "shop", "name": "shop", "clusterIPs": ["10.96.2.1"],
        "ports": [{"port": 80, "targetPort": 8080}],
        "endpoints": application.iter().map(|(pod, node)| json!({"pod": pod, "address": format!("10.244.{node}.40"),
            "node": format!("n{node}")})).collect::<Vec<_>>()}));
    spec["published"] = json!([{"target": {"url": "http://shop.example.test/"}, "service": "ingress/controller", "port": 80,
        "class": "public", "origin": "shop/shop"}]);
    spec
}

/// Every node requests the host through the controller, and from each of the controller's Pods directly.
pub(crate) fn probe_shop(day: &mut ScriptedMesh, round: i64, status: u16, server: Option<&str>) {
    probe_controllers(day, round, server, |_, _| status);
}

/// Like [`probe_shop`], with a status that depends on the node and on the controller Pod.
fn probe_controllers(
    day: &mut ScriptedMesh,
    round: i64,
    server: Option<&str>,
    status: impl Fn(usize, usize) -> u16,
) {
    for node in ALL {
        let line = |status: u16| {
            let mut line = json!({"target": "http://shop.example.test/", "result": "ok", "status": status});
            if let Some(server) = server {
                line["server"] = json!(server);
            }
            line
        };
        // kube-proxy alternates between the controller Pods from round to round.
        let chosen = 1 + (node + usize::try_from(round).unwrap()) % 2;
        let mut through = line(status(node, chosen));
        through["channel"] = json!("vip");
        through["front"] = json!("10.96.0.50:80");
        day.probe(round, node, 600_000, through);
        for controller in [1, 2] {
            let mut direct = line(status(node, controller));
            direct["channel"] = json!("direct");
            direct["front"] = json!(format!("10.244.{controller}.30:8000"));
            direct["entry"] = json!(format!("controller-{controller}"));
            day.probe(round, node, 650_000, direct);
        }
    }
}

fn shop_row(view: &View) -> &MatrixRow {
    let is_shop = |row: &&MatrixRow| row.target.as_str() == "http://shop.example.test/";
    view.matrix.iter().find(is_shop).unwrap()
}

fn ok_cells(view: &View) -> usize {
    let cells = shop_row(view).cells.iter();
    cells.filter(|cell| cell.state == CellState::Ok).count()
}

#[test]
fn a_controllers_own_404_is_an_outage_once_the_application_has_answered() {
    let running = [("shop-0", 0), ("shop-1", 3)];
    let mut day = ScriptedMesh::new(shop_spec(&running));
    for round in 0..12 {
        probe_shop(&mut day, round, 200, None);
        day.close(round, &ALL);
    }
    day.change(shop_spec(&[]), 12 * INTERVAL);
    let mut view = None;
    for round in 12..18 {
        probe_shop(&mut day, round, 404, None);
        view = Some(day.close(round, &ALL));
    }
    let view = view.unwrap();
    assert_eq!(open_sentences(&view).len(), 1, "{:?}", open_sentences(&view));
    assert_eq!(view.incidents[0].verdict.region.region, "target");
    assert_eq!(ok_cells(&view), 0);
    // The incident lasts as long as the 404s, and ends with the first 200.
    for round in 18..60 {
        probe_shop(&mut day, round, 404, None);
        assert_eq!(open_sentences(&day.close(round, &ALL)).len(), 1, "round {round}");
    }
    day.change(shop_spec(&running), 60 * INTERVAL);
    let mut last = None;
    for round in 60..72 {
        probe_shop(&mut day, round, 200, None);
        last = Some(day.close(round, &ALL));
    }
    let last = last.unwrap();
    assert_eq!((open_sentences(&last).len(), ok_cells(&last)), (0, NODES));
}

#[test]
fn a_target_that_has_answered_404_from_the_start_is_fine_and_says_so() {
    let mut day = ScriptedMesh::new(shop_spec(&[("shop-0", 0)]));
    let mut view = None;
    for round in 0..40 {
        probe_shop(&mut day, round, 404, Some("gunicorn"));
        view = Some(day.close(round, &ALL));
    }
    let view = view.unwrap();
    assert_eq!((open_sentences(&view).len(), ok_cells(&view)), (0, NODES));
    assert_eq!(shop_row(&view).baseline[0].status, 404);
    // Until another server responds with it.
    let mut last = None;
    for round in 40..46 {
        probe_shop(&mut day, round, 404, None);
        last = Some(day.close(round, &ALL));
    }
    assert_eq!(open_sentences(&last.unwrap()).len(), 1);
}

#[test]
fn an_application_that_was_rolled_and_answers_otherwise_is_a_finding_with_the_change() {
    let mut day = ScriptedMesh::new(shop_spec(&[("shop-0", 0), ("shop-1", 3)]));
    for round in 0..12 {
        probe_shop(&mut day, round, 200, None);
        day.close(round, &ALL);
    }
    day.change(shop_spec(&[("shop-2", 0), ("shop-3", 3)]), 12 * INTERVAL);
    let mut view = None;
    for round in 13..30 {
        probe_shop(&mut day, round, 401, None);
        view = Some(day.close(round, &ALL));
        assert_eq!(open_sentences(view.as_ref().unwrap()), [""; 0]);
    }
    let view = view.unwrap();
    assert_eq!(view.findings[0].kind.label(), "changed-answer");
    assert!(
        view.findings[0]
            .sentence
            .contains("answers 401 instead of 200 since the pods of Service shop/shop changed"),
        "{}",
        view.findings[0].sentence
    );
    // The owner accepts the new response.
    assert!(
        day.engine
            .reset_baseline(&"http://shop.example.test/".parse().unwrap())
    );
    let mut last = None;
    for round in 30..50 {
        probe_shop(&mut day, round, 401, None);
        last = Some(day.close(round, &ALL));
    }
    let last = last.unwrap();
    assert_eq!((last.findings.len(), open_sentences(&last).len()), (0, 0));
    assert_eq!(shop_row(&last).baseline[0].status, 401);
}

/// Returns the finding labels and incidents of rounds 12 to 51 of an application that worked and was then
/// rescheduled.
fn rescheduled(status: impl Fn(i64, usize, usize) -> u16) -> Vec<(i64, Vec<&'static str>, Vec<String>)> {
    let mut day = ScriptedMesh::new(shop_spec(&[("shop-0", 0), ("shop-1", 3)]));
    for round in 0..12 {
        probe_shop(&mut day, round, 200, None);
        day.close(round, &ALL);
    }
    day.change(shop_spec(&[("shop-2", 1), ("shop-1", 3)]), 12 * INTERVAL);
    let rounds = 12..52;
    let results = rounds.map(|round| {
        probe_controllers(&mut day, round, None, |node, controller| {
            status(round, node, controller)
        });
        let view = day.close(round, &ALL);
        let findings = view.findings.iter().map(|finding| finding.kind.label()).collect();
        (round, findings, open_sentences(&view))
    });
    results.collect()
}

/// An ingress controller that has just started responds 404 until it has read its routes. A drain moves it
/// together with the application.
#[test]
fn a_404_of_a_controller_that_starts_while_the_application_is_rescheduled_is_not_the_applications() {
    let results = rescheduled(|round, node, controller| {
        if round == 13 && controller == 2 && node < 2 {
            404
        } else {
            200
        }
    });
    for (round, findings, incidents) in results {
        assert_eq!(
            (findings.len(), incidents.len()),
            (0, 0),
            "round {round}: {findings:?} {incidents:?}"
        );
    }
}

#[test]
fn a_controller_without_its_routes_is_an_outage_although_the_application_was_rescheduled() {
    let results = rescheduled(|_, _, controller| if controller == 2 { 404 } else { 200 });
    let findings: Vec<_> = results
        .iter()
        .flat_map(|(_, findings, _)| findings.clone())
        .collect();
    assert_eq!(findings, [""; 0]);
    let opened = results.iter().find(|(_, _, incidents)| !incidents.is_empty());
    let (round, _, incidents) = opened.expect("half of the answers are wrong for three minutes");
    assert!(*round < 34, "opened in round {round}");
    assert!(incidents[0].contains("controller-2"), "{incidents:?}");
}

#[test]
fn an_application_that_answers_otherwise_pod_by_pod_is_a_finding_when_all_of_it_does() {
    // The rollout replaces one Pod at once and the other after half a minute.
    let results = rescheduled(|round, node, _| {
        let new = round >= 18 || (node + usize::try_from(round).unwrap()) % 2 == 0;
        if new { 401 } else { 200 }
    });
    for (round, findings, incidents) in results {
        assert_eq!(incidents, [""; 0], "round {round}");
        match round {
            ..18 => assert_eq!(findings, [""; 0], "round {round}"),
            24.. => assert_eq!(findings, ["changed-answer"], "round {round}"),
            // Six rounds confirm the change.
            _ => {}
        }
    }
}

#[test]
fn an_answer_that_gets_worse_long_after_a_roll_out_is_an_outage() {
    let results = rescheduled(|round, _, _| if round < 32 { 200 } else { 404 });
    let findings: Vec<_> = results
        .iter()
        .flat_map(|(_, findings, _)| findings.clone())
        .collect();
    assert_eq!(findings, [""; 0]);
    assert_eq!(results.last().unwrap().2.len(), 1);
}
