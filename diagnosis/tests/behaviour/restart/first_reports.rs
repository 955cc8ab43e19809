//! Verdicts while only some vantages have reported to a new process.

use super::*;

/// A shop that responds 503 since round 12, at the end of round 29.
fn shop_down() -> (Value, ScriptedMesh) {
    let spec = shop_spec(&[("shop-1", 0), ("shop-2", 3)]);
    let mut day = ScriptedMesh::new(spec.clone());
    for round in 0..30 {
        day.mesh(round, &ALL, succeeds);
        probe_shop_from(&mut day, round, &ALL, round >= 12);
        day.close(round, &ALL);
    }
    (spec, day)
}

/// Creates the process that takes over from `before` at round 30. It restores the checkpoint and gets no earlier
/// observation.
fn successor(before: &ScriptedMesh, spec: &Value) -> ScriptedMesh {
    let mut day = ScriptedMesh::without_topology();
    let checkpoint = before.engine.checkpoint(round_start(30));
    day.engine.restore(&checkpoint, round_start(30));
    day.change(spec.clone(), round_start(30).0);
    day
}

#[test]
fn while_one_vantage_alone_reports_an_outage_of_all_stays_what_it_was() {
    let (spec, before) = shop_down();
    let views = before.engine.view(round_start(30));
    let first = only_open(&views).clone();
    for alone in ALL {
        let mut after = successor(&before, &spec);
        for round in 30..46 {
            after.mesh(round, &[alone], succeeds);
            probe_shop_from(&mut after, round, &[alone], true);
            let view = after.close(round, &[alone]);
            let incident = only_open(&view);
            assert_eq!(incident.id, first.id);
            assert_eq!(
                incident.verdict.region, first.verdict.region,
                "n{alone}, round {round}"
            );
        }
    }
}

/// After an upgrade two vantages report to a new aggregator; their first results are failures of one controller
/// and old successes of the other.
#[test]
fn in_its_first_minute_a_process_gives_what_is_named_no_other_cause() {
    let (spec, before) = shop_down();
    let first = only_open(&before.engine.view(round_start(30))).clone();
    let mut after = successor(&before, &spec);
    let mut named = Vec::new();
    for round in 30..60 {
        after.mesh(round, &ALL, succeeds);
        for node in [1, 2] {
            for controller in [1, 2] {
                let broken = controller == 1;
                for channel in ["vip", "direct"] {
                    let line = json!({"channel": channel, "target": "http://shop.example.test/",
                        "front": if channel == "vip" { "10.96.0.50:80".to_owned() } else { format!("10.244.{controller}.30:8000") },
                        "entry": format!("controller-{controller}"), "status": if broken { 503 } else { 200 }});
                    let failure = broken.then_some(("check", "status"));
                    after.probe(round, node, 600_000, with_outcome(line, failure));
                }
            }
        }
        let view = after.close(round, &ALL);
        let regions: Vec<String> = view
            .incidents
            .iter()
            .filter(|incident| !matches!(incident.state, IncidentState::Closed { .. }))
            .map(|incident| incident.verdict.region.region.clone())
            .collect();
        if round < 41 {
            assert_eq!(regions, [first.verdict.region.region.as_str()], "round {round}");
        }
        named = regions;
    }
    assert!(
        named.contains(&"backend".to_owned()),
        "a lasting fault gets its own cause: {named:?}"
    );
}

/// Three hosts of one application: their common failure is no evidence against the only vantage that has reported
/// so far.
#[test]
fn hosts_of_one_application_do_not_accuse_the_vantage_that_reports_first() {
    let mut spec = shop_spec(&[("shop-1", 0), ("shop-2", 3)]);
    let hosts = ["shop", "shop2", "shop3"].map(|host| format!("http://{host}.example.test/"));
    spec["published"] = hosts
        .iter()
        .map(|url| {
            json!({"target": {"url": url}, "service": "ingress/controller", "port": 80, "class": "public",
            "origin": "shop/shop"})
        })
        .collect();
    let ask = |day: &mut ScriptedMesh, round: i64, nodes: &[usize], down: bool| {
        let failure = down.then_some(("check", "status"));
        for (node, host) in nodes
            .iter()
            .flat_map(|node| hosts.iter().map(move |host| (*node, host)))
        {
            let mut line = json!({"channel": "vip", "target": host, "front": "10.96.0.50:80",
                "status": if down { 503 } else { 200 }});
            day.probe(round, node, 600_000, with_outcome(line.clone(), failure));
            line["channel"] = json!("direct");
            for controller in [1, 2] {
                line["front"] = json!(format!("10.244.{controller}.30:8000"));
                line["entry"] = json!(format!("controller-{controller}"));
                day.probe(round, node, 650_000, with_outcome(line.clone(), failure));
            }
        }
    };
    let mut before = ScriptedMesh::new(spec.clone());
    for round in 0..30 {
        before.mesh(round, &ALL, succeeds);
        ask(&mut before, round, &ALL, round >= 12);
        before.close(round, &ALL);
    }
    assert_eq!(open_sentences(&before.engine.view(round_start(30))).len(), 1);
    for alone in ALL {
        let mut after = successor(&before, &spec);
        for round in 30..40 {
            // The vantage's other channels are not back yet.
            ask(&mut after, round, &[alone], true);
            let view = after.close(round, &[alone]);
            assert_eq!(
                only_open(&view).verdict.region.region,
                "target",
                "n{alone}, round {round}"
            );
        }
    }
}

/// Observes the shop's host, through the address and through each controller; both respond 503 while the
/// application is down.
fn probe_shop_from(day: &mut ScriptedMesh, round: i64, nodes: &[usize], down: bool) {
    let failure = down.then_some(("check", "status"));
    for node in nodes {
        let mut line =
            json!({"channel": "vip", "target": "http://shop.example.test/", "front": "10.96.0.50:80"});
        line["status"] = json!(if down { 503 } else { 200 });
        day.probe(round, *node, 600_000, with_outcome(line.clone(), failure));
        for controller in [1, 2] {
            line["channel"] = json!("direct");
            line["front"] = json!(format!("10.244.{controller}.30:8000"));
            line["entry"] = json!(format!("controller-{controller}"));
            day.probe(round, *node, 650_000, with_outcome(line.clone(), failure));
        }
    }
}
