//! Which evidence supports which outlook.

use parallax_api::forecasts::{ForecastCause, RenewalForecast, RenewalOutlook};

use super::*;

#[test]
fn what_is_sound_as_far_as_it_can_be_known_would_pass_and_says_that_it_is_a_forecast() {
    let forecast = foreseen(&sound());
    assert_eq!(forecast.outlook, RenewalOutlook::WouldPass, "{forecast:?}");
    assert!(
        forecast.sentence.starts_with(
            "as far as can be known without a token, it would pass: port 80 is served by ingress/nginx"
        ),
        "{}",
        forecast.sentence
    );
    assert_eq!((forecast.cause, forecast.unknowns.len()), (None, 0));
    assert!(parallax_api::forecasts::COVERAGE_NOTE.starts_with("A forecast"));
}

#[test]
fn what_is_certain_would_fail_with_its_cause_in_both_words() {
    use ForecastCause::{Caa, NoAddress, NoEndpoints, Nxdomain, PortRefused, PortSilent, WrongController};
    let good = || names(&here(), "");
    let inside = || answer("n1/pod", &found(), RIGHT);
    let out = |outcome: &Value, address: &str| [answer("internet:laptop", outcome, address)];
    let refused = failed("connect", "refused");
    let silent = failed("connect", "connect_timeout");
    let table: Vec<(ForecastCause, Value, Vec<Value>, &str)> = vec![
        (
            Caa,
            names(&here(), "pki.goog"),
            out(&found(), RIGHT).to_vec(),
            "caa: While processing CAA for shop.example.test",
        ),
        (
            Nxdomain,
            names(&json!("no_name"), "").replace_aaaa(),
            vec![],
            "dns: DNS problem: NXDOMAIN",
        ),
        (
            NoAddress,
            names(&json!("none"), ""),
            vec![],
            "dns: no valid A records found",
        ),
        (
            PortRefused,
            good(),
            out(&refused, RIGHT).to_vec(),
            "Connection refused",
        ),
        (
            PortSilent,
            good(),
            out(&silent, RIGHT).to_vec(),
            "Timeout during connect",
        ),
        (WrongController, good(), out(&found(), WRONG).to_vec(), ""),
        (NoEndpoints, good(), out(&silent, "203.0.113.30").to_vec(), ""),
    ];
    for (cause, facts, ca, ca_error) in table {
        let forecast = foreseen(&evidence(&facts, &[inside()], &ca));
        assert_eq!(
            forecast.outlook,
            RenewalOutlook::WouldFail,
            "{cause:?}: {forecast:?}"
        );
        assert_eq!(forecast.cause, Some(cause), "{forecast:?}");
        assert!(
            forecast.ca_error.unwrap_or_default().contains(ca_error),
            "{cause:?}"
        );
        assert!(forecast.remedy.is_some(), "{cause:?}");
    }
}

trait AaaaReplacement {
    fn replace_aaaa(self) -> Value;
}

impl AaaaReplacement for Value {
    /// The name does not exist in either address family.
    fn replace_aaaa(mut self) -> Value {
        for view in self["views"].as_array_mut().unwrap() {
            view["aaaa"] = json!("no_name");
        }
        self
    }
}

#[test]
fn what_may_be_otherwise_for_the_ca_or_in_a_minute_is_not_known() {
    let good = || names(&here(), "");
    let inside = || answer("n1/pod", &found(), RIGHT);
    let outside = || answer("internet:laptop", &found(), RIGHT);
    let case = |facts: &Value, self_check: &[Value], ca: &[Value], open: &str| {
        let forecast = foreseen(&evidence(facts, self_check, ca));
        assert_eq!(forecast.outlook, RenewalOutlook::Unknown, "{open}: {forecast:?}");
        assert_eq!(forecast.cause, None);
        assert!(forecast.sentence.contains(open), "{open}: {}", forecast.sentence);
    };
    // The solver's own route is more specific than the one that redirects.
    let astray = answer("internet:laptop", &failed("check", "redirect_refused"), RIGHT);
    case(
        &good(),
        &[inside()],
        &[astray],
        "the solver's own route may respond differently",
    );
    let broken = answer(
        "internet:laptop",
        &failed("first-byte", "first_byte_timeout"),
        RIGHT,
    );
    case(
        &good(),
        &[inside()],
        &[broken],
        "the fetch by the CA's rules fails from internet:laptop",
    );
    // One of two vantages on the internet gets through.
    let refused = answer("internet:other", &failed("connect", "refused"), RIGHT);
    case(&good(), &[inside()], &[outside(), refused], "from internet:other");
    // A failure on a node's outbound path says nothing about the internet.
    let node = answer("n1/pod", &failed("connect", "refused"), RIGHT);
    case(
        &good(),
        &[inside()],
        &[node],
        "the fetch by the CA's rules fails from n1/pod",
    );
    case(
        &good(),
        &[answer("n1/pod", &failed("connect", "refused"), RIGHT)],
        &[outside()],
        "the self check fails from n1/pod",
    );
    case(&good(), &[], &[outside()], "the self check: no node responded");
    case(&good(), &[inside()], &[], "no fetch by the CA's rules was made");
    // A load balancer or CDN that the cluster does not know.
    case(
        &good(),
        &[inside()],
        &[answer("internet:laptop", &found(), "198.51.100.7")],
        "no Service of the cluster has that address",
    );
    let failing = json!({"failed": "servfail"});
    let mut servfail = names(&failing, "");
    for view in servfail["views"].as_array_mut().unwrap() {
        view["aaaa"] = failing.clone();
    }
    case(&servfail, &[inside()], &[outside()], "(may be temporary)");
}

#[test]
fn a_second_service_of_the_same_controller_is_not_another_controller() {
    let internal = "203.0.113.11";
    let forecast = foreseen(&evidence(
        &names(&json!({"addresses": [internal]}), ""),
        &[answer("n1/pod", &found(), internal)],
        &[answer("internet:laptop", &found(), internal)],
    ));
    assert_eq!(forecast.outlook, RenewalOutlook::WouldPass, "{forecast:?}");
}

#[test]
fn an_authority_of_ones_own_may_not_care_what_the_public_sees() {
    let own = subject("https://step-ca.example.test/acme/acme/directory", &nginx());
    let gone = evidence(
        &names(&json!("no_name"), "").replace_aaaa(),
        &[answer("n1/pod", &found(), RIGHT)],
        &[],
    );
    let forecast = forecast(&own, Some(&gone), &topology());
    assert_eq!(forecast.outlook, RenewalOutlook::Unknown, "{forecast:?}");
    assert!(
        forecast
            .sentence
            .contains("whether that affects the CA of ClusterIssuer le is unknown"),
        "{forecast:?}"
    );
}

#[test]
fn a_solver_that_cert_manager_refuses_fails_without_a_look_and_nothing_else_is_said_before_one() {
    let both = json!({"http01": {"ingress": {"class": "a", "ingressClassName": "b"}}});
    let forecast = forecast(&subject(LE, &both), None, &topology());
    assert_eq!(
        (forecast.outlook, forecast.cause),
        (RenewalOutlook::WouldFail, Some(ForecastCause::Solver))
    );
    let new = super::forecast(&subject(LE, &nginx()), None, &topology());
    assert_eq!((new.outlook, new.evaluated_at), (RenewalOutlook::Unknown, None));
}

#[test]
fn a_solver_that_skips_the_self_check_is_not_held_to_it() {
    let waiting =
        json!({"http01": {"ingress": {"ingressClassName": "nginx"}}, "waitInsteadOfSelfCheck": "60s"});
    let failing = answer("n1/pod", &failed("connect", "refused"), RIGHT);
    let seen = evidence(
        &names(&here(), ""),
        &[failing],
        &[answer("internet:laptop", &found(), RIGHT)],
    );
    let forecast = forecast(&subject(LE, &waiting), Some(&seen), &topology());
    assert_eq!(forecast.outlook, RenewalOutlook::WouldPass, "{forecast:?}");
    assert!(
        forecast.notes.iter().any(|note| note.contains("60s")),
        "{:?}",
        forecast.notes
    );
}

#[test]
fn names_that_need_no_port_80_are_no_subjects() {
    let dns = json!({"dns01": {"route53": {}}});
    let picked = json!({"selector": {"dnsNames": ["www.shop.example.test"]}, "http01": {"ingress": {"ingressClassName": "nginx"}}});
    let mut le = issuer(LE, &dns);
    le["spec"]["acme"]["solvers"].as_array_mut().unwrap().push(picked);
    let web = certificate("web", &[HOST, "www.shop.example.test", "*.example.test"]);
    let other = json!({"metadata": {"namespace": "shop", "name": "vault"},
        "spec": {"dnsNames": [HOST], "issuerRef": {"name": "v", "kind": "VaultIssuer", "group": "example.com"}}});
    let subjects = subjects(&list(&[web, other]), &list(&[le]));
    let hosts: Vec<&str> = subjects
        .subjects
        .iter()
        .map(|subject| subject.host.as_str())
        .collect();
    assert_eq!(hosts, ["www.shop.example.test"]);
    assert_eq!(
        subjects.validities.len(),
        2,
        "the validity of every Certificate is known"
    );
    assert!(subjects.validities.iter().any(|term| term.renewal.is_some()));
}

#[test]
fn why_nothing_is_known_is_said() {
    let subjects = RenewalSubjects::from_state(&CertManagerState::missing(&UnavailableReason::NotInstalled));
    assert!(subjects.missing.unwrap().contains("not installed"));
}

#[test]
fn before_any_look_there_is_a_reason_and_never_an_empty_list_alone() {
    let reason = |state: &CertManagerState| empty_forecasts(state).unavailable_because.unwrap();
    assert!(reason(&CertManagerState::missing(&UnavailableReason::NotWatched)).contains("are not watched"));
    assert!(reason(&state(&json!([]), &json!([]))).contains("has not checked any name"));
}

fn any_outcome() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(found()),
        1 => Just(failed("connect", "refused")),
        1 => Just(failed("connect", "connect_timeout")),
        1 => Just(failed("first-byte", "eof")),
        1 => Just(failed("check", "redirect_refused")),
        1 => Just(json!({"result": "not_asked", "own": "out_of_scope"})),
    ]
}

fn any_fetch(vantages: &'static [&'static str]) -> impl Strategy<Value = Vec<Value>> {
    let address = prop_oneof![3 => Just(RIGHT), 1 => Just(WRONG), 1 => Just("198.51.100.7")];
    let one = (proptest::sample::select(vantages), any_outcome(), address);
    proptest::collection::vec(one, 0..3).prop_map(|all| {
        all.into_iter()
            .map(|(vantage, outcome, address)| answer(vantage, &outcome, address))
            .collect()
    })
}

fn any_facts() -> impl Strategy<Value = Value> {
    let a = prop_oneof![
        3 => Just(here()),
        1 => Just(json!("none")),
        1 => Just(json!("no_name")),
        1 => Just(json!({"failed": "resolve_timeout"})),
    ];
    let caa = proptest::sample::select(vec!["", "letsencrypt.org", "pki.goog"]);
    (a, caa, any::<bool>(), any::<bool>()).prop_map(|(a, caa, public, with_caa)| {
        let mut facts = names(&a, caa);
        if !public {
            facts["views"].as_array_mut().unwrap().pop();
        }
        if !with_caa {
            facts["caa"] = json!([]);
        }
        facts
    })
}

proptest! {
    #[test]
    fn unknown_never_becomes_would_pass(
        facts in any_facts(),
        self_check in any_fetch(&["n1/pod"]),
        ca in any_fetch(&["n1/pod", "internet:laptop"]),
        public in any::<bool>(),
    ) {
        let mut seen = evidence(&facts, &self_check, &ca);
        seen.resolvers.public = public;
        let forecast = foreseen(&seen);
        if forecast.outlook == RenewalOutlook::WouldPass {
            let ok = |answer: &&Value| answer["result"] == "ok";
            let outside: Vec<&Value> = ca.iter().filter(|answer| answer["vantage"] == "internet:laptop").collect();
            prop_assert!(facts["views"].as_array().unwrap().len() == 2, "a public view was queried");
            prop_assert!(facts["views"][1]["a"] == here());
            prop_assert!(!facts["caa"].as_array().unwrap().is_empty());
            prop_assert!(self_check.iter().any(|answer| ok(&answer)) && !self_check.iter().any(|answer| answer["result"] == "failed"));
            prop_assert!(ca.iter().any(|answer| ok(&answer)));
            prop_assert!(outside.iter().all(|answer| answer["result"] != "failed"));
        }
        prop_assert_eq!(forecast.cause.is_some(), forecast.outlook == RenewalOutlook::WouldFail);
        prop_assert_eq!(forecast.unknowns.is_empty(), forecast.outlook != RenewalOutlook::Unknown);
    }
}

#[test]
fn an_outlook_is_labelled_as_it_is_written() {
    let labels: BTreeMap<&str, RenewalOutlook> = [
        RenewalOutlook::WouldFail,
        RenewalOutlook::Unknown,
        RenewalOutlook::WouldPass,
    ]
    .into_iter()
    .map(|outlook| (outlook.label(), outlook))
    .collect();
    for (label, outlook) in labels {
        assert_eq!(serde_json::to_value(outlook).unwrap(), label);
    }
}

#[test]
fn an_ipv6_address_that_takes_connections_and_says_nothing_would_fail_and_a_dead_one_is_a_note() {
    let six = "2001:db8::10";
    let dialled = |outcome: &Value, dials: Value| {
        let mut answer = answer("internet:laptop", outcome, RIGHT);
        answer["sight"]["dials"] = dials;
        answer
    };
    let self_check = [answer("n1/pod", &found(), RIGHT)];
    let mute = dialled(
        &failed("first-byte", "eof"),
        json!([{"address": format!("[{six}]:80")}]),
    );
    let forecast = foreseen(&evidence(&names(&here(), ""), &self_check, &[mute]));
    assert_eq!(forecast.cause, Some(ForecastCause::AaaaUnserved), "{forecast:?}");
    assert!(forecast.sentence.starts_with(six), "{}", forecast.sentence);
    let dead = dialled(
        &found(),
        json!([{"address": format!("[{six}]:80"), "failed": "refused"}, {"address": format!("{RIGHT}:80")}]),
    );
    let forecast = foreseen(&evidence(&names(&here(), ""), &self_check, &[dead]));
    assert_eq!(forecast.outlook, RenewalOutlook::WouldPass, "{forecast:?}");
    assert!(
        forecast
            .notes
            .iter()
            .any(|note| note.contains(six) && note.contains("F17")),
        "{:?}",
        forecast.notes
    );
}

#[test]
fn a_thousand_names_are_foreseen_at_once_and_the_rest_is_counted() {
    let certificates: Vec<Value> = (0..1_100)
        .map(|n| certificate(&format!("c{n}"), &[&format!("h{n}.example.test")]))
        .collect();
    let subjects = subjects(&list(&certificates), &list(&[issuer(LE, &nginx())]));
    assert_eq!((subjects.subjects.len(), subjects.left_out), (1_000, 100));
    assert_eq!(subjects.validities.len(), 1_100);
    let (seen, topology) = (sound(), topology());
    let begun = std::time::Instant::now();
    let foreseen: Vec<RenewalForecast> = subjects
        .subjects
        .iter()
        .map(|subject| forecast(subject, Some(&seen), &topology))
        .collect();
    // Judged at most once a second; measured, not asserted.
    println!(
        "MEASURED {} names are judged in {:?}",
        foreseen.len(),
        begun.elapsed()
    );
    assert!(foreseen.iter().all(|forecast| forecast.evaluated_at.is_some()));
}
