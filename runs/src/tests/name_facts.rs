//! DNS facts of a name: who is asked for them, and what they mean for the CA.

use super::*;

/// One server's response for the host.
fn said(by: &str, address: &str) -> Value {
    json!({"by": by, "server": "192.0.2.53:53", "a": {"addresses": [address]}, "aaaa": "none", "caa": "none"})
}

fn name_answer(by: &str, address: &str, issuer: &str) -> Value {
    let none = |name: &str| json!({"name": name, "answer": "none"});
    let issue = json!({"name": "example.test", "answer": {"records": [{"flags": 0, "tag": "issue", "value": issuer}]}});
    json!({"result": "ok", "times": {"total_us": 900},
        "names": {"views": [said(by, address)], "caa": [none("a.example.test"), issue, none("test")]}})
}

#[tokio::test]
async fn the_facts_of_a_name_are_asked_of_a_few_and_say_what_they_mean_for_the_authority() {
    let harness = Bench::new(RunOptions::default());
    let ask = json!({"url": "dns://a.example.test", "names": {"identities": ["letsencrypt.org"]}});
    let run = harness.begin(ask).unwrap();
    let vantages: Vec<String> = harness
        .ordered_assignments()
        .iter()
        .map(|(vantage, _)| vantage.to_string())
        .collect();
    assert_eq!(vantages, ["n1/pod", "n2/pod", "n3/pod", "internet:laptop"]);
    for (_, assignment) in harness.ordered_assignments() {
        let parallax_model::ProbeSpec::Names(probe) = &assignment.probe else {
            panic!("{assignment:?}")
        };
        assert!(
            !probe.query_authorities && probe.public_resolvers.is_empty(),
            "the configuration does not enable these queries"
        );
        assert!(
            !probe.scope.as_ref().unwrap().refuse.is_empty(),
            "the API server is out of scope"
        );
        assert_eq!(assignment.channel, Channel::Dns);
    }
    harness.answer(1, |vantage, _| match vantage.node() {
        Some(_) => name_answer("own", "10.0.0.1", "letsencrypt.org"),
        None => name_answer("own", "203.0.113.10", "pki.goog"),
    });
    let (_, run) = harness.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Passed), "{}", run.sentence);
    let found = run.names.unwrap();
    assert_eq!(found.facts.views.len(), 2, "three nodes with equal responses");
    assert_eq!(
        found.verdict.problems.len(),
        1,
        "the internet's answer counts: {found:?}"
    );
    assert!(
        found
            .facts
            .not_queried
            .iter()
            .any(|entry| entry.contains("resolvers.authoritative"))
    );
    harness.stop().await;
}

#[tokio::test]
async fn public_resolvers_and_a_zones_own_servers_are_asked_where_the_configuration_says_so() {
    let mut spec: TopologySpec = serde_saphyr::from_str(TOPOLOGY).unwrap();
    spec.resolvers =
        serde_json::from_value(json!({"public": ["192.0.2.53"], "authoritative": true})).unwrap();
    let harness = Bench::of(spec, RunOptions::default());
    harness
        .begin(json!({"url": "dns://a.example.test", "names": {}}))
        .unwrap();
    for (_, assignment) in harness.ordered_assignments() {
        let parallax_model::ProbeSpec::Names(probe) = assignment.probe else {
            panic!("expected a name probe")
        };
        assert!(probe.query_authorities);
        assert_eq!(probe.public_resolvers, ["192.0.2.53:53".parse().unwrap()]);
    }
    harness.stop().await;
}

#[tokio::test]
async fn only_names_of_known_hosts_are_asked_for_and_one_thing_at_a_time() {
    let harness = Bench::new(RunOptions::default());
    let begin = |url: &str, names: Value| harness.begin(json!({"url": url, "names": names}));
    let refused = begin("dns://b.example.test", json!({})).unwrap_err();
    assert!(
        refused.to_string().contains("no host of a known target"),
        "{refused}"
    );
    for url in ["http://a.example.test/", "tcp://a.example.test:80"] {
        let refused = begin(url, json!({})).unwrap_err();
        assert!(matches!(refused, RunRefusedError::Names(_)), "{url}: {refused}");
    }
    let many: Vec<String> = (0..9).map(|n| format!("ca{n}.example.test")).collect();
    for names in [
        json!({"identities": many}),
        json!({"identities": [""]}),
        json!({"account_uri": "a b"}),
    ] {
        let refused = begin("dns://a.example.test", names).unwrap_err();
        assert!(matches!(refused, RunRefusedError::Names(_)), "{refused}");
    }
    let both = json!({"url": CHALLENGE, "names": {}, "challenge": {"client": "boulder"}});
    assert!(matches!(
        harness.begin(both).unwrap_err(),
        RunRefusedError::Names(_)
    ));
    harness.stop().await;
}

#[tokio::test]
async fn probers_that_do_not_know_the_question_leave_it_unknown() {
    let harness = Bench::new(RunOptions::default());
    let run = harness
        .begin(json!({"url": "dns://a.example.test", "names": {}}))
        .unwrap();
    // An older prober makes no probe, or reports a result without facts.
    harness.answer(1, |_, _| json!({"result": "not_asked", "own": "no_resolver"}));
    let (_, run) = harness.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Unknown));
    let found = run.names.unwrap();
    assert_eq!(found.facts.views, []);
    assert_eq!(found.verdict.problems, []);
    harness.stop().await;
}
