//! Plan streams that end, stall, or come from an older epoch.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn snapshot(probes: &[Value]) -> Vec<u8> {
    let assignments: Vec<Value> = probes
        .iter()
        .enumerate()
        .map(|(i, probe)| {
            json!({"id": format!("a{i}"), "target": "tcp://10.0.0.1:80", "channel": "vip", "probe": probe,
                       "dial": "resolve", "interval_us": 5_000_000, "timeout_us": 2_000_000})
        })
        .collect();
    json!({"type": "snapshot", "revision": {"epoch": 1, "n": 1},
               "settings": {"echo_nonce": "n", "heartbeat_us": 1_000_000}, "assignments": assignments})
    .to_string()
    .into_bytes()
}

#[test]
fn a_probe_of_a_newer_aggregator_is_left_out_and_the_rest_is_taken() {
    let line = snapshot(&[
        json!({"kind": "tcp", "host": "10.0.0.1", "port": 80}),
        json!({"kind": "quic", "host": "10.0.0.1"}),
    ]);
    let PlanLine::Snapshot { assignments, .. } = parse_line(&line).unwrap() else {
        panic!("a snapshot")
    };
    assert_eq!(assignments.len(), 1);
    assert_eq!(assignments[0].id.as_str(), "a0");
}

#[test]
fn a_line_of_unknown_type_is_skipped_and_one_that_is_no_json_ends_the_stream() {
    let newer = br#"{"type":"telepathy","revision":{"epoch":1,"n":2}}"#;
    assert_eq!(parse_line(newer).unwrap(), PlanLine::Unknown);
    let run = br#"{"type":"run","order":{"id":"r-1","rounds":1,"assignments":[{"id":"a","probe":{"kind":"quic"}}]}}"#;
    assert_eq!(
        parse_line(run).unwrap(),
        PlanLine::Unknown,
        "a run of a newer aggregator"
    );
    assert!(parse_line(b"<html>").is_err());
    assert!(parse_line(br#"{"type":"snapshot"}"#).is_err());
}

#[test]
fn a_plan_of_a_former_epoch_is_taken_only_when_nothing_of_a_later_one_was_heard_for_long() {
    let (mut latest, start) = (LatestEpoch::default(), Instant::now());
    let plan = |epoch| PlanRevision { epoch, number: 1 };
    latest.accept(plan(7), start).unwrap();
    latest.accept(plan(8), start).unwrap();
    latest.record_line(start + EPOCH_TIMEOUT);
    let late = start + EPOCH_TIMEOUT + EPOCH_TIMEOUT / 2;
    assert!(matches!(
        latest.accept(plan(7), late),
        Err(StreamEnd::StaleEpoch { known: 8, .. })
    ));
    latest.accept(plan(8), late).unwrap();
    latest.accept(plan(7), late + EPOCH_TIMEOUT).unwrap();
}

#[test]
fn a_line_without_end_is_not_kept_for_ever() {
    let mut frames = LineDecoder::default();
    let chunk = vec![b'x'; MAX_LINE_LENGTH];
    frames.push(&chunk).unwrap();
    assert_eq!(frames.next(), None);
    assert!(matches!(frames.push(b"x"), Err(StreamEnd::LineTooLong)));
}

proptest! {
    #[test]
    fn lines_come_out_whole_however_the_stream_is_cut(
        lines in proptest::collection::vec("[a-z]{1,20}", 1..10),
        cut in 1_usize..30,
    ) {
        let stream: Vec<u8> = lines.iter().flat_map(|l| format!("{l}\n\n").into_bytes()).collect();
        let mut frames = LineDecoder::default();
        let mut out = Vec::new();
        for chunk in stream.chunks(cut) {
            frames.push(chunk).unwrap();
            while let Some(line) = frames.next() {
                out.push(String::from_utf8(line).unwrap());
            }
        }
        prop_assert_eq!(out, lines);
    }
}
