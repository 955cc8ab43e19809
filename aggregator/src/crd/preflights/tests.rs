use parallax_api::{
    names::{NameCause, NameProblem},
    preflight::CheckState::{self, AtRisk, Failed, Passed, Unknown},
};
use parallax_diagnosis::verdict::Remedy;
use parallax_model::{ChallengeClient, FailureKind, Phase, Vantage};
use parallax_preflight::{Cause, CheckKind, FailureGroup, HostVerdict, UnknownReason, Verdict};

use super::{PreflightBody, PreflightStatus, check_conditions, host_status, ready_condition};

fn verdict(check: CheckKind, state: CheckState) -> Verdict {
    Verdict {
        check,
        state,
        unknown_reason: None,
        sentence: format!("it is {state:?}"),
        passed: Vec::new(),
        failure_groups: Vec::new(),
        problems: Vec::new(),
        silent: Vec::new(),
        caveats: Vec::new(),
        findings: Vec::new(),
    }
}

fn judged(name: &str, self_check: CheckState, ca: CheckState) -> HostVerdict {
    HostVerdict {
        host: name.to_owned(),
        self_check: verdict(CheckKind::SelfCheck, self_check),
        ca: verdict(CheckKind::Ca(ChallengeClient::Boulder), ca),
        not_checked: Vec::new(),
    }
}

#[test]
fn ready_is_true_only_where_the_command_ends_with_0_and_what_is_unknown_is_never_true() {
    // (verdicts of each name, strict, Ready, reason, SelfCheckPassed, CAPassed)
    for (all, strict, status, reason, own, ca) in [
        (vec![(Passed, Passed)], false, "True", "Passed", "True", "True"),
        (vec![(AtRisk, Passed)], false, "True", "Passed", "True", "True"),
        (
            vec![(AtRisk, Passed)],
            true,
            "False",
            "SelfCheckFailed",
            "False",
            "True",
        ),
        (
            vec![(Failed, Passed)],
            false,
            "False",
            "SelfCheckFailed",
            "False",
            "True",
        ),
        (
            vec![(Passed, Failed)],
            false,
            "False",
            "CAFailed",
            "True",
            "False",
        ),
        (
            vec![(Failed, Passed), (Passed, Failed)],
            false,
            "False",
            "BothFailed",
            "False",
            "False",
        ),
        (
            vec![(Passed, Unknown)],
            false,
            "Unknown",
            "NotProved",
            "True",
            "Unknown",
        ),
        (
            vec![(Passed, Passed), (Unknown, Passed)],
            false,
            "Unknown",
            "NotProved",
            "Unknown",
            "True",
        ),
        (
            vec![(Unknown, Failed)],
            false,
            "False",
            "CAFailed",
            "Unknown",
            "False",
        ),
        (
            vec![(Unknown, Passed), (AtRisk, Passed)],
            true,
            "False",
            "SelfCheckFailed",
            "False",
            "True",
        ),
        (vec![], false, "Unknown", "NotProved", "Unknown", "Unknown"),
    ] {
        let made: Vec<HostVerdict> = all
            .iter()
            .enumerate()
            .map(|(n, (own, ca))| judged(&format!("h{n}.example.test"), *own, *ca))
            .collect();
        let all: Vec<&HostVerdict> = made.iter().collect();
        let condition = ready_condition(&all, strict);
        assert_eq!((condition.0, condition.1), (status, reason), "{made:?}");
        let parts = check_conditions(&all, strict);
        assert_eq!((parts[0].0, parts[1].0), (own, ca), "{made:?}");
    }
}

#[test]
fn without_a_vantage_outside_neither_the_ca_nor_the_object_is_true_and_both_say_why() {
    let mut inside_only = judged("shop.example.test", Passed, Unknown);
    inside_only.ca.unknown_reason = Some(UnknownReason::NoOutsideVantage);
    for strict in [false, true] {
        let ready = ready_condition(&[&inside_only], strict);
        assert_eq!((ready.0, ready.1), ("Unknown", "NoOutsideVantage"));
        let [own, ca] = check_conditions(&[&inside_only], strict);
        assert_eq!((own.0, ca.0, ca.1), ("True", "Unknown", "NoOutsideVantage"));
    }
}

#[test]
fn a_message_names_the_worst_name_and_how_many_are_like_it() {
    let all = [
        judged("a.example.test", Passed, Passed),
        judged("b.example.test", Failed, Passed),
        judged("c.example.test", Failed, Passed),
    ];
    let [own, ca] = check_conditions(&all.iter().collect::<Vec<_>>(), false);
    assert!(
        own.2 == "b.example.test: it is Failed (and 1 more)"
            || own.2 == "c.example.test: it is Failed (and 1 more)",
        "{}",
        own.2
    );
    assert!(ca.2.ends_with("it is Passed (and 2 more)"), "{}", ca.2);
}

#[test]
fn problems_with_the_name_come_first_in_the_notes() {
    let mut judged = judged("shop.example.test", Passed, Failed);
    judged.ca.caveats = vec!["something".to_owned(); 9];
    judged.ca.problems = vec![NameProblem {
        cause: NameCause::Caa,
        description: "its CAA records allow others only".to_owned(),
        ca_error: "caa: CAA record for example.test prevents issuance".to_owned(),
        remedy: "add a record".to_owned(),
    }];
    let notes = host_status(&judged, "", &[]).ca.notes;
    assert_eq!(
        notes[0],
        "its CAA records allow others only (caa: CAA record for example.test prevents issuance); add a record"
    );
}

/// Five thousand nodes in fifty groups of failures, with very long texts.
#[test]
fn the_status_is_bounded() {
    let long = "\u{1b}[31m".to_owned() + &"ö☠x".repeat(10_000);
    let vantage = |n: usize| -> Vantage { format!("node-{n}/pod").parse().unwrap() };
    let group = |n: usize| FailureGroup {
        vantages: (0..100).map(|i| vantage(100 * n + i)).collect(),
        address: None,
        phase: Phase::Connect,
        kind: FailureKind::Refused,
        status: None,
        reason: long.clone(),
        client_message: long.clone(),
        causes: vec![
            Cause {
                id: long.clone(),
                title: long.clone(),
                diagnosed: false,
            };
            20
        ],
        remedies: vec![
            Remedy {
                action: long.clone(),
                command: Some(long.clone()),
                trade_off: long.clone(),
                ineffective_when: None,
            };
            20
        ],
    };
    let mut one = judged("shop.example.test", Failed, Failed);
    for verdict in [&mut one.self_check, &mut one.ca] {
        verdict.failure_groups = (0..50).map(group).collect();
        verdict.caveats = vec![long.clone(); 50];
        verdict.sentence.clone_from(&long);
    }
    let status = host_status(&one, &long, &vec!["run".to_owned(); 50]);
    assert_eq!(
        (
            status.self_check.failed,
            status.self_check.failure_groups[0].count
        ),
        (5_000, 100)
    );
    let text = serde_json::to_string(&status).unwrap();
    assert!(!text.contains("\\u001b"), "{text}");
    let most = PreflightStatus {
        hosts: vec![status; super::MAX_HOSTS],
        ..PreflightStatus::default()
    };
    let size = serde_json::to_vec(&most).unwrap().len();
    assert!(size < 300_000, "{size} bytes");
    let [own, _] = check_conditions(&[&one], false);
    assert!(own.2.len() <= 1_000 && own.2.ends_with('…'), "{}", own.2);
}

#[test]
fn absent_fields_are_serialized_as_null() {
    let empty = serde_json::to_value(PreflightStatus::default()).unwrap();
    for field in [
        "completionTime",
        "omittedHosts",
        "certManager",
        "attempts",
        "startTime",
    ] {
        assert!(empty[field].is_null() && empty.get(field).is_some(), "{field}");
    }
    for field in ["hosts", "conditions", "notChecked"] {
        assert_eq!(empty[field], serde_json::json!([]), "{field}");
    }
}

#[test]
fn a_field_that_is_not_known_is_no_spec() {
    let read = |text: &str| serde_json::from_str::<PreflightBody>(text);
    assert!(read(r#"{"hosts": ["shop.example.test"], "class": "nginx"}"#).is_ok());
    let wrong = read(r#"{"hosts": ["shop.example.test"], "clas": "nginx"}"#).unwrap_err();
    assert!(wrong.to_string().contains("clas"), "{wrong}");
}
