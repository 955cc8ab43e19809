//! A recording gives the same verdicts, byte for byte, whatever the order within a round.

use parallax_diagnosis::replay::Replay;
use serde_json::Value;

const TRIALS: &str = include_str!("fixtures/three-trials.ndjson");

fn run<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut replay = Replay::new();
    let mut out = Vec::new();
    for (i, line) in lines.into_iter().enumerate() {
        out.extend(replay.line(i + 1, line));
    }
    out.extend(replay.finish());
    out
}

fn of(out: &[String], trial: u64, kind: &str) -> Vec<Value> {
    out.iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|v| v["trial"] == trial && v["type"] == kind)
        .collect()
}

#[test]
fn a_broken_client_nothing_and_two_faults_at_once() {
    let out = run(TRIALS.lines());
    for line in &out { println!("{line}"); }
    let client = of(&out, 0, "verdict");
    assert_eq!(client.last().unwrap()["region"], "client");
    assert_eq!(client.last().unwrap()["members"], serde_json::json!(["node-03"]));
    assert!(of(&out, 1, "verdict").is_empty());
    let two = of(&out, 2, "verdict");
    let regions: Vec<_> = two.iter().map(|v| v["region"].as_str().unwrap()).collect();
    assert!(regions.contains(&"nolocal"), "{regions:?}");
    let other = two.iter().find(|v| v["region"] != "nolocal").unwrap();
    assert_eq!(other["class"].as_array().unwrap().len(), 2, "{other}");
    assert_eq!(of(&out, 0, "trial")[0]["observations"], 159);
}
