//! Requests for runs: who takes part, what is rejected, and which reports count.

use super::*;

#[tokio::test]
async fn every_probe_carries_the_scope_and_the_api_server_is_out_of_it() {
    let harness = Bench::new(RunOptions::default());
    harness.begin(json!({"url": A})).unwrap();
    for (_, assignment) in harness.ordered_assignments() {
        let probe = serde_json::to_value(&assignment.probe).unwrap();
        if assignment.channel == Channel::Mesh {
            continue;
        }
        let refuse = probe["scope"]["refuse"].as_array().unwrap();
        for api in ["10.96.0.1/32", "192.0.2.7/32"] {
            assert!(refuse.iter().any(|range| range == api), "{probe}");
        }
    }
    // By cluster address and by name.
    for url in [
        "https://10.96.0.1/",
        "http://127.0.0.1:9095/",
        "http://elsewhere.example.test/",
    ] {
        let refused = harness.begin(json!({"url": url})).unwrap_err();
        assert!(
            matches!(refused, RunRefusedError::OutOfScope(_)),
            "{url}: {refused}"
        );
    }
    let any = Bench::new(RunOptions {
        allow_any_target: true,
        ..RunOptions::default()
    });
    assert!(
        any.begin(json!({"url": "http://elsewhere.example.test/"}))
            .is_ok()
    );
    assert!(matches!(
        any.begin(json!({"url": "https://10.96.0.1/"})),
        Err(RunRefusedError::OutOfScope(_))
    ));
    harness.stop().await;
    any.stop().await;
}

#[tokio::test]
async fn from_says_who_takes_part_and_silent_vantages_do_not() {
    let mut harness = Bench::new(RunOptions::default());
    let vantages =
        |run: PreflightRun| -> Vec<String> { run.vantages.iter().map(|v| v.vantage.to_string()).collect() };
    assert_eq!(
        vantages(harness.begin(json!({"url": A, "from": "nodes"})).unwrap()),
        ["n1/pod", "n2/pod", "n3/pod"]
    );
    assert_eq!(
        vantages(harness.begin(json!({"url": A, "from": "zones"})).unwrap()),
        ["n1/pod", "n3/pod"]
    );
    assert_eq!(
        vantages(harness.begin(json!({"url": A, "from": "outside"})).unwrap()),
        ["internet:laptop"]
    );
    for vantage in &mut harness.view.vantages {
        if vantage.vantage.node().is_none() {
            vantage.state = VantageState::Silent;
        }
    }
    let refused = harness.begin(json!({"url": A, "from": "outside"})).unwrap_err();
    assert!(matches!(
        refused,
        RunRefusedError::NoReportingVantage(RunVantages::Outside)
    ));
    harness.stop().await;
}

#[tokio::test]
async fn a_bad_request_says_what_was_expected_and_too_many_are_asked_to_wait() {
    let harness = Bench::new(RunOptions::default());
    for (request, words) in [
        (json!({"url": "shop"}), "url:"),
        (
            json!({"url": A, "rounds": 0}),
            "rounds: expected 1 to 20, found 0",
        ),
        (
            json!({"url": A, "timeout_ms": 1}),
            "timeout_ms: expected 50 to 60000",
        ),
    ] {
        let error = harness.begin(request).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    for _ in 0..MAX_CONCURRENT_RUNS {
        harness.begin(json!({"url": A})).unwrap();
    }
    assert!(matches!(
        harness.begin(json!({"url": A})),
        Err(RunRefusedError::RateLimited(_))
    ));
    harness.stop().await;
}

#[tokio::test]
async fn a_repeated_report_counts_once_and_an_unknown_vantage_not_at_all() {
    let harness = Bench::new(RunOptions::default());
    let run = harness
        .begin(json!({"url": A, "from": "nodes", "rounds": 2}))
        .unwrap();
    harness.answer(1, ok);
    harness.answer(1, ok);
    let half = harness.manager.get(run.id.as_str()).unwrap();
    assert_eq!(half.completed * 2, run.expected, "the same numbers again");
    let mut unknown = harness.ordered_assignments()[0].clone();
    unknown.0 = "n9/pod".parse().unwrap();
    let observation = serde_json::from_value(json!({"seq": 99, "t_us": 1, "target": A, "channel": "vip",
        "assignment": unknown.1.id, "result": "failed", "phase": "connect", "kind": "refused"}))
    .unwrap();
    harness.manager.record(&Recorded {
        vantage: unknown.0,
        incarnation: "x".parse().unwrap(),
        observation,
    });
    assert_eq!(
        harness.manager.get(run.id.as_str()).unwrap().completed,
        half.completed
    );
    harness.stop().await;
}
