//! The causes that a group of failures is assigned.

use super::*;

#[test]
fn a_failing_group_has_a_cause_by_where_it_sits_and_how_it_fails() {
    for (answers, expected) in [
        (vec![ok("n1/pod"), refused("n2/pod"), refused("n3/pod")], "F1"),
        (
            vec![
                failed("n1/pod", "connect", "connect_timeout", None),
                failed("n2/pod", "connect", "connect_timeout", None),
            ],
            "F12",
        ),
        (
            vec![ok("n1/pod"), failed("n2/pod", "first-byte", "eof", None)],
            "F9",
        ),
        (vec![failed("n1/pod", "check", "status", Some(404))], "F19"),
        (vec![failed("n1/pod", "check", "status", Some(503))], "F20"),
        (vec![failed("n1/pod", "check", "status", Some(504))], "F13"),
        (vec![failed("n1/pod", "check", "status", Some(403))], "F18"),
        (
            vec![failed("n1/pod", "check", "redirect_refused", Some(301))],
            "F18",
        ),
        (vec![failed("n1/pod", "check", "wrong_body", Some(200))], "F19"),
        (vec![failed("n1/pod", "tls", "not_tls", None)], "F10"),
        (
            vec![failed("n1/pod", "first-byte", "first_byte_timeout", None)],
            "F13",
        ),
        (vec![failed("n1/pod", "resolve", "nxdomain", None)], "F15"),
        (vec![failed("n1/pod", "resolve", "resolve_timeout", None)], "P10"),
        (
            vec![ok("n1/pod"), failed("n2/pod", "resolve", "resolve_timeout", None)],
            "P9",
        ),
    ] {
        let verdict = nodes(answers).judge();
        assert_eq!(ids(&verdict)[0], expected, "{:?}", verdict.failure_groups[0]);
        assert!(!verdict.failure_groups[0].remedies.is_empty());
        assert!(!verdict.failure_groups[0].client_message.is_empty());
    }
    let mut same = refused("n2/pod");
    same.placement = Placement::SameNode;
    let verdict = nodes(vec![ok("n1/pod"), same, ok("n3/pod")]).judge();
    assert_eq!(ids(&verdict), ["F24"], "one node of several");
    let mut six = refused("n1/pod");
    six.sight.dials[0].address = "[2001:db8::1]:80".parse().unwrap();
    assert_eq!(ids(&Case::new(CA, vec![six]).judge()), ["F17"]);
}

#[test]
fn a_diagnosed_cause_stands_in_place_of_the_usual_ones() {
    let diagnosed: Diagnosed = serde_json::from_value(json!({
        "subject": {"type": "front", "name": "203.0.113.10:80"}, "region": {"region": "nolocal", "members": []},
        "class": [], "probability": 0.98, "causes": [{"id": "F4", "title": "kube-proxy replaced", "probability": 0.9}],
        "sentence": "s", "evidence": [], "locality": [], "ruled_out": [], "separating": [], "facts": [],
        "remedies": [{"action": "set externalTrafficPolicy: Cluster", "price": "p"}], "targets": []}))
    .unwrap();
    let answers = [ok("n1/pod"), refused("n2/pod")];
    let verdict = judge_check(&CheckInput {
        check: CheckKind::SelfCheck,
        url: URL,
        key_served: true,
        used_public_resolvers: false,
        answers: &answers,
        silent: &[],
        known_failures: &[],
        diagnosis: Some(&diagnosed),
        pod_node: None,
        pod_uses_host_network: false,
        path_differences: &[],
        names: None,
    });
    assert_eq!(ids(&verdict), ["F4"]);
    assert!(verdict.failure_groups[0].causes[0].diagnosed);
    assert_eq!(verdict.failure_groups[0].remedies.len(), 1);
}

#[test]
fn a_client_outside_meets_the_balancer_and_never_a_nodes_own_trouble() {
    let kept_out = |passes| {
        let mut answer = failed("internet:laptop", "connect", "connect_timeout", None);
        answer.placement = Placement::Outside;
        answer.sight.passes = passes;
        Case::new(CA, vec![ok("n1/pod"), ok("n2/pod"), answer]).judge()
    };
    let never = kept_out(0);
    assert_eq!(ids(&never), ["F14", "F8"]);
    assert!(!never.sentence.contains("but not"), "{}", never.sentence);
    // Some connections succeed: the port is open, but some of the nodes behind the load balancer do not respond.
    let sometimes = kept_out(2);
    assert_eq!(ids(&sometimes), ["F8"]);
    assert!(
        sometimes
            .sentence
            .contains("but not always: 2 earlier fetches passed, and the CA fetches from several networks"),
        "{}",
        sometimes.sentence
    );
}

#[test]
fn what_the_diagnosis_says_is_a_cause_only_of_what_it_is_about_and_only_as_far_as_it_was_asked() {
    let diagnosed = |region: &str| -> Diagnosed {
        serde_json::from_value(json!({
            "subject": {"type": "front", "name": "203.0.113.10:80"}, "region": {"region": region, "members": []},
            "class": [], "probability": 0.98, "causes": [{"id": "X", "title": "named", "probability": 0.9}],
            "sentence": "s", "evidence": [], "locality": [], "ruled_out": [], "separating": [], "facts": [],
            "remedies": [], "targets": []}))
        .unwrap()
    };
    let unnamed = || failed("n3/pod", "resolve", "nxdomain", None);
    let closed = || failed("n2/pod", "first-byte", "eof", None);
    for (region, answer, expected) in [
        ("nolocal", refused("n2/pod"), &["X"][..]),
        ("nolocal", unnamed(), &["F15"]),
        ("dns-client", unnamed(), &["X"]),
        ("dns-client", refused("n2/pod"), &["F1"]),
        // Found in the lab: no run sends a PROXY header.
        ("target", closed(), &["F9", "X"]),
        ("proto-vip", closed(), &["X"]),
        ("client", closed(), &["X"]),
    ] {
        let (answers, diagnosed) = ([ok("n1/pod"), answer], diagnosed(region));
        let case = Case::new(CheckKind::SelfCheck, Vec::new());
        let verdict = judge_check(&CheckInput {
            answers: &answers,
            diagnosis: Some(&diagnosed),
            ..case.asked()
        });
        assert_eq!(ids(&verdict), expected, "{region}");
        let diagnosed = verdict.failure_groups[0]
            .causes
            .iter()
            .any(|cause| cause.diagnosed);
        assert_eq!(diagnosed, expected == ["X"], "{region}");
    }
}
