use std::path::Path;

use super::*;
use crate::incident_file::parse;

fn incident(text: &str) -> (Incident, ExpectedVerdict) {
    let incident = parse(Path::new("x.yaml"), text).unwrap();
    let Outcome::Verdict(expected) = incident.expected.outcome.clone() else {
        panic!("a verdict is expected")
    };
    (incident, *expected)
}

/// Builds a state in the shape of the aggregator's response, with fields that the lab does not know.
fn state(region: &str, cause: &str, hosts: &[String]) -> AggregatorState {
    let row = |clients: &str, failures: u64| serde_json::json!({"who": clients, "channel": "vip", "probes": 4, "failures": failures, "kinds": []});
    let targets: Vec<_> = hosts.iter().map(|host| format!("http://{host}/")).collect();
    serde_json::from_value(serde_json::json!({
        "at": 1, "vantages": [], "matrix": [],
        "incidents": [{
            "id": "a", "state": "open", "since": 1, "opened": 2, "occurrences": 1,
            "subject": {"type": "front", "name": "203.0.113.10:80"},
            "region": {"region": region, "members": []},
            "probability": 0.98,
            "causes": [{"id": cause, "title": "t", "probability": 0.9}],
            "sentence": "refused by their own node: externalTrafficPolicy: Local",
            "evidence": [
                row("through 203.0.113.10:80 from nodes without an ingress Pod", 4),
                row("through 203.0.113.10:80 from nodes with an ingress Pod, answered on the same node", 0),
                row("through the ClusterIP 10.96.0.50:80 from nodes with an ingress Pod", 0),
                row("through the ClusterIP 10.96.0.50:80 from nodes without an ingress Pod", 0),
                row("direct connections", 0),
            ],
            "locality": [
                "203.0.113.10 answers n3/pod (failing) with an untouched TTL of 64: the client's own node answers",
                "203.0.113.10 answers n4/pod (failing) with an untouched TTL of 64: the client's own node answers",
            ],
            "targets": targets,
        }],
    }))
    .unwrap()
}

fn fifty() -> Vec<String> {
    (1..=50).map(|n| format!("shop-{n:02}.example.test")).collect()
}

#[test]
fn the_expected_verdict_with_all_its_members_is_named() {
    let (incident, expected) = incident(include_str!("../incidents/i1-50-hosts.yaml"));
    let judged = judge_verdict(&incident, &expected, &state("nolocal", "F1", &fifty()));
    assert!(matches!(judged, OutcomeJudgement::Named(_)), "{judged:?}");
}

#[test]
fn another_cause_or_a_missing_member_is_not_it() {
    let (incident, expected) = incident(include_str!("../incidents/i1-50-hosts.yaml"));
    for (state, reason) in [
        (
            state("nolocal", "F2", &fifty()),
            "the likeliest cause is F2, expected F1",
        ),
        (
            state("nolocal", "F1", &fifty()[..49]),
            "it covers 49 of the hosts, expected 50",
        ),
        (AggregatorState::default(), "no verdict"),
    ] {
        assert_eq!(
            judge_verdict(&incident, &expected, &state),
            OutcomeJudgement::Waiting(reason.to_owned())
        );
    }
}

#[test]
fn a_region_that_covers_the_same_probes_may_stand_in_place_of_the_expected_one() {
    let (incident, mut expected) = incident(include_str!("../incidents/i1.yaml"));
    let mut state = state("nolocal", "F1", &["shop.example.test".to_owned()]);
    state.incidents[0].region.region = "same".to_owned();
    assert!(matches!(
        judge_verdict(&incident, &expected, &state),
        OutcomeJudgement::Waiting(_)
    ));
    expected.or_region = vec!["same".to_owned()];
    assert!(matches!(
        judge_verdict(&incident, &expected, &state),
        OutcomeJudgement::Named(_)
    ));
}

#[test]
fn a_verdict_that_leaves_a_target_out_is_not_it() {
    let (incident, expected) = incident(include_str!("../incidents/i1-dual-stack.yaml"));
    let mut state = state("nolocal", "F1", &["shop.example.test".to_owned()]);
    assert_eq!(
        judge_verdict(&incident, &expected, &state),
        OutcomeJudgement::Waiting("it does not cover http://[2001:db8::cb00:710a]/".to_owned())
    );
    state.incidents[0]
        .targets
        .push("http://[2001:db8::cb00:710a]/".to_owned());
    assert!(matches!(
        judge_verdict(&incident, &expected, &state),
        OutcomeJudgement::Named(_)
    ));
}

#[test]
fn a_verdict_without_its_evidence_is_not_it() {
    let (incident, expected) = incident(include_str!("../incidents/i1.yaml"));
    let whole = state("nolocal", "F1", &["shop.example.test".to_owned()]);
    let mut flaky = whole.clone();
    flaky.incidents[0].evidence[0].failures = 3;
    let mut lacking = whole.clone();
    lacking.incidents[0].evidence.truncate(2);
    let mut silent = whole.clone();
    silent.incidents[0].locality.clear();
    assert!(matches!(
        judge_verdict(&incident, &expected, &whole),
        OutcomeJudgement::Named(_)
    ));
    for state in [flaky, lacking, silent] {
        let judged = judge_verdict(&incident, &expected, &state);
        assert!(matches!(judged, OutcomeJudgement::Waiting(_)), "{judged:?}");
    }
}

#[test]
fn of_what_always_fails_one_in_twenty_may_have_been_asked_before_the_fault() {
    let (incident, expected) = incident(include_str!("../incidents/i1.yaml"));
    let mut state = state("nolocal", "F1", &["shop.example.test".to_owned()]);
    state.incidents[0].evidence[0].probes = 20;
    state.incidents[0].evidence[0].failures = 19;
    let judged = judge_verdict(&incident, &expected, &state);
    assert!(matches!(judged, OutcomeJudgement::Named(_)), "{judged:?}");
    state.incidents[0].evidence[0].failures = 18;
    let judged = judge_verdict(&incident, &expected, &state);
    assert!(matches!(judged, OutcomeJudgement::Waiting(_)), "{judged:?}");
}

#[test]
fn a_line_may_begin_with_the_one_or_the_other_words() {
    let evidence = ExpectedEvidence {
        who: "through 203.0.113.10:80 from".to_owned(),
        or_who: vec!["through [2001:db8::1]:80 from".to_owned()],
        fails: ProbeShare::Always,
    };
    assert!(evidence.matches_row("through 203.0.113.10:80 from nodes without an ingress Pod"));
    assert!(evidence.matches_row("through [2001:db8::1]:80 from nodes without an ingress Pod"));
    assert!(!evidence.matches_row("through the ClusterIP 10.96.0.50:80 from nodes"));
}

#[test]
fn two_verdicts_for_one_fault_are_one_too_many() {
    let (incident, expected) = incident(include_str!("../incidents/i1.yaml"));
    let mut state = state("nolocal", "F1", &["shop.example.test".to_owned()]);
    let mut second = state.incidents[0].clone();
    second.region.region = "pair".to_owned();
    state.incidents.push(second);
    let judged = judge_verdict(&incident, &expected, &state);
    let OutcomeJudgement::Waiting(reason) = judged else {
        panic!("{judged:?}")
    };
    assert!(reason.starts_with("2 verdicts for one fault"), "{reason}");
}

#[test]
fn a_region_that_must_not_be_named_is_wrong_at_once_even_when_it_was_taken_back() {
    let (incident, expected) = incident(include_str!("../incidents/i1.yaml"));
    let mut state = state("vip", "F12", &["shop.example.test".to_owned()]);
    state.incidents[0].state = "closed".to_owned();
    assert!(matches!(
        judge_verdict(&incident, &expected, &state),
        OutcomeJudgement::Wrong(_)
    ));
}

#[test]
fn any_verdict_is_wrong_while_nothing_is_wrong() {
    assert!(matches!(
        judge_healthy(&state("nolocal", "F1", &[])),
        OutcomeJudgement::Wrong(_)
    ));
    assert!(matches!(
        judge_healthy(&AggregatorState::default()),
        OutcomeJudgement::Waiting(_)
    ));
}

fn noticed(sentence: &str) -> AggregatorState {
    serde_json::from_value(serde_json::json!({
        "findings": [{"kind": "exposed", "sentence": sentence, "evidence": ["a 200 from 203.0.113.10:80"]}]
    }))
    .unwrap()
}

#[test]
fn a_finding_is_as_expected_with_its_words_wrong_where_none_is_expected_and_missed_where_it_is_not_there() {
    let (mut incident, _) = incident(include_str!("../incidents/i1.yaml"));
    incident.expected.findings = vec![ExpectedNotice {
        kind: "exposed".to_owned(),
        says: vec!["intern.example.test".to_owned(), "a 200 from".to_owned()],
        optional: false,
    }];
    let reported = noticed("intern.example.test is served");
    assert!(matches!(
        judge_notices(&incident.expected, &[], &reported),
        OutcomeJudgement::Shown(_)
    ));
    assert!(matches!(judge_healthy(&reported), OutcomeJudgement::Wrong(_)));
    for state in [noticed("something else"), AggregatorState::default()] {
        assert!(matches!(
            judge_notices(&incident.expected, &[], &state),
            OutcomeJudgement::Waiting(_)
        ));
        incident.expected.findings[0].optional = true;
        assert_eq!(missing_notice(&incident.expected, &state), None);
        incident.expected.findings[0].optional = false;
    }
}

/// A verdict about n2 and n4 that closes after a repair and explains the silence of n4.
const WITH_REPAIR: &str = include_str!("../incidents/aggregator-link.yaml");

fn link(id: &str, word: &str, silent: &str) -> serde_json::Value {
    serde_json::json!({
        "id": id, "state": word, "subject": {"type": "network"}, "region": {"region": "link", "members": ["n2", "n4"]},
        "causes": [{"id": "P7"}], "consequences": [
            {"type": "hazard", "id": "x", "sentence": "s"}, {"type": "silent_vantage", "vantage": silent},
        ],
    })
}

fn of(incidents: &[serde_json::Value]) -> AggregatorState {
    let well = serde_json::json!([{"cells": [{"state": "ok"}]}]);
    let vantages = serde_json::json!([{"vantage": "n2/pod", "state": "reporting"}]);
    let state = serde_json::json!({"incidents": incidents, "matrix": well, "vantages": vantages});
    serde_json::from_value(state).unwrap()
}

#[test]
fn a_silence_that_the_verdict_does_not_explain_is_missing() {
    let (incident, expected) = incident(WITH_REPAIR);
    let judged = judge_verdict(&incident, &expected, &of(&[link("a", "open", "n4/pod")]));
    assert!(matches!(judged, OutcomeJudgement::Named(_)), "{judged:?}");
    let judged = judge_verdict(&incident, &expected, &of(&[link("a", "open", "n3/pod")]));
    assert_eq!(
        judged,
        OutcomeJudgement::Waiting("the silence of n4/pod is not among its consequences".to_owned())
    );
}

#[test]
fn with_a_repair_a_second_incident_is_wrong_even_if_it_is_closed() {
    let (incident, expected) = incident(WITH_REPAIR);
    let two = of(&[link("a", "open", "n4/pod"), link("b", "closed", "n4/pod")]);
    for judged in [
        judge_verdict(&incident, &expected, &two),
        judge_only("a", &two),
        judge_closed("a", &two),
    ] {
        assert!(matches!(judged, OutcomeJudgement::Wrong(_)), "{judged:?}");
    }
}

#[test]
fn after_the_repair_the_incident_must_be_closed_and_every_cell_ok() {
    for word in ["open", "recovering"] {
        let judged = judge_closed("a", &of(&[link("a", word, "n4/pod")]));
        assert!(
            matches!(&judged, OutcomeJudgement::Waiting(why) if why.starts_with("still ")),
            "{judged:?}"
        );
    }
    let mut state = of(&[link("a", "closed", "n4/pod")]);
    assert_eq!(judge_closed("a", &state), OutcomeJudgement::Shown(Vec::new()));
    state.vantages[0].state = "silent".to_owned();
    assert!(matches!(judge_closed("a", &state), OutcomeJudgement::Waiting(_)));
}
