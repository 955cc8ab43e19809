//! A recording gives the same verdicts, byte for byte, whatever the order within a round.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

use crate::simulated_mesh::{INTERVAL, SimulatedMesh, cluster, refused_without_local};
use crate::splitmix::SplitMix;
use parallax_diagnosis::replay::Replay;
use serde_json::{Value, json};

const TRIALS: &str = include_str!("../fixtures/three-trials.ndjson");

fn run<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut replay = Replay::new();
    let mut out = Vec::new();
    for (i, line) in lines.into_iter().enumerate() {
        out.extend(replay.read_line(i + 1, line));
    }
    out.extend(replay.finish());
    out
}

fn records_of(out: &[String], trial: u64, kind: &str) -> Vec<Value> {
    out.iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|v| v["trial"] == trial && v["type"] == kind)
        .collect()
}

#[test]
fn a_broken_client_nothing_and_two_faults_at_once() {
    let out = run(TRIALS.lines());
    insta::assert_snapshot!("three_trials", out.join("\n"));
    let client = records_of(&out, 0, "verdict");
    assert_eq!(client.last().unwrap()["region"], "client");
    assert_eq!(client.last().unwrap()["members"], json!(["node-03"]));
    assert!(records_of(&out, 1, "verdict").is_empty());
    let two = records_of(&out, 2, "verdict");
    assert!(two.iter().any(|v| v["region"] == "nolocal"));
    let other = two.iter().find(|v| v["region"] != "nolocal").unwrap();
    let mut class: Vec<_> = other["class"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c[0].as_str().unwrap())
        .collect();
    class.sort_unstable();
    assert_eq!(class, ["same", "same-vip"]);
    assert_eq!(records_of(&out, 0, "trial")[0]["observations"], 159);
}

#[test]
fn running_twice_gives_the_same_bytes() {
    assert_eq!(run(TRIALS.lines()), run(TRIALS.lines()));
}

/// Shuffles the observations within each round.
fn shuffled<'a>(lines: &[&'a str], seed: u64, round_of: impl Fn(&str) -> Option<i64>) -> Vec<&'a str> {
    let mut random = SplitMix::new(seed);
    let mut out: Vec<&str> = Vec::new();
    let mut open: Option<(i64, Vec<&str>)> = None;
    for line in lines {
        match (round_of(line), &mut open) {
            (Some(round), Some((current, buffer))) if round == *current => buffer.push(line),
            (round, _) => {
                if let Some((_, mut buffer)) = open.take() {
                    random.shuffle(&mut buffer);
                    out.append(&mut buffer);
                }
                match round {
                    Some(round) => open = Some((round, vec![line])),
                    None => out.push(line),
                }
            }
        }
    }
    if let Some((_, mut buffer)) = open {
        random.shuffle(&mut buffer);
        out.append(&mut buffer);
    }
    out
}

#[test]
fn arrival_order_within_a_round_does_not_show_in_a_trial() {
    let lines: Vec<&str> = TRIALS.lines().collect();
    #[expect(clippy::cast_possible_truncation, reason = "times of the fixture are small")]
    let round_of = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        (value["type"] == "obs").then(|| (value["t"].as_f64().unwrap() / 5.0) as i64)
    };
    let expected = run(lines.iter().copied());
    for seed in 0..5 {
        assert_eq!(run(shuffled(&lines, seed, round_of)), expected, "seed {seed}");
    }
}

/// Incident I1 in the native recording format: healthy, then only one ingress Pod is left.
fn native_recording() -> Vec<String> {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2, 3], 2, "Local"));
    let mut lines = vec![
        json!({"type": "settings", "interval_us": 5_000_000, "timeout_us": 3_000_000}).to_string(),
        json!({"type": "topology_spec", "t_us": 0, "spec": mesh.spec}).to_string(),
    ];
    for round in 0..8 {
        if round == 3 {
            mesh.change(cluster(3, &[1], 2, "Local"), 3 * INTERVAL);
            lines.push(json!({"type": "topology_spec", "t_us": 3 * INTERVAL, "spec": mesh.spec}).to_string());
        }
        for probe in mesh.probes(round) {
            let refused = refused_without_local(&["n1"]);
            let recorded = mesh.record(&probe, &|p| if round < 3 { None } else { refused(p) });
            let mut line = serde_json::to_value(&recorded).unwrap();
            line["type"] = json!("observation");
            lines.push(line.to_string());
        }
        for node in ["n1", "n2", "n3"] {
            let t = (round + 1) * INTERVAL;
            lines.push(json!({"type": "progress", "vantage": format!("{node}/pod"), "t_us": t}).to_string());
        }
    }
    lines
}

#[test]
fn the_own_record_replays_to_the_same_verdict_in_any_order_within_a_round() {
    let lines = native_recording();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let expected = run(lines.iter().copied());
    let verdicts = records_of(&expected, 0, "verdict");
    assert_eq!(verdicts.len(), 1, "{expected:?}");
    assert_eq!(verdicts[0]["region"], "nolocal");
    assert_eq!(verdicts[0]["t"], 25.0);
    assert_eq!(verdicts[0]["causes"][0], "F1");
    let round_of = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        (value["type"] == "observation").then(|| value["t_us"].as_i64().unwrap() / INTERVAL)
    };
    for seed in 0..5 {
        assert_eq!(run(shuffled(&lines, seed, round_of)), expected, "seed {seed}");
    }
}

#[test]
fn malformed_lines_are_counted_reported_with_their_number_and_skipped() {
    let mut lines: Vec<&str> = TRIALS.lines().collect();
    lines.insert(3, "{\"type\":\"obs\",\"trial\":0,\"t\":\"soon\"}");
    lines.insert(7, "not json");
    lines.insert(9, "{\"type\":\"weather\",\"sky\":\"blue\"}");
    let out = run(lines);
    let reported: Vec<Value> = out
        .iter()
        .map(|l| serde_json::from_str(l).unwrap())
        .filter(|v: &Value| v["type"] == "malformed")
        .collect();
    let numbers: Vec<_> = reported.iter().map(|v| v["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [4, 8]);
    let trial = &records_of(&out, 0, "trial")[0];
    assert_eq!(
        (&trial["malformed"], &trial["observations"]),
        (&json!(2), &json!(159))
    );
}

#[test]
fn a_stream_that_stops_without_an_end_is_judged_as_far_as_it_goes() {
    let lines: Vec<&str> = TRIALS.lines().take(158).collect();
    let out = run(lines);
    assert_eq!(records_of(&out, 0, "verdict")[0]["region"], "client");
    assert_eq!(records_of(&out, 0, "trial").len(), 1);
}

/// One round is never enough for a verdict; the end of the recording still reports the likeliest region.
#[test]
fn a_recording_that_ends_before_a_verdict_says_what_is_likeliest() {
    let node = |i| json!({"name": format!("n{i}"), "zone": "a", "prober": true});
    let backend =
        |i| json!({"pod": format!("shop-{i}"), "node": format!("n{i}"), "ip": format!("10.0.0.{i}")});
    let topology = json!({"type": "topology", "trial": 0, "interval_s": 5.0, "timeout_ms": 3000,
        "nodes": [node(0), node(1), node(2), node(3)], "target": {"name": "shop.example.test"},
        "backends": [backend(0), backend(1)]});
    let mut lines = vec![topology.to_string()];
    let obs = |t: f64, node: usize, channel: &str, backend: Value, peer: Value, ok: bool| {
        json!({"type": "obs", "trial": 0, "t": t, "node": format!("n{node}"), "channel": channel,
            "backend": backend, "dst_node": peer, "ok": ok, "kind": if ok { Value::Null } else { json!("refused") }})
        .to_string()
    };
    for node in 0..4 {
        let entry = json!(format!("shop-{}", node % 2));
        let peer = json!(format!("n{}", (node + 1) % 4));
        lines.push(obs(0.1, node, "vip", Value::Null, Value::Null, false));
        lines.push(obs(0.2, node, "direct", entry, Value::Null, false));
        lines.push(obs(0.3, node, "mesh", Value::Null, peer, true));
    }
    let out = run(lines.iter().map(String::as_str));
    assert!(records_of(&out, 0, "verdict").is_empty(), "{out:?}");
    let likeliest = &records_of(&out, 0, "trial")[0]["likeliest"][0];
    assert_eq!(likeliest["region"], "target", "{out:?}");
    assert!(likeliest["probability"].as_f64().unwrap() > 0.5);
    // If there is a verdict, or no fault, nothing is reported as likeliest.
    let out = run(TRIALS.lines());
    assert!(
        records_of(&out, 0, "trial")[0]["likeliest"].is_null()
            && records_of(&out, 1, "trial")[0]["likeliest"].is_null()
    );
}

#[test]
fn rounds_without_length_in_the_midst_of_a_recording_are_refused_with_the_line() {
    let out = run([
        r#"{"type":"settings","interval_us":5000000,"timeout_us":3000000}"#,
        r#"{"type":"topology_spec","t_us":0,"spec":{}}"#,
        r#"{"type":"settings_changed","t_us":1000000,"interval_us":0,"timeout_us":3000000}"#,
        r#"{"type":"settings_changed","t_us":2000000,"interval_us":1000000,"timeout_us":500000}"#,
    ]);
    let malformed: Vec<Value> = out
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "malformed")
        .collect();
    assert_eq!(malformed.len(), 1, "{out:?}");
    assert_eq!(malformed[0]["line"], 3);
    assert_eq!(
        malformed[0]["reason"],
        "interval_us: expected a positive number of microseconds, got 0"
    );
}
