//! Runs that fetch the response of an ACME challenge.

use super::*;

#[tokio::test]
async fn the_self_check_of_a_challenge_goes_with_what_tells_causes_apart_and_the_cas_fetch_alone() {
    let harness = Bench::new(RunOptions::default());
    let ask = |client: &str| json!({"url": CHALLENGE, "from": "nodes", "challenge": {"client": client, "expected": "t0ken.thumb"}});
    let run = harness.begin(ask("cert-manager")).unwrap();
    assert_eq!((run.rounds, run.timeout), (1, Micros::from_secs(10)));
    let assignments = harness.ordered_assignments();
    let fetch = |a: &Assignment| serde_json::to_value(&a.probe).unwrap();
    for (_, assignment) in assignments.iter().filter(|(_, a)| a.channel == Channel::Vip) {
        let probe = fetch(assignment);
        assert_eq!(
            (&probe["kind"], &probe["client"]),
            (&json!("challenge"), &json!("cert-manager"))
        );
        assert_eq!(
            probe["scope"]["refuse"][0], "10.96.0.1/32",
            "the rule travels along"
        );
        assert_eq!(assignment.dial, parallax_model::DialAddress::Resolve);
    }
    let direct: Vec<_> = assignments
        .iter()
        .filter(|(_, a)| a.channel == Channel::Direct)
        .collect();
    assert_eq!(direct.len(), 3, "the ingress pod, from every node");
    assert_eq!(fetch(&direct[0].1)["expect_body_equals"], "t0ken.thumb");
    assert!(assignments.iter().any(|(_, a)| a.channel == Channel::Mesh));
    // Refused on nodes without an ingress Pod, as in I1. One fetch proves the failure, several name the cause.
    let mut several = ask("cert-manager");
    several["rounds"] = json!(4);
    let run = harness.begin(several).unwrap();
    harness.answer(4, |vantage, assignment| {
        let no_local = vantage.to_string() != "n1/pod" && assignment.channel == Channel::Vip;
        if no_local {
            json!({"result": "failed", "phase": "connect", "kind": "refused", "challenge": {"passes": 0}})
        } else {
            ok(vantage, assignment)
        }
    });
    let (events, run) = harness.end(&run).await;
    assert_eq!(run.challenge, Some(parallax_model::ChallengeClient::CertManager));
    let challenge_results = events.iter().filter(|event| {
        matches!(
            event,
            RunEvent::Result {
                challenge: Some(_),
                placement: Some(parallax_model::Placement::NoLocal),
                ..
            }
        )
    });
    assert_eq!(challenge_results.count(), 2 * 4);
    assert_eq!(
        run.verdict.map(|verdict| verdict.verdict.region.region),
        Some("nolocal".to_owned()),
        "{}",
        run.sentence
    );
    let ca = harness.begin(ask("boulder")).unwrap();
    assert_eq!(ca.timeout, Micros::from_secs(20));
    assert!(
        harness
            .ordered_assignments()
            .iter()
            .all(|(_, a)| a.channel == Channel::Vip)
    );
    let five = json!({"url": CHALLENGE, "challenge": {"client": "cert-manager", "passes": 5}});
    let five = harness.begin(five).unwrap();
    assert_eq!(
        five.deadline - five.requested_at,
        Micros::from_secs(5 * 10 + 4 * 2 + 1),
        "five fetches and the pauses between them"
    );
    harness.stop().await;
}

#[tokio::test]
async fn a_challenge_is_fetched_only_from_known_hosts_and_only_where_challenges_are() {
    let harness = Bench::new(RunOptions::default());
    let begin = |url: &str, challenge: Value| harness.begin(json!({"url": url, "challenge": challenge}));
    let plain = || json!({"client": "boulder"});
    for url in [
        "http://a.example.test/",
        "http://a.example.test/.well-known/acme-challenge/",
        "http://a.example.test/.well-known/acme-challenge/../../admin",
        "http://a.example.test/.well-known/acme-challenge/t?x=/admin",
        "https://a.example.test/.well-known/acme-challenge/t0ken",
        "tcp://a.example.test:80",
    ] {
        let refused = begin(url, plain()).unwrap_err();
        assert!(
            matches!(refused, RunRefusedError::Challenge(_)),
            "{url}: {refused}"
        );
    }
    for url in [
        "http://b.example.test/.well-known/acme-challenge/t0ken",
        "http://a.example.test:8080/.well-known/acme-challenge/t0ken",
    ] {
        let refused = begin(url, plain()).unwrap_err();
        assert!(
            refused.to_string().contains("no host of a known target"),
            "{refused}"
        );
    }
    let query = json!({"client": "boulder", "nameservers": ["192.0.2.53:53"]});
    let refused = begin(CHALLENGE, query).unwrap_err();
    assert!(refused.to_string().contains("resolvers.public"), "{refused}");
    let passes = begin(CHALLENGE, json!({"client": "boulder", "passes": 45})).unwrap_err();
    assert!(passes.to_string().contains("expected 1 to 44"), "{passes}");
    let paused = begin(CHALLENGE, json!({"client": "cert-manager", "passes": 6})).unwrap_err();
    assert!(paused.to_string().contains("expected 1 to 5"), "{paused}");
    let key = begin(CHALLENGE, json!({"client": "boulder", "expected": "a b"})).unwrap_err();
    assert!(key.to_string().contains("challenge.expected"), "{key}");
    let any = Bench::new(RunOptions {
        allow_any_target: true,
        ..RunOptions::default()
    });
    let unknown =
        json!({"url": "http://b.example.test/.well-known/acme-challenge/t0ken", "challenge": plain()});
    any.begin(unknown).unwrap();
    let local = json!({"url": "http://localhost/.well-known/acme-challenge/t0ken", "challenge": plain()});
    assert!(matches!(
        any.begin(local).unwrap_err(),
        RunRefusedError::OutOfScope(_)
    ));
    any.stop().await;
    harness.stop().await;
}

#[tokio::test]
async fn the_vantages_on_the_internet_share_an_authoritys_fetches_and_each_node_makes_one() {
    let mut harness = Bench::new(RunOptions::default());
    for vantage in ["internet:phone", "internet:server", "vpc:bastion"] {
        let known = Topology::clone(&harness.topology);
        harness.topology = Arc::new(known.with_vantage(vantage.parse().unwrap()));
    }
    harness.all_report();
    let query = json!({"url": CHALLENGE, "challenge": {"client": "boulder", "passes": 44}});
    harness.begin(query).unwrap();
    let passes: Vec<(String, Value)> = harness
        .ordered_assignments()
        .into_iter()
        .map(|(vantage, assignment)| {
            let probe = serde_json::to_value(&assignment.probe).unwrap();
            (vantage.to_string(), probe["passes"].clone())
        })
        .collect();
    let fetches = |outside: bool| -> Vec<&Value> {
        let own = passes
            .iter()
            .filter(|(vantage, _)| vantage.starts_with("internet:") == outside);
        own.map(|(_, passes)| passes).collect()
    };
    assert_eq!(fetches(true), [&json!(15); 3], "{passes:?}");
    assert!(
        fetches(false).len() > 1 && fetches(false).iter().all(|passes| passes.is_null()),
        "{passes:?}"
    );
    harness.stop().await;
}

#[tokio::test]
async fn a_challenge_over_five_hundred_nodes_is_distributed_and_judged_within_seconds() {
    let mut spec: TopologySpec = serde_saphyr::from_str(TOPOLOGY).unwrap();
    for n in 4..=500 {
        let node = json!({"name": format!("n{n}"), "zone": "a",
            "prober": {"pod": format!("prober-n{n}"), "address": format!("10.{}.{}.5:9095", 100 + n / 250, n % 250)}});
        spec.nodes.push(serde_json::from_value(node).unwrap());
    }
    let harness = Bench::of(spec, RunOptions::default());
    let begun = std::time::Instant::now();
    let ask = json!({"url": CHALLENGE, "from": "nodes", "challenge": {"client": "cert-manager", "expected": "t0ken.thumb"}});
    let run = harness.begin(ask).unwrap();
    assert_eq!(run.vantages.len(), 500);
    harness.answer(1, |vantage, assignment| {
        if vantage.to_string() != "n1/pod" && assignment.channel == Channel::Vip {
            json!({"result": "failed", "phase": "connect", "kind": "refused", "challenge": {"passes": 0}})
        } else {
            ok(vantage, assignment)
        }
    });
    let (_, run) = harness.end(&run).await;
    assert_eq!(
        run.completed, run.expected,
        "no probe was waited for to its deadline"
    );
    assert_eq!(run.outcome, Some(RunOutcome::Failed));
    // The budget is five seconds including the probes' own time; here it is measured, not asserted.
    println!("500 nodes, {} probes: {:?}", run.expected, begun.elapsed());
    harness.stop().await;
}

/// An incident of target `A`, with failures of one kind.
fn incident(region: &str, kind: &str, state: &Value) -> parallax_diagnosis::verdict::Incident {
    let mut incident = json!({
        "id": "9f2", "since": 1, "opened": 2, "occurrences": 1,
        "subject": {"type": "front", "name": "203.0.113.10:80"},
        "region": {"region": region, "members": []}, "class": [{"region": region, "members": []}],
        "probability": 0.99, "causes": [], "sentence": "connections time out", "locality": [], "ruled_out": [],
        "evidence": [{"who": "all", "channel": "vip", "probes": 20, "failures": 3, "kinds": [[kind, 3]],
            "predicted": true}],
        "separating": [], "facts": [], "remedies": [], "targets": [A],
    });
    let members = incident.as_object_mut().unwrap();
    members.extend(state.as_object().unwrap().clone());
    serde_json::from_value(incident).unwrap()
}

#[tokio::test]
async fn incidents_on_the_path_from_the_internet_go_with_a_cas_run() {
    let mut harness = Bench::new(RunOptions::default());
    let ask = |client: &str| json!({"url": CHALLENGE, "challenge": {"client": client}});
    let open = json!({"state": "open"});
    let mut known = |client: &str, incident| {
        harness.view.incidents = vec![incident];
        harness.begin(ask(client)).unwrap().known_failures
    };
    let expected = ["incident 9f2: connections time out"];
    assert_eq!(
        known("boulder", incident("vip", "connect_timeout", &open)),
        expected
    );
    assert_eq!(
        known("cert-manager", incident("vip", "connect_timeout", &open)),
        [""; 0],
        "a node's own path decides the self check"
    );
    assert_eq!(
        known("boulder", incident("nolocal", "refused", &open)),
        [""; 0],
        "a CA is not a client on a node"
    );
    let mut of_nodes = incident("proto-vip", "eof", &open);
    of_nodes
        .verdict
        .class
        .push(incident("vip", "eof", &open).verdict.region);
    assert_eq!(
        known("boulder", of_nodes),
        [""; 0],
        "the fetches of the challenge separate a fault of the nodes from one of the address"
    );
    assert_eq!(
        known("boulder", incident("backend", "status 503", &open)),
        [""; 0],
        "a failure of the application says nothing about the path"
    );
    let recovering = json!({"state": "recovering"});
    assert_eq!(
        known("boulder", incident("vip", "connect_timeout", &recovering)),
        [""; 0]
    );
    let recurring = json!({"state": "recovering", "occurrences": 3});
    assert_eq!(
        known("boulder", incident("vip", "connect_timeout", &recurring)),
        expected
    );
    harness.stop().await;
}

#[tokio::test]
async fn a_connection_that_a_balancer_loses_while_it_takes_out_an_endpoint_is_no_known_failure() {
    let mut harness = Bench::new(RunOptions::default());
    let mut rows = harness.view.matrix.iter_mut();
    let row = rows.find(|row| row.target.as_str() == A).unwrap();
    for cell in &mut row.cells {
        cell.state = parallax_diagnosis::view::CellState::Flaky;
        (cell.probes, cell.failures) = (3, 1);
        cell.last_failure = Some("connect_timeout in connect".to_owned());
    }
    let ask = json!({"url": CHALLENGE, "challenge": {"client": "boulder"}});
    assert_eq!(harness.begin(ask).unwrap().known_failures, [""; 0]);
    harness.stop().await;
}
