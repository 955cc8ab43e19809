use parallax_api::{
    names::{NameCause, NameProblem},
    preflight::CheckState::{self, AtRisk, Failed, Passed, Unknown},
};
use parallax_diagnosis::verdict::Remedy;
use parallax_model::{ChallengeClient, FailureKind, Phase, Vantage};
use parallax_preflight::{Cause, CheckKind, FailureGroup, HostVerdict, Verdict};

use super::{PreflightBody, PreflightStatus, host, ready, verdicts};

fn verdict(check: CheckKind, standing: CheckState) -> Verdict {
    Verdict {
        check,
        standing,
        sentence: format!("it is {standing:?}"),
        passed: Vec::new(),
        failing: Vec::new(),
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
        let said = ready(&all, strict);
        assert_eq!((said.0, said.1), (status, reason), "{made:?}");
        let parts = verdicts(&all, strict);
        assert_eq!((parts[0].0, parts[1].0), (own, ca), "{made:?}");
    }
}

#[test]
fn a_message_names_the_worst_name_and_how_many_are_like_it() {
    let all = [
        judged("a.example.test", Passed, Passed),
        judged("b.example.test", Failed, Passed),
        judged("c.example.test", Failed, Passed),
    ];
    let [own, ca] = verdicts(&all.iter().collect::<Vec<_>>(), false);
    assert!(
        own.2 == "b.example.test: it is Failed (and 1 more)"
            || own.2 == "c.example.test: it is Failed (and 1 more)",
        "{}",
        own.2
    );
    assert!(ca.2.ends_with("it is Passed (and 2 more)"), "{}", ca.2);
}

#[test]
fn what_about_the_name_fails_it_stands_first_among_the_notes_in_both_words_with_a_way_out() {
    let mut judged = judged("shop.example.test", Passed, Failed);
    judged.ca.caveats = vec!["something".to_owned(); 9];
    judged.ca.problems = vec![NameProblem {
        cause: NameCause::Caa,
        words: "its CAA records allow others only".to_owned(),
        theirs: "caa: CAA record for example.test prevents issuance".to_owned(),
        remedy: "add a record".to_owned(),
    }];
    let notes = host(&judged, "", &[]).ca.notes;
    assert_eq!(
        notes[0],
        "its CAA records allow others only (caa: CAA record for example.test prevents issuance); add a record"
    );
}

/// Five thousand nodes in fifty groups of failures, with very long texts.
#[test]
fn a_status_stays_small_whatever_fails_and_whatever_servers_say() {
    let long = "\u{1b}[31m".to_owned() + &"ö☠x".repeat(10_000);
    let vantage = |n: usize| -> Vantage { format!("node-{n}/pod").parse().unwrap() };
    let group = |n: usize| FailureGroup {
        vantages: (0..100).map(|i| vantage(100 * n + i)).collect(),
        address: None,
        phase: Phase::Connect,
        kind: FailureKind::Refused,
        status: None,
        words: long.clone(),
        theirs: long.clone(),
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
                price: long.clone(),
                not_when: None,
            };
            20
        ],
    };
    let mut one = judged("shop.example.test", Failed, Failed);
    for verdict in [&mut one.self_check, &mut one.ca] {
        verdict.failing = (0..50).map(group).collect();
        verdict.caveats = vec![long.clone(); 50];
        verdict.sentence.clone_from(&long);
    }
    let status = host(&one, &long, &vec!["run".to_owned(); 50]);
    assert_eq!(
        (status.self_check.failed, status.self_check.failing[0].count),
        (5_000, 100)
    );
    let text = serde_json::to_string(&status).unwrap();
    assert!(!text.contains("\\u001b"), "{text}");
    let most = PreflightStatus {
        hosts: vec![status; super::MOST_HOSTS],
        ..PreflightStatus::default()
    };
    let size = serde_json::to_vec(&most).unwrap().len();
    assert!(size < 300_000, "{size} bytes");
    let [own, _] = verdicts(&[&one], false);
    assert!(own.2.len() <= 1_000 && own.2.ends_with('…'), "{}", own.2);
}

#[test]
fn what_a_status_does_not_say_is_written_as_null_so_that_a_merge_removes_it() {
    let empty = serde_json::to_value(PreflightStatus::default()).unwrap();
    for field in ["completionTime", "more", "certManager", "attempts", "startTime"] {
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
