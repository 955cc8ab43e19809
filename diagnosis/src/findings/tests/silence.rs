//! Targets that must not answer, at all or to some vantages.

use serde_json::json;

use super::*;
use crate::{findings::ExposureState, view::CellState};

const SAID: &str = "http://wiki.example.test/";

#[test]
fn a_declared_target_that_answers_though_it_must_not_is_a_finding_of_its_own() {
    let mut spec = cluster();
    spec["targets"] = json!([{"url": "http://wiki.example.test/", "mustNotAnswer": "refused,404"}]);
    let mut stage = FindingsFixture::new(&spec);
    let line = json!({"target": "http://wiki.example.test/", "channel": "vip", "front": "203.0.113.10:80",
        "result": "failed", "phase": "check", "kind": "answered_though_forbidden", "status": 200});
    let mut view = None;
    for round in 0..2 {
        stage.observe(round, "internet:laptop", line.clone());
        stage.observe(round, "n1/pod", line.clone());
        view = Some(stage.close(round));
    }
    let view = view.unwrap();
    assert_eq!(kinds(&view), ["exposed"]);
    assert_eq!(
        view.findings[0].evidence,
        ["n1/pod: answered 200"],
        "the laptop is not enrolled"
    );
}

/// A mesh that probes for two rounds and gets the same result twice.
fn told(spec: &Value, question: &str, line: &Value) -> View {
    let mut cluster = cluster();
    cluster["targets"] = json!([spec]);
    let mut stage = FindingsFixture::new(&cluster);
    let mut view = None;
    for round in 0..2 {
        let mut line = line.clone();
        line["target"] = json!(question);
        stage.observe(round, "n1/pod", line);
        stage.observe(round, "n1/pod", answered_elsewhere());
        view = Some(stage.close(round));
    }
    view.unwrap()
}

/// The vantage reaches something else in the same round.
fn answered_elsewhere() -> Value {
    json!({"target": "http://a.example.test/", "channel": "vip", "front": "203.0.113.10:80", "result": "ok", "status": 200})
}

fn answered() -> Value {
    json!({"channel": "vip", "front": "203.0.113.10:80", "result": "failed", "phase": "check",
        "kind": "answered_though_forbidden", "status": 200})
}

#[test]
fn a_host_that_an_address_answers_for_though_it_must_not_is_a_finding_about_the_host_at_that_address() {
    let spec = json!({"url": SAID, "mustNotAnswerAt": ["203.0.113.10"]});
    let view = told(
        &spec,
        "http://wiki.example.test/#silent-at=203.0.113.10:80",
        &answered(),
    );
    assert_eq!(
        view.findings[0].sentence,
        "http://wiki.example.test/ must not respond at 203.0.113.10:80, but responds to n1/pod"
    );
    assert_eq!(view.findings[0].targets[0].as_str(), SAID);
    assert_eq!(view.forbidden[0].state, ExposureState::Served);
    let cell = view
        .matrix
        .iter()
        .any(|row| row.target.as_str().contains("silent"));
    assert!(!cell, "a forbidden probe adds no cell to the matrix");
}

#[test]
fn silence_where_it_is_due_is_told_from_a_question_that_nobody_has_asked() {
    let spec = json!({"url": SAID, "mustNotAnswerFrom": ["nodes"]});
    let silent = json!({"channel": "vip", "front": "203.0.113.10:80", "result": "ok"});
    let view = told(&spec, "http://wiki.example.test/#silent-from=nodes", &silent);
    assert_eq!(view.findings, []);
    assert_eq!(view.forbidden[0].state, ExposureState::NotServed);
    let unasked = told(&spec, "http://elsewhere.example.test/", &silent);
    assert_eq!(unasked.forbidden[0].state, ExposureState::Unknown);
    // Neither the expected silence nor an answer.
    let broken = json!({"channel": "vip", "front": "203.0.113.10:80", "result": "failed", "phase": "resolve",
        "kind": "servfail"});
    let view = told(&spec, "http://wiki.example.test/#silent-from=nodes", &broken);
    assert_eq!(
        (view.findings, view.forbidden[0].state),
        (Vec::new(), ExposureState::Unknown)
    );
}

#[test]
fn silence_shows_nothing_to_a_vantage_that_reaches_nothing() {
    let mut spec = cluster();
    spec["targets"] = json!([
        {"url": SAID, "mustNotAnswerFrom": ["nodes"]},
        {"url": "http://closed.example.test/", "mustNotAnswer": "timeout"},
    ]);
    let silent = |target: &str| json!({"target": target, "channel": "vip", "front": "203.0.113.10:80", "result": "ok"});
    let mut stage = FindingsFixture::new(&spec);
    let mut close = |round: i64, reaches: bool| {
        for target in [
            "http://wiki.example.test/#silent-from=nodes",
            "http://closed.example.test/",
        ] {
            stage.observe(round, "n1/pod", silent(target));
        }
        if reaches {
            stage.observe(round, "n1/pod", answered_elsewhere());
        }
        let view = stage.close(round);
        let mut rows = view.matrix.iter();
        let row = rows.find(|row| row.target.as_str() == "http://closed.example.test/");
        let mut cells = row.unwrap().cells.iter();
        let cell = cells.find(|cell| view.vantages[cell.vantage].vantage.to_string() == "n1/pod");
        (view.forbidden[0].state, cell.unwrap().state)
    };
    // Without a network, everything is silent.
    close(0, false);
    let unknown = (ExposureState::Unknown, CellState::Unknown);
    assert_eq!(close(1, false), unknown);
    close(2, true);
    assert_eq!(close(3, true), (ExposureState::NotServed, CellState::Ok));
    for round in 4..8 {
        close(round, false);
    }
    assert_eq!(close(8, false), unknown);
}
