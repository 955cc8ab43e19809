//! Outcomes of runs, and the cause that a run names.

use super::*;

#[tokio::test]
async fn a_run_in_which_every_probe_of_every_vantage_succeeds_has_passed() {
    let harness = Bench::new(RunOptions::default());
    let run = harness.begin(json!({"url": "http://A.example.test"})).unwrap();
    assert_eq!(
        (run.target.as_str(), run.state, run.vantages.len()),
        (A, RunState::Running, 4)
    );
    harness.answer(3, ok);
    let (events, run) = harness.end(&run).await;
    assert_eq!(
        (run.outcome, run.completed),
        (Some(RunOutcome::Passed), run.expected)
    );
    assert!(
        run.sentence
            .starts_with("all 12 probes succeeded, from 4 vantages"),
        "{}",
        run.sentence
    );
    assert!(matches!(events[0], RunEvent::Started { .. }));
    assert_eq!(events.len() as u64, run.expected + 2);
    assert!(run.first_probe.is_some());
    harness.stop().await;
}

#[tokio::test]
async fn an_expected_vantage_that_is_silent_makes_a_run_unknown_without_delaying_it() {
    let mut harness = Bench::new(RunOptions::default());
    let silent = harness.view.vantages.iter_mut();
    for vantage in silent.filter(|v| v.vantage.to_string() == "n3/pod") {
        vantage.state = VantageState::Silent;
    }
    let run = harness.begin(json!({"url": A})).unwrap();
    let ordered = harness.ordered_assignments();
    assert!(ordered.iter().all(|(vantage, _)| vantage.to_string() != "n3/pod"));
    harness.answer(3, ok);
    let (_, run) = harness.end(&run).await;
    assert_eq!(
        run.completed, run.expected,
        "nothing is awaited from the silent vantage"
    );
    assert_eq!(run.outcome, Some(RunOutcome::Unknown));
    assert!(
        run.sentence.contains("1 vantage did not respond"),
        "{}",
        run.sentence
    );
    let part = run
        .vantages
        .iter()
        .find(|part| part.vantage.to_string() == "n3/pod");
    assert_eq!(part.map(|part| (part.planned, part.probes)), Some((3, 0)));
    harness.stop().await;
}

#[tokio::test]
async fn a_run_names_the_cause_by_its_own_probes_alone_also_of_what_never_worked() {
    let harness = Bench::new(RunOptions::default());
    let run = harness
        .begin(json!({"url": A, "from": "nodes", "rounds": 4}))
        .unwrap();
    let refused = json!({"result": "failed", "phase": "connect", "kind": "refused"});
    harness.answer(4, |vantage, assignment| {
        let no_local = vantage.to_string() != "n1/pod" && assignment.channel == Channel::Vip;
        if no_local {
            refused.clone()
        } else {
            ok(vantage, assignment)
        }
    });
    let (_, run) = harness.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed));
    let verdict = run.verdict.unwrap();
    assert_eq!(verdict.verdict.region.region, "nolocal", "{}", run.sentence);
    assert_eq!(run.sentence, verdict.verdict.sentence);
    let failing: Vec<_> = run.vantages.iter().filter(|v| v.failures > 0).collect();
    assert_eq!(failing.len(), 2);
    assert_eq!(
        (failing[0].failures, failing[0].detail.as_deref()),
        (4, Some("refused in connect"))
    );
    assert!(run.vantages[0].failures > 0, "failing ones first");
    harness.stop().await;
}

#[tokio::test]
async fn a_run_of_the_mesh_asks_every_echo_from_every_node_and_names_the_node_that_nobody_reaches() {
    let harness = Bench::new(RunOptions::default());
    let run = harness.begin(json!({"url": "mesh", "rounds": 6})).unwrap();
    assert_eq!(run.vantages.len(), 3, "from outside there is no mesh");
    let assignments = harness.ordered_assignments();
    assert_eq!(assignments.len(), 6);
    assert!(assignments.iter().all(|(_, a)| a.channel == Channel::Mesh));
    let timeout = json!({"result": "failed", "phase": "connect", "kind": "connect_timeout"});
    harness.answer(6, |vantage, assignment| {
        if assignment.peer.as_ref().is_some_and(|node| node.as_str() == "n3") {
            timeout.clone()
        } else {
            ok(vantage, assignment)
        }
    });
    let (_, run) = harness.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed));
    assert_eq!(
        run.verdict.unwrap().verdict.region.members,
        ["n3"],
        "{}",
        run.sentence
    );
    harness.stop().await;
}

#[tokio::test]
async fn a_run_of_the_mesh_where_nobody_has_anybody_to_ask_says_so() {
    let mut harness = Bench::new(RunOptions::default());
    let error = harness
        .begin(json!({"url": "mesh", "from": "outside"}))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("requires probers on at least two nodes") && error.contains("there are 3"),
        "{error}"
    );
    let spec: TopologySpec = serde_json::from_value(json!({"nodes": [
        {"name": "n1", "prober": {"pod": "prober-n1", "address": "10.244.1.5:9095"}}, {"name": "n2"}]}))
    .unwrap();
    harness.topology = Arc::new(Topology::try_from(spec).unwrap());
    let refused = harness.begin(json!({"url": "mesh"})).unwrap_err();
    assert!(matches!(refused, RunRefusedError::MeshTooSmall(1)), "{refused}");
    assert!(refused.to_string().contains("there is one"), "{refused}");
    harness.stop().await;
}

#[tokio::test]
async fn where_a_target_must_not_answer_silence_passes_and_an_answer_fails() {
    let mut harness = Bench::new(RunOptions::default());
    let mut spec: TopologySpec = serde_saphyr::from_str(TOPOLOGY).unwrap();
    let target = json!({"url": "http://intern.example.test/", "mustNotAnswerFrom": ["internet"]});
    spec.targets.push(serde_json::from_value(target).unwrap());
    let topology = Topology::try_from(spec).unwrap();
    harness.topology = Arc::new(topology.with_vantage("internet:laptop".parse().unwrap()));
    let request = json!({"url": "http://intern.example.test/"});

    let run = harness.begin(request.clone()).unwrap();
    let outside = |vantage: &Vantage| vantage.node().is_none();
    let assignments = harness.ordered_assignments();
    let outside_assignments: Vec<_> = assignments
        .iter()
        .filter(|(vantage, _)| outside(vantage))
        .collect();
    assert_eq!(
        outside_assignments.len(),
        1,
        "a vantage that must not get a response does not probe as a user would: {outside_assignments:?}"
    );
    // Probers report expected silence as a success.
    harness.answer(3, |_, _| json!({"result": "ok"}));
    let (_, run) = harness.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Passed), "{}", run.sentence);
    assert!(
        run.sentence.contains("ended as expected, from 4 vantages"),
        "{}",
        run.sentence
    );

    let run = harness.begin(request).unwrap();
    harness.answer(3, |vantage, assignment| {
        if outside(vantage) {
            json!({"result": "failed", "phase": "check", "kind": "answered_though_forbidden", "status": 200})
        } else {
            ok(vantage, assignment)
        }
    });
    let (_, run) = harness.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed));
    assert_eq!(
        run.sentence,
        "http://intern.example.test/ must not respond to internet, but responds to internet:laptop"
    );
    harness.stop().await;
}

#[tokio::test]
async fn runs_are_counted_by_what_they_came_to() {
    let harness = Bench::new(RunOptions::default());
    let run = harness.begin(json!({"url": A})).unwrap();
    let figures = || harness.manager.metrics.counts();
    assert_eq!(figures(), (1, 0, 0));
    harness.answer(3, ok);
    harness.end(&run).await;
    harness.begin(json!({"url": "shop"})).unwrap_err();
    assert_eq!(figures().2, 0, "the caller decides whether a rejected run counts");
    harness.manager.count_rejected();
    harness.counted().await;
    assert_eq!(figures(), (0, 1, 1));
    harness.stop().await;
}

#[tokio::test]
async fn what_does_not_answer_proves_nothing_and_never_reads_as_passed() {
    let harness = Bench::new(RunOptions::default());
    let run = harness
        .begin(json!({"url": A, "rounds": 1, "timeout_ms": 50}))
        .unwrap();
    let (_, run) = harness.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Unknown));
    assert!(
        run.sentence.contains("4 vantages did not respond in time"),
        "{}",
        run.sentence
    );
    assert!(run.ended.unwrap() >= run.deadline);
    let again = harness.begin(json!({"url": A, "rounds": 1})).unwrap();
    harness.answer(1, |_, _| json!({"result": "not_asked", "own": "out_of_scope"}));
    let (_, again) = harness.end(&again).await;
    assert_eq!(again.outcome, Some(RunOutcome::Unknown));
    assert!(again.sentence.contains("outside the scope"), "{}", again.sentence);
    harness.stop().await;
}

#[tokio::test]
async fn a_vantage_that_received_its_order_late_has_as_much_time_as_the_others() {
    let harness = Bench::new(RunOptions::default());
    let planned = harness
        .begin(json!({"url": A, "rounds": 2, "timeout_ms": 50}))
        .unwrap();
    let duration = planned.deadline - planned.requested_at;
    let late = planned.requested_at.plus(Micros::from_millis(1_500));
    harness.answer(1, move |_, _| json!({"result": "ok", "t_us": late.0}));
    let run = harness.manager.get(planned.id.as_str()).unwrap();
    assert_eq!(run.deadline, late.plus(duration));
    harness.stop().await;

    // A first probe after the planned deadline, for example from a wrong clock, extends the run once and no further.
    let harness = Bench::new(RunOptions::default());
    let planned = harness
        .begin(json!({"url": A, "rounds": 2, "timeout_ms": 50}))
        .unwrap();
    let far = planned.requested_at.plus(Micros::from_secs(86_400));
    harness.answer(1, move |_, _| json!({"result": "ok", "t_us": far.0}));
    let run = harness.manager.get(planned.id.as_str()).unwrap();
    assert_eq!(
        run.deadline,
        planned.deadline.plus(planned.deadline - planned.requested_at)
    );
    harness.stop().await;
}
