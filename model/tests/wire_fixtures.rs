//! The wire format is a contract with deployed probers: every version must read what earlier versions wrote,
//! and the format written today must not change. The fixtures are append-only.

#![expect(clippy::unwrap_used, reason = "a broken fixture is a failed test")]

use std::path::PathBuf;

use parallax_model::{FailureKind, Observation, Outcome, PlanLine, ReportAnswer, ReportHeader};
use serde::{Serialize, de::DeserializeOwned};

fn fixture(name: &str) -> Vec<String> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "tests", "wire", "v1", name]
        .iter()
        .collect();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(ToOwned::to_owned).collect()
}

fn reads_and_writes_back_the_same<T: Serialize + DeserializeOwned>(line: &str) {
    let value: T = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    assert_eq!(serde_json::to_string(&value).unwrap(), line);
}

#[test]
fn a_report_is_written_as_it_was_read() {
    let lines = fixture("report.ndjson");
    let (header, observations) = lines.split_first().unwrap();
    reads_and_writes_back_the_same::<ReportHeader>(header);
    for line in observations {
        reads_and_writes_back_the_same::<Observation>(line);
    }
}

#[test]
fn later_probe_fields_round_trip() {
    for line in fixture("plan-probes.ndjson") {
        reads_and_writes_back_the_same::<PlanLine>(&line);
    }
    for line in fixture("report-probes.ndjson") {
        reads_and_writes_back_the_same::<Observation>(&line);
    }
}

#[test]
fn node_facts_and_the_questions_for_them_are_written_as_they_were_read() {
    let lines = fixture("report-facts.ndjson");
    for line in &lines {
        reads_and_writes_back_the_same::<ReportHeader>(line);
    }
    for line in fixture("plan-facts.ndjson") {
        reads_and_writes_back_the_same::<PlanLine>(&line);
    }
}

#[test]
fn run_orders_and_their_observations_round_trip() {
    for line in fixture("plan-run.ndjson") {
        reads_and_writes_back_the_same::<PlanLine>(&line);
    }
    for line in fixture("report-run.ndjson") {
        reads_and_writes_back_the_same::<Observation>(&line);
        let observation: Observation = serde_json::from_str(&line).unwrap();
        assert_eq!(observation.assignment.unwrap().run_id(), Some("r-1a2b"));
    }
}

#[test]
fn a_challenge_of_a_run_and_what_its_client_saw_are_written_as_they_were_read() {
    for line in fixture("plan-challenge.ndjson") {
        reads_and_writes_back_the_same::<PlanLine>(&line);
    }
    for line in fixture("report-challenge.ndjson") {
        reads_and_writes_back_the_same::<Observation>(&line);
    }
}

#[test]
fn the_question_for_a_names_facts_and_what_servers_say_are_written_as_they_were_read() {
    for line in fixture("plan-names.ndjson") {
        reads_and_writes_back_the_same::<PlanLine>(&line);
    }
    for line in fixture("report-names.ndjson") {
        reads_and_writes_back_the_same::<Observation>(&line);
    }
}

#[test]
fn resend_requests_and_resent_reports_round_trip() {
    for line in fixture("report-again.ndjson") {
        reads_and_writes_back_the_same::<ReportHeader>(&line);
    }
    for line in fixture("answer-again.ndjson") {
        reads_and_writes_back_the_same::<ReportAnswer>(&line);
    }
    let older = r#"{"accepted":3,"duplicates":0,"malformed":0}"#;
    let answer: ReportAnswer = serde_json::from_str(older).unwrap();
    assert_eq!(
        answer,
        ReportAnswer::default(),
        "an older aggregator requests nothing"
    );
}

#[test]
fn facts_of_a_newer_prober_are_read_as_far_as_they_are_known() {
    let newer = r#"{"v":1,"incarnation":"i1","vantage":"n1/host","sent_us":7,"dropped":0,"facts":{"hairpin":true,"bpf_maps":3}}"#;
    let header: ReportHeader = serde_json::from_str(newer).unwrap();
    assert_eq!(header.facts.unwrap().hairpin, Some(true));
}

#[test]
fn every_plan_line_is_written_as_it_was_read() {
    for line in fixture("plan.ndjson") {
        reads_and_writes_back_the_same::<PlanLine>(&line);
    }
}

#[test]
fn unknown_fields_and_kinds_of_a_newer_prober_are_kept_as_a_failure() {
    let lines = fixture("from-a-newer-prober.ndjson");
    let _: ReportHeader = serde_json::from_str(&lines[0]).unwrap();
    let observation: Observation = serde_json::from_str(&lines[1]).unwrap();
    let Outcome::Failed { kind, .. } = observation.outcome else {
        panic!("a failure")
    };
    assert_eq!(kind, FailureKind::Other("quic_blocked".into()));
}

#[test]
fn a_report_of_an_older_prober_lacks_only_what_was_added_later() {
    let lines = fixture("from-an-older-prober.ndjson");
    let header: ReportHeader = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(header.complete_until, None);
    let observation: Observation = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(observation.outcome, Outcome::Ok { status: None });
}

#[test]
fn a_line_of_a_newer_aggregator_is_skipped_not_refused() {
    let line: PlanLine = serde_json::from_str(r#"{"type":"telepathy","id":7,"urls":["http://a/"]}"#).unwrap();
    assert_eq!(line, PlanLine::Unknown);
}
