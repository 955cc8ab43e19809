//! Verdicts that depend on the DNS name.

use super::*;

/// A verdict on DNS facts, as `names::judge_names` would return it.
fn named(json: &serde_json::Value) -> NameVerdict {
    let mut whole =
        json!({"caa": "unrestricted", "caa_description": "", "problems": [], "unknown": [], "findings": []});
    for (key, value) in json.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn with_name(check: CheckKind, answers: &[VantageAnswer], names: &NameVerdict) -> Verdict {
    judge_check(&CheckInput {
        check,
        url: URL,
        key_served: true,
        used_public_resolvers: true,
        answers,
        silent: &[],
        known_failures: &[],
        diagnosis: None,
        pod_node: None,
        pod_uses_host_network: false,
        path_differences: &[],
        names: Some(names),
    })
}

#[test]
fn what_fails_the_name_fails_the_ca_however_well_its_server_answers_and_never_the_self_check() {
    let forbidden = named(
        &json!({"caa": "forbidden", "problems": [{"cause": "caa", "description": "the CAA records of example.test allow pki.goog only, not letsencrypt.org",
        "ca_error": "caa: While processing CAA for shop.example.test: CAA record for example.test prevents issuance", "remedy": "add one"}]}),
    );
    let passes = [ok("internet:laptop")];
    let verdict = with_name(CA, &passes, &forbidden);
    assert_eq!(verdict.state, Failed);
    assert!(
        verdict.sentence.starts_with("the CAA records of example.test"),
        "{}",
        verdict.sentence
    );
    assert!(verdict.problems[0].ca_error.contains("prevents issuance"));
    assert_eq!(
        with_name(CheckKind::SelfCheck, &[ok("n1/pod")], &forbidden).state,
        Passed
    );
    // Pebble ignores CAA records.
    let pebble = with_name(CheckKind::Ca(ChallengeClient::Pebble), &passes, &forbidden);
    assert_eq!((pebble.state, pebble.problems.len()), (Passed, 0));
    // Both reasons are listed.
    let both = with_name(
        CA,
        &[failed("internet:laptop", "check", "status", Some(503))],
        &forbidden,
    );
    assert_eq!(both.state, Failed);
    assert!(
        both.caveats.iter().any(|caveat| caveat.contains("pki.goog")),
        "{:?}",
        both.caveats
    );
}

#[test]
fn what_cannot_be_told_of_the_name_is_never_a_pass() {
    let open =
        named(&json!({"caa": "unknown", "unknown": ["the CAA records say that only pki.goog may issue"]}));
    let verdict = with_name(CA, &[ok("internet:laptop")], &open);
    assert_eq!(verdict.state, Unknown);
    assert!(
        verdict.sentence.contains("only pki.goog may issue"),
        "{}",
        verdict.sentence
    );
    let sound = with_name(CA, &[ok("internet:laptop")], &named(&json!({})));
    assert_eq!(sound.state, Passed);
}
