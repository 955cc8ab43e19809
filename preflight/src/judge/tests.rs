mod causes;
mod names;

use parallax_model::DialSight;
use serde_json::json;

use super::{
    CheckState::{AtRisk, Failed, Passed, Unknown},
    *,
};

const URL: &str = "http://shop.example.test/.well-known/acme-challenge/t0ken";
const CA: CheckKind = CheckKind::Ca(ChallengeClient::Boulder);

fn answer(vantage: &str, placement: Placement, outcome: serde_json::Value) -> VantageAnswer {
    let passes = u32::from(outcome["result"] == "ok") * REQUIRED_FETCHES;
    VantageAnswer {
        vantage: vantage.parse().unwrap(),
        placement,
        outcome: serde_json::from_value(outcome).unwrap(),
        sight: ChallengeSight {
            passes,
            addresses: vec!["203.0.113.10".parse().unwrap()],
            dials: vec![DialSight {
                address: "203.0.113.10:80".parse().unwrap(),
                failure: None,
                abandoned: false,
            }],
            ..ChallengeSight::default()
        },
        total_duration: None,
    }
}

fn ok(vantage: &str) -> VantageAnswer {
    answer(
        vantage,
        Placement::SameNode,
        json!({"result": "ok", "status": 200}),
    )
}

fn failed(vantage: &str, phase: &str, kind: &str, status: Option<u16>) -> VantageAnswer {
    let mut outcome = json!({"result": "failed", "phase": phase, "kind": kind});
    if let Some(status) = status {
        outcome["status"] = status.into();
    }
    answer(vantage, Placement::NoLocal, outcome)
}

fn refused(vantage: &str) -> VantageAnswer {
    failed(vantage, "connect", "refused", None)
}

fn not_asked(vantage: &str) -> VantageAnswer {
    answer(
        vantage,
        Placement::Unknown,
        json!({"result": "not_asked", "own": "out_of_scope"}),
    )
}

struct Case {
    check: CheckKind,
    answers: Vec<VantageAnswer>,
    silent: Vec<Vantage>,
    known: Vec<String>,
    seat: Option<NodeName>,
    differs: Vec<String>,
    public_names: bool,
}

impl Case {
    fn new(check: CheckKind, answers: Vec<VantageAnswer>) -> Self {
        Self {
            check,
            answers,
            silent: Vec::new(),
            known: Vec::new(),
            seat: None,
            differs: Vec::new(),
            public_names: false,
        }
    }

    fn on(mut self, node: &str) -> Self {
        self.seat = Some(node.parse().unwrap());
        self
    }

    fn silent(mut self, vantage: &str) -> Self {
        self.silent.push(vantage.parse().unwrap());
        self
    }

    fn judge(&self) -> Verdict {
        judge_check(&self.asked())
    }

    fn asked(&self) -> CheckInput<'_> {
        CheckInput {
            check: self.check,
            url: URL,
            key_served: true,
            used_public_resolvers: self.public_names,
            answers: &self.answers,
            silent: &self.silent,
            known_failures: &self.known,
            diagnosis: None,
            pod_node: self.seat.as_ref(),
            pod_uses_host_network: false,
            path_differences: &self.differs,
            names: None,
        }
    }
}

fn nodes(answers: Vec<VantageAnswer>) -> Case {
    Case::new(CheckKind::SelfCheck, answers)
}

fn ids(verdict: &Verdict) -> Vec<&str> {
    verdict.failure_groups[0]
        .causes
        .iter()
        .map(|cause| cause.id.as_str())
        .collect()
}

#[test]
fn the_node_of_cert_managers_pod_decides_the_self_check() {
    let all = || vec![ok("n1/pod"), refused("n2/pod"), refused("n3/pod")];
    for (case, state, expected) in [
        (
            nodes(vec![ok("n1/pod"), ok("n2/pod")]),
            Passed,
            "passes on 2 of 2 vantages, whichever of them",
        ),
        // The node of cert-manager's Pod has no prober: the others prove nothing about it.
        (
            nodes(vec![ok("n1/pod"), ok("n2/pod")]).on("n3"),
            Unknown,
            "on n3, which was not asked, because it has no prober",
        ),
        (
            nodes(vec![ok("n1/pod"), ok("n2/pod")]).on("n2"),
            Passed,
            "including n2, where cert-manager's Pod runs",
        ),
        (
            nodes(all()).on("n1"),
            AtRisk,
            "on n1, where cert-manager's Pod runs now, but not on n2, n3 (connection refused at 203.0.113.10)",
        ),
        (
            nodes(all()).on("n3"),
            Failed,
            "cert-manager's Pod runs on n3, where the check fails: connection refused",
        ),
        (nodes(all()), Failed, "passes on 1 of 3 vantages, not on n2, n3"),
        (
            nodes(vec![ok("n1/pod")]).silent("n2/pod"),
            Unknown,
            "n2 did not respond, and the node of cert-manager's Pod is unknown",
        ),
        (
            nodes(vec![ok("n1/pod")]).silent("n2/pod").on("n1"),
            Passed,
            "including n1",
        ),
        (
            nodes(vec![ok("n1/pod")]).silent("n2/pod").on("n2"),
            Unknown,
            "on n2, which did not respond",
        ),
        (
            nodes(vec![ok("n1/pod"), not_asked("n2/pod")]).on("n2"),
            Unknown,
            "did not respond",
        ),
        (nodes(vec![]).silent("n1/pod"), Unknown, "no vantage responded"),
        (nodes(vec![not_asked("n1/pod")]), Unknown, "no vantage responded"),
    ] {
        let verdict = case.judge();
        assert_eq!(verdict.state, state, "{}", verdict.sentence);
        assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
    }
}

#[test]
fn where_nobody_asks_from_the_pods_own_network_the_nodes_other_one_stands_for_it_and_that_is_said() {
    let verdict = nodes(vec![ok("n1/host"), refused("n2/host")]).on("n2").judge();
    assert_eq!(verdict.state, Failed);
    assert!(
        verdict
            .sentence
            .contains("runs on n2/host, where the check fails"),
        "{}",
        verdict.sentence
    );
    assert!(
        verdict.caveats[0].contains("no prober responded at n2/pod"),
        "{:?}",
        verdict.caveats
    );
    let both = nodes(vec![ok("n2/pod"), refused("n2/host")]).on("n2").judge();
    assert_eq!((both.state, both.caveats.len()), (AtRisk, 0));
}

#[test]
fn what_differs_for_the_pod_makes_a_neighbours_answer_worth_nothing() {
    for answers in [vec![ok("n1/pod")], vec![refused("n1/pod")]] {
        let mut case = nodes(answers).on("n1");
        case.differs = vec!["goes through the proxy http://proxy:3128".to_owned()];
        let verdict = case.judge();
        assert_eq!(verdict.state, Unknown);
        assert!(
            verdict.sentence.contains("through the proxy"),
            "{}",
            verdict.sentence
        );
    }
}

#[test]
fn the_cas_verdict_is_about_the_server_and_the_internet_and_not_about_a_nodes_way_out() {
    let out = "internet:laptop";
    let reserved = || failed("n1/pod", "resolve", "no_address", None);
    for (answers, public, state, expected) in [
        // I1: the CA does not use the nodes' network path.
        (
            vec![ok("n1/pod"), refused("n2/pod"), refused("n3/pod")],
            false,
            Unknown,
            "passes from n1, but no vantage on the internet",
        ),
        (
            vec![refused("n1/pod"), refused("n2/pod")],
            false,
            Unknown,
            "says nothing about the internet",
        ),
        // I7: clients inside succeed, clients outside cannot connect.
        (
            vec![ok("n1/pod"), failed(out, "connect", "connect_timeout", None)],
            false,
            Failed,
            "it fails from outside (internet:laptop)",
        ),
        (
            vec![refused("n1/pod"), ok(out)],
            false,
            Passed,
            "passes from outside",
        ),
        (
            vec![failed("n1/pod", "check", "redirect_refused", Some(303))],
            false,
            Failed,
            "the response of the server",
        ),
        (
            vec![ok("n1/pod"), failed("n2/pod", "check", "status", Some(404))],
            false,
            Failed,
            "but not always",
        ),
        (
            vec![failed("n1/pod", "first-byte", "eof", None)],
            false,
            Unknown,
            "says nothing about the internet",
        ),
        // F29: only public DNS decides.
        (vec![reserved()], false, Unknown, "the public answer is unknown"),
        (vec![reserved()], true, Failed, "it fails in public DNS"),
        (vec![not_asked("n1/pod")], false, Unknown, "no vantage responded"),
        (vec![], false, Unknown, "no vantage responded"),
    ] {
        let mut case = Case::new(CA, answers);
        case.public_names = public;
        let verdict = case.judge();
        assert_eq!(verdict.state, state, "{}", verdict.sentence);
        assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
    }
}

#[test]
fn an_ipv6_address_that_a_racing_client_never_misses_is_told() {
    let mut raced = ok("n1/pod");
    raced.sight.dials.insert(
        0,
        DialSight {
            address: "[2001:db8::1]:80".parse().unwrap(),
            failure: None,
            abandoned: true,
        },
    );
    let verdict = nodes(vec![raced]).judge();
    assert_eq!(verdict.state, Passed);
    assert_eq!(verdict.findings[0].id, "F17");
    assert!(verdict.findings[0].text.contains("does not notice"));
}

#[test]
fn unknown_is_never_fine_and_at_risk_is_what_the_caller_makes_of_it() {
    let judged = |self_check: CheckState, ca: CheckState| {
        let verdict = |check, state| Verdict {
            state,
            unknown_reason: None,
            ..Case::new(check, vec![]).judge()
        };
        HostVerdict {
            host: "shop.example.test".to_owned(),
            self_check: verdict(CheckKind::SelfCheck, self_check),
            ca: verdict(CA, ca),
            not_checked: Vec::new(),
        }
    };
    for (one, other, lax, strict) in [
        (Passed, Passed, 0, 0),
        (AtRisk, Passed, 0, 1),
        (Passed, Unknown, 3, 3),
        (Unknown, Passed, 3, 3),
        (AtRisk, Unknown, 3, 1),
        (Failed, Passed, 1, 1),
        (Failed, Unknown, 1, 1),
        (Unknown, Failed, 1, 1),
    ] {
        let case = judged(one, other);
        assert_eq!(exit_code([&case], false), lax, "{one:?} {other:?}");
        assert_eq!(exit_code([&case], true), strict, "{one:?} {other:?}, strictly");
    }
    let both = [judged(Passed, Passed), judged(Passed, Failed)];
    assert_eq!(exit_code(&both, false), 1, "one host of several is enough");
    assert_eq!(exit_code(&[], false), 3);
}

#[test]
fn without_a_vantage_outside_the_ca_is_unknown_which_only_strict_callers_refuse() {
    let ca = Case::new(CA, vec![ok("n1/pod")]).judge();
    assert_eq!(
        (ca.state, ca.unknown_reason),
        (Unknown, Some(UnknownReason::NoOutsideVantage))
    );
    let case = HostVerdict {
        host: "shop.example.test".to_owned(),
        self_check: nodes(vec![ok("n1/pod")]).judge(),
        ca,
        not_checked: Vec::new(),
    };
    assert_eq!((exit_code([&case], false), exit_code([&case], true)), (0, 3));
}

#[test]
fn the_fetches_from_outside_are_counted_over_all_vantages_there_and_only_where_a_key_is_served() {
    let out = |name: &str, fetches| {
        let mut answer = ok(name);
        answer.sight.passes = fetches;
        answer
    };
    let two = |fetches| vec![ok("n1/pod"), out("internet:a", 22), out("internet:b", fetches)];
    assert_eq!(Case::new(CA, two(22)).judge().state, Passed);
    let case = Case::new(CA, two(21));
    let verdict = case.judge();
    assert_eq!(verdict.unknown_reason, Some(UnknownReason::TooFewFetches));
    assert!(
        verdict.sentence.contains("43 of 44 fetches"),
        "{}",
        verdict.sentence
    );
    let route_only = CheckInput {
        key_served: false,
        ..case.asked()
    };
    assert_eq!(judge_check(&route_only).state, Passed);
    // A tenth of the connections fails: 44 fetches miss that with less than 1 %.
    assert!(0.9f64.powi(i32::try_from(REQUIRED_FETCHES).unwrap()) < 0.01);
}

#[test]
fn an_incident_on_the_path_turns_a_lucky_pass_into_unknown() {
    let mut case = Case::new(CA, vec![ok("internet:laptop")]);
    assert_eq!(case.judge().state, Passed);
    case.known = vec!["incident 9f2: connections time out".to_owned()];
    let verdict = case.judge();
    assert_eq!(
        (verdict.state, verdict.unknown_reason),
        (Unknown, Some(UnknownReason::KnownFailure))
    );
    assert!(verdict.sentence.contains("incident 9f2"), "{}", verdict.sentence);
}
