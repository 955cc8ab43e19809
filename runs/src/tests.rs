use parallax_api::runs::{RunEvent, RunOutcome, RunState, RunVantages};
use parallax_diagnosis::{topology::TopologySpec, view::VantageState};
use parallax_model::{Channel, Observation};
use serde_json::{Value, json};

use super::*;

/// Three nodes, an ingress Pod on the first, externalTrafficPolicy: Local.
const TOPOLOGY: &str = r#"
nodes:
  - {name: n1, zone: a, prober: {pod: prober-n1, address: "10.244.1.5:9095"}}
  - {name: n2, zone: a, prober: {pod: prober-n2, address: "10.244.2.5:9095"}}
  - {name: n3, zone: b, prober: {pod: prober-n3, address: "10.244.3.5:9095"}}
services:
  - namespace: default
    name: kubernetes
    type: ClusterIP
    clusterIPs: [10.96.0.1]
    ports: [{name: https, port: 443, targetPort: 6443}]
    endpoints: [{pod: api-1, address: 192.0.2.7}]
  - namespace: ingress
    name: nginx
    type: LoadBalancer
    clusterIPs: [10.96.0.50]
    loadBalancer: [{ip: 203.0.113.10}]
    externalTrafficPolicy: Local
    ports: [{name: http, port: 80, targetPort: 8080}]
    endpoints: [{pod: ingress-1, address: 10.244.1.10, node: n1}]
ingresses:
  - {namespace: shop, name: shop, service: ingress/nginx, hosts: [a.example.test]}
targets:
  - {url: "https://kubernetes.default.svc/"}
"#;

struct Bench {
    desk: Arc<RunManager>,
    topology: Arc<Topology>,
    view: View,
    cancelled: CancellationToken,
    judging: tokio::task::JoinHandle<()>,
}

impl Bench {
    fn new(options: RunOptions) -> Self {
        Self::of(serde_saphyr::from_str(TOPOLOGY).unwrap(), options)
    }

    fn of(spec: TopologySpec, options: RunOptions) -> Self {
        let topology = Arc::new(
            Topology::try_from(spec)
                .unwrap()
                .with_vantage("internet:laptop".parse().unwrap()),
        );
        let clock = Clock::system();
        let config = PlanConfig {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
            echo_nonce: String::new(),
        };
        let desk = Arc::new(RunManager::new(
            clock,
            options,
            config,
            ReplicaState::standalone(1, "nonce"),
            (StoreHandle::off(), RunMetrics::new()),
        ));
        let settings = Settings {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
        };
        let mut view = parallax_diagnosis::Engine::new(settings, topology.clone()).view(clock.now());
        for vantage in &mut view.vantages {
            vantage.state = VantageState::Reporting;
        }
        let cancelled = CancellationToken::new();
        let judging = tokio::spawn(desk.clone().run(cancelled.clone()));
        Self {
            desk,
            topology,
            view,
            cancelled,
            judging,
        }
    }

    fn begin(&self, request: Value) -> Result<PreflightRun, RunRefusedError> {
        let request: RunRequest = serde_json::from_value(request).unwrap();
        self.desk.start(&request, "ann", &self.topology, &self.view)
    }

    /// The assignments in the latest order, with their vantages.
    fn told(&self) -> Vec<(Vantage, Assignment)> {
        let orders = self.desk.orders().borrow().clone();
        let order = orders.last().unwrap();
        let own = |(vantage, own): (&Vantage, &Vec<Assignment>)| {
            let vantage = vantage.clone();
            own.iter()
                .map(move |a| (vantage.clone(), a.clone()))
                .collect::<Vec<_>>()
        };
        order.assignments.iter().flat_map(own).collect()
    }

    /// Reports a result for every assignment of the latest order and every round.
    fn answer(&self, rounds: u32, outcome: impl Fn(&Vantage, &Assignment) -> Value) {
        let now = self.desk.clock.now();
        for (seq, (vantage, assignment)) in self
            .told()
            .into_iter()
            .flat_map(|told| std::iter::repeat_n(told, rounds as usize))
            .enumerate()
        {
            let mut line = json!({"seq": seq, "t_us": now.0, "target": assignment.target,
                "channel": assignment.channel, "assignment": assignment.id, "times": {"total_us": 900}});
            if assignment.channel == Channel::Vip {
                line["front"] = json!("203.0.113.10:80");
            }
            if let Some(entry) = &assignment.entry {
                line["entry"] = json!(entry.pod);
                line["dst_node"] = json!(entry.node);
            }
            for (key, value) in outcome(&vantage, &assignment).as_object().unwrap() {
                line[key] = value.clone();
            }
            let observation: Observation = serde_json::from_value(line).unwrap();
            let incarnation = "life-1".parse().unwrap();
            self.desk.record(&Recorded {
                vantage,
                incarnation,
                observation,
            });
        }
    }

    /// Follows a run to its end.
    async fn end(&self, run: &PreflightRun) -> (Vec<RunEvent>, PreflightRun) {
        let mut follow = self.desk.follow(run.id.as_str()).unwrap();
        let mut all = Vec::new();
        while let Some(events) = follow.next().await {
            all.extend(events.iter().map(|event| RunEvent::clone(event)));
        }
        let Some(RunEvent::Done { run }) = all.last() else {
            panic!("a run ends with its judgement: {all:?}")
        };
        let run = PreflightRun::clone(run);
        (all, run)
    }

    async fn stop(self) {
        self.cancelled.cancel();
        self.judging.await.unwrap();
    }

    /// Waits until ended runs are also counted.
    async fn counted(&self) {
        while self.desk.metrics.counts().0 > 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn ok(_: &Vantage, _: &Assignment) -> Value {
    json!({"result": "ok", "status": 200})
}

const A: &str = "http://a.example.test/";

#[tokio::test]
async fn a_run_in_which_every_probe_of_every_vantage_succeeds_has_passed() {
    let bench = Bench::new(RunOptions::default());
    let run = bench.begin(json!({"url": "http://A.example.test"})).unwrap();
    assert_eq!(
        (run.target.as_str(), run.state, run.vantages.len()),
        (A, RunState::Running, 4)
    );
    bench.answer(3, ok);
    let (events, run) = bench.end(&run).await;
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
    bench.stop().await;
}

#[tokio::test]
async fn a_run_names_the_cause_by_its_own_probes_alone_also_of_what_never_worked() {
    let bench = Bench::new(RunOptions::default());
    let run = bench
        .begin(json!({"url": A, "from": "nodes", "rounds": 4}))
        .unwrap();
    let refused = json!({"result": "failed", "phase": "connect", "kind": "refused"});
    bench.answer(4, |vantage, assignment| {
        let no_local = vantage.to_string() != "n1/pod" && assignment.channel == Channel::Vip;
        if no_local {
            refused.clone()
        } else {
            ok(vantage, assignment)
        }
    });
    let (_, run) = bench.end(&run).await;
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
    bench.stop().await;
}

#[tokio::test]
async fn a_run_of_the_mesh_asks_every_echo_from_every_node_and_names_the_node_that_nobody_reaches() {
    let bench = Bench::new(RunOptions::default());
    let run = bench.begin(json!({"url": "mesh", "rounds": 6})).unwrap();
    assert_eq!(run.vantages.len(), 3, "from outside there is no mesh");
    let told = bench.told();
    assert_eq!(told.len(), 6);
    assert!(told.iter().all(|(_, a)| a.channel == Channel::Mesh));
    let timeout = json!({"result": "failed", "phase": "connect", "kind": "connect_timeout"});
    bench.answer(6, |vantage, assignment| {
        if assignment.peer.as_ref().is_some_and(|node| node.as_str() == "n3") {
            timeout.clone()
        } else {
            ok(vantage, assignment)
        }
    });
    let (_, run) = bench.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed));
    assert_eq!(
        run.verdict.unwrap().verdict.region.members,
        ["n3"],
        "{}",
        run.sentence
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_run_of_the_mesh_where_nobody_has_anybody_to_ask_says_so() {
    let mut bench = Bench::new(RunOptions::default());
    let said = bench
        .begin(json!({"url": "mesh", "from": "outside"}))
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("requires probers on at least two nodes") && said.contains("there are 3"),
        "{said}"
    );
    let spec: TopologySpec = serde_json::from_value(json!({"nodes": [
        {"name": "n1", "prober": {"pod": "prober-n1", "address": "10.244.1.5:9095"}}, {"name": "n2"}]}))
    .unwrap();
    bench.topology = Arc::new(Topology::try_from(spec).unwrap());
    let refused = bench.begin(json!({"url": "mesh"})).unwrap_err();
    assert!(matches!(refused, RunRefusedError::MeshTooSmall(1)), "{refused}");
    assert!(refused.to_string().contains("there is one"), "{refused}");
    bench.stop().await;
}

#[tokio::test]
async fn where_a_target_must_not_answer_silence_passes_and_an_answer_fails() {
    let mut bench = Bench::new(RunOptions::default());
    let mut spec: TopologySpec = serde_saphyr::from_str(TOPOLOGY).unwrap();
    let target = json!({"url": "http://intern.example.test/", "mustNotAnswerFrom": ["internet"]});
    spec.targets.push(serde_json::from_value(target).unwrap());
    let topology = Topology::try_from(spec).unwrap();
    bench.topology = Arc::new(topology.with_vantage("internet:laptop".parse().unwrap()));
    let request = json!({"url": "http://intern.example.test/"});

    let run = bench.begin(request.clone()).unwrap();
    let outside = |vantage: &Vantage| vantage.node().is_none();
    let told = bench.told();
    let asked: Vec<_> = told.iter().filter(|(vantage, _)| outside(vantage)).collect();
    assert_eq!(
        asked.len(),
        1,
        "a vantage that must not get a response does not probe as a user would: {asked:?}"
    );
    // Probers report expected silence as a success.
    bench.answer(3, |_, _| json!({"result": "ok"}));
    let (_, run) = bench.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Passed), "{}", run.sentence);
    assert!(
        run.sentence.contains("ended as expected, from 4 vantages"),
        "{}",
        run.sentence
    );

    let run = bench.begin(request).unwrap();
    bench.answer(3, |vantage, assignment| {
        if outside(vantage) {
            json!({"result": "failed", "phase": "check", "kind": "answered_though_forbidden", "status": 200})
        } else {
            ok(vantage, assignment)
        }
    });
    let (_, run) = bench.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Failed));
    assert_eq!(
        run.sentence,
        "http://intern.example.test/ must not respond to internet, but responds to internet:laptop"
    );
    bench.stop().await;
}

#[tokio::test]
async fn runs_are_counted_by_what_they_came_to() {
    let bench = Bench::new(RunOptions::default());
    let run = bench.begin(json!({"url": A})).unwrap();
    let figures = || bench.desk.metrics.counts();
    assert_eq!(figures(), (1, 0, 0));
    bench.answer(3, ok);
    bench.end(&run).await;
    bench.begin(json!({"url": "shop"})).unwrap_err();
    assert_eq!(figures().2, 0, "the caller decides whether a rejected run counts");
    bench.desk.count_rejected();
    bench.counted().await;
    assert_eq!(figures(), (0, 1, 1));
    bench.stop().await;
}

#[tokio::test]
async fn what_does_not_answer_proves_nothing_and_never_reads_as_passed() {
    let bench = Bench::new(RunOptions::default());
    let run = bench
        .begin(json!({"url": A, "rounds": 1, "timeout_ms": 50}))
        .unwrap();
    let (_, run) = bench.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Unknown));
    assert!(
        run.sentence.contains("4 vantages did not respond in time"),
        "{}",
        run.sentence
    );
    assert!(run.ended.unwrap() >= run.deadline);
    let again = bench.begin(json!({"url": A, "rounds": 1})).unwrap();
    bench.answer(1, |_, _| json!({"result": "not_asked", "own": "out_of_scope"}));
    let (_, again) = bench.end(&again).await;
    assert_eq!(again.outcome, Some(RunOutcome::Unknown));
    assert!(again.sentence.contains("out of scope"), "{}", again.sentence);
    bench.stop().await;
}

#[tokio::test]
async fn every_probe_carries_the_scope_and_the_api_server_is_out_of_it() {
    let bench = Bench::new(RunOptions::default());
    bench.begin(json!({"url": A})).unwrap();
    for (_, assignment) in bench.told() {
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
        let refused = bench.begin(json!({"url": url})).unwrap_err();
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
    bench.stop().await;
    any.stop().await;
}

#[tokio::test]
async fn from_says_who_takes_part_and_silent_vantages_do_not() {
    let mut bench = Bench::new(RunOptions::default());
    let who =
        |run: PreflightRun| -> Vec<String> { run.vantages.iter().map(|v| v.vantage.to_string()).collect() };
    assert_eq!(
        who(bench.begin(json!({"url": A, "from": "nodes"})).unwrap()),
        ["n1/pod", "n2/pod", "n3/pod"]
    );
    assert_eq!(
        who(bench.begin(json!({"url": A, "from": "zones"})).unwrap()),
        ["n1/pod", "n3/pod"]
    );
    assert_eq!(
        who(bench.begin(json!({"url": A, "from": "outside"})).unwrap()),
        ["internet:laptop"]
    );
    for vantage in &mut bench.view.vantages {
        if vantage.vantage.node().is_none() {
            vantage.state = VantageState::Silent;
        }
    }
    let refused = bench.begin(json!({"url": A, "from": "outside"})).unwrap_err();
    assert!(matches!(
        refused,
        RunRefusedError::NoReportingVantage(RunVantages::Outside)
    ));
    bench.stop().await;
}

#[tokio::test]
async fn a_bad_request_says_what_was_expected_and_too_many_are_asked_to_wait() {
    let bench = Bench::new(RunOptions::default());
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
        let said = bench.begin(request).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
    for _ in 0..MAX_CONCURRENT_RUNS {
        bench.begin(json!({"url": A})).unwrap();
    }
    assert!(matches!(
        bench.begin(json!({"url": A})),
        Err(RunRefusedError::RateLimited(_))
    ));
    bench.stop().await;
}

#[tokio::test]
async fn a_report_that_comes_twice_counts_once_and_a_stranger_not_at_all() {
    let bench = Bench::new(RunOptions::default());
    let run = bench
        .begin(json!({"url": A, "from": "nodes", "rounds": 2}))
        .unwrap();
    bench.answer(1, ok);
    bench.answer(1, ok);
    let half = bench.desk.get(run.id.as_str()).unwrap();
    assert_eq!(half.completed * 2, run.expected, "the same numbers again");
    let mut stranger = bench.told()[0].clone();
    stranger.0 = "n9/pod".parse().unwrap();
    let observation = serde_json::from_value(json!({"seq": 99, "t_us": 1, "target": A, "channel": "vip",
        "assignment": stranger.1.id, "result": "failed", "phase": "connect", "kind": "refused"}))
    .unwrap();
    bench.desk.record(&Recorded {
        vantage: stranger.0,
        incarnation: "x".parse().unwrap(),
        observation,
    });
    assert_eq!(bench.desk.get(run.id.as_str()).unwrap().completed, half.completed);
    bench.stop().await;
}

const CHALLENGE: &str = "http://a.example.test/.well-known/acme-challenge/t0ken";

#[tokio::test]
async fn the_self_check_of_a_challenge_goes_with_what_tells_causes_apart_and_the_cas_fetch_alone() {
    let bench = Bench::new(RunOptions::default());
    let ask = |client: &str| json!({"url": CHALLENGE, "from": "nodes", "challenge": {"client": client, "expected": "t0ken.thumb"}});
    let run = bench.begin(ask("cert-manager")).unwrap();
    assert_eq!((run.rounds, run.timeout), (1, Micros::from_secs(10)));
    let told = bench.told();
    let fetch = |a: &Assignment| serde_json::to_value(&a.probe).unwrap();
    for (_, assignment) in told.iter().filter(|(_, a)| a.channel == Channel::Vip) {
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
    let direct: Vec<_> = told
        .iter()
        .filter(|(_, a)| a.channel == Channel::Direct)
        .collect();
    assert_eq!(direct.len(), 3, "the ingress pod, from every node");
    assert_eq!(fetch(&direct[0].1)["expect_body_equals"], "t0ken.thumb");
    assert!(told.iter().any(|(_, a)| a.channel == Channel::Mesh));
    // Refused on nodes without an ingress Pod, as in I1. One fetch proves the failure, several name the cause.
    let mut several = ask("cert-manager");
    several["rounds"] = json!(4);
    let run = bench.begin(several).unwrap();
    bench.answer(4, |vantage, assignment| {
        let no_local = vantage.to_string() != "n1/pod" && assignment.channel == Channel::Vip;
        if no_local {
            json!({"result": "failed", "phase": "connect", "kind": "refused", "challenge": {"passes": 0}})
        } else {
            ok(vantage, assignment)
        }
    });
    let (events, run) = bench.end(&run).await;
    assert_eq!(run.challenge, Some(parallax_model::ChallengeClient::CertManager));
    let sights = events.iter().filter(|event| {
        matches!(
            event,
            RunEvent::Result {
                challenge: Some(_),
                placement: Some(parallax_model::Placement::NoLocal),
                ..
            }
        )
    });
    assert_eq!(sights.count(), 2 * 4);
    assert_eq!(
        run.verdict.map(|verdict| verdict.verdict.region.region),
        Some("nolocal".to_owned()),
        "{}",
        run.sentence
    );
    let ca = bench.begin(ask("boulder")).unwrap();
    assert_eq!(ca.timeout, Micros::from_secs(20));
    assert!(bench.told().iter().all(|(_, a)| a.channel == Channel::Vip));
    let five = json!({"url": CHALLENGE, "challenge": {"client": "cert-manager", "passes": 5}});
    let five = bench.begin(five).unwrap();
    assert_eq!(
        five.deadline - five.requested_at,
        Micros::from_secs(5 * 10 + 4 * 2 + 1),
        "five fetches and the pauses between them"
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_challenge_is_fetched_only_from_known_hosts_and_only_where_challenges_are() {
    let bench = Bench::new(RunOptions::default());
    let begin = |url: &str, challenge: Value| bench.begin(json!({"url": url, "challenge": challenge}));
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
    let asked = json!({"client": "boulder", "nameservers": ["192.0.2.53:53"]});
    let refused = begin(CHALLENGE, asked).unwrap_err();
    assert!(refused.to_string().contains("resolvers.public"), "{refused}");
    let passes = begin(CHALLENGE, json!({"client": "boulder", "passes": 6})).unwrap_err();
    assert!(passes.to_string().contains("challenge.passes"), "{passes}");
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
    bench.stop().await;
}

#[tokio::test]
async fn an_authority_asks_several_times_from_outside_and_once_from_each_node() {
    let bench = Bench::new(RunOptions::default());
    let asked = json!({"url": CHALLENGE, "challenge": {"client": "boulder", "passes": 5}});
    bench.begin(asked).unwrap();
    let passes: Vec<(String, Value)> = bench
        .told()
        .into_iter()
        .map(|(vantage, assignment)| {
            let probe = serde_json::to_value(&assignment.probe).unwrap();
            (vantage.to_string(), probe["passes"].clone())
        })
        .collect();
    let told = |outside: bool| -> Vec<&Value> {
        let own = passes
            .iter()
            .filter(|(vantage, _)| vantage.contains(':') == outside);
        own.map(|(_, passes)| passes).collect()
    };
    assert_eq!(told(true), [&json!(5)], "{passes:?}");
    assert!(
        told(false).len() > 1 && told(false).iter().all(|passes| passes.is_null()),
        "{passes:?}"
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_challenge_over_five_hundred_nodes_is_told_and_judged_within_seconds() {
    let mut spec: TopologySpec = serde_saphyr::from_str(TOPOLOGY).unwrap();
    for n in 4..=500 {
        let node = json!({"name": format!("n{n}"), "zone": "a",
            "prober": {"pod": format!("prober-n{n}"), "address": format!("10.{}.{}.5:9095", 100 + n / 250, n % 250)}});
        spec.nodes.push(serde_json::from_value(node).unwrap());
    }
    let bench = Bench::of(spec, RunOptions::default());
    let begun = std::time::Instant::now();
    let ask = json!({"url": CHALLENGE, "from": "nodes", "challenge": {"client": "cert-manager", "expected": "t0ken.thumb"}});
    let run = bench.begin(ask).unwrap();
    assert_eq!(run.vantages.len(), 500);
    bench.answer(1, |vantage, assignment| {
        if vantage.to_string() != "n1/pod" && assignment.channel == Channel::Vip {
            json!({"result": "failed", "phase": "connect", "kind": "refused", "challenge": {"passes": 0}})
        } else {
            ok(vantage, assignment)
        }
    });
    let (_, run) = bench.end(&run).await;
    assert_eq!(
        run.completed, run.expected,
        "no probe was waited for to its deadline"
    );
    assert_eq!(run.outcome, Some(RunOutcome::Failed));
    // The budget is five seconds including the probes' own time; here it is measured, not asserted.
    println!("500 nodes, {} probes: {:?}", run.expected, begun.elapsed());
    bench.stop().await;
}

/// One server's response for the host.
fn said(by: &str, address: &str) -> Value {
    json!({"by": by, "server": "192.0.2.53:53", "a": {"addresses": [address]}, "aaaa": "none", "caa": "none"})
}

fn told(by: &str, address: &str, issuer: &str) -> Value {
    let none = |name: &str| json!({"name": name, "answer": "none"});
    let issue = json!({"name": "example.test", "answer": {"records": [{"flags": 0, "tag": "issue", "value": issuer}]}});
    json!({"result": "ok", "times": {"total_us": 900},
        "names": {"views": [said(by, address)], "caa": [none("a.example.test"), issue, none("test")]}})
}

#[tokio::test]
async fn the_facts_of_a_name_are_asked_of_a_few_and_say_what_they_mean_for_the_authority() {
    let bench = Bench::new(RunOptions::default());
    let ask = json!({"url": "dns://a.example.test", "names": {"identities": ["letsencrypt.org"]}});
    let run = bench.begin(ask).unwrap();
    let asked: Vec<String> = bench
        .told()
        .iter()
        .map(|(vantage, _)| vantage.to_string())
        .collect();
    assert_eq!(asked, ["n1/pod", "n2/pod", "n3/pod", "internet:laptop"]);
    for (_, assignment) in bench.told() {
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
    bench.answer(1, |vantage, _| match vantage.node() {
        Some(_) => told("own", "10.0.0.1", "letsencrypt.org"),
        None => told("own", "203.0.113.10", "pki.goog"),
    });
    let (_, run) = bench.end(&run).await;
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
            .any(|what| what.contains("resolvers.authoritative"))
    );
    bench.stop().await;
}

#[tokio::test]
async fn public_resolvers_and_a_zones_own_servers_are_asked_where_the_configuration_says_so() {
    let mut spec: TopologySpec = serde_saphyr::from_str(TOPOLOGY).unwrap();
    spec.resolvers =
        serde_json::from_value(json!({"public": ["192.0.2.53"], "authoritative": true})).unwrap();
    let bench = Bench::of(spec, RunOptions::default());
    bench
        .begin(json!({"url": "dns://a.example.test", "names": {}}))
        .unwrap();
    for (_, assignment) in bench.told() {
        let parallax_model::ProbeSpec::Names(probe) = assignment.probe else {
            panic!("expected a name probe")
        };
        assert!(probe.query_authorities);
        assert_eq!(probe.public_resolvers, ["192.0.2.53:53".parse().unwrap()]);
    }
    bench.stop().await;
}

#[tokio::test]
async fn only_names_of_known_hosts_are_asked_for_and_one_thing_at_a_time() {
    let bench = Bench::new(RunOptions::default());
    let begin = |url: &str, names: Value| bench.begin(json!({"url": url, "names": names}));
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
        bench.begin(both).unwrap_err(),
        RunRefusedError::Names(_)
    ));
    bench.stop().await;
}

#[tokio::test]
async fn probers_that_do_not_know_the_question_leave_it_unknown() {
    let bench = Bench::new(RunOptions::default());
    let run = bench
        .begin(json!({"url": "dns://a.example.test", "names": {}}))
        .unwrap();
    // An older prober makes no probe, or reports a result without facts.
    bench.answer(1, |_, _| json!({"result": "not_asked", "own": "no_resolver"}));
    let (_, run) = bench.end(&run).await;
    assert_eq!(run.outcome, Some(RunOutcome::Unknown));
    let found = run.names.unwrap();
    assert_eq!(found.facts.views, []);
    assert_eq!(found.verdict.problems, []);
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_look_asks_one_node_and_the_internet_and_gives_what_came_when_its_time_is_over() {
    let bench = Bench::new(RunOptions::default());
    let host = "a.example.test".parse().unwrap();
    let mut asked = Vec::new();
    for turn in 0..3 {
        let at = HostCheck {
            host: &host,
            token: "t0ken",
            turn,
        };
        let mut orders = bench.desk.orders();
        orders.mark_unchanged();
        let only_outside = async {
            orders.changed().await.unwrap();
            for (seq, (vantage, assignment)) in bench.told().into_iter().enumerate() {
                if vantage.node().is_some() {
                    asked.push(vantage.to_string());
                    continue;
                }
                let line = json!({"seq": turn * 10 + seq, "t_us": 1, "target": assignment.target, "channel": assignment.channel,
                    "assignment": assignment.id, "result": "ok"});
                let recorded = Recorded {
                    vantage,
                    incarnation: "life-1".parse().unwrap(),
                    observation: serde_json::from_value(line).unwrap(),
                };
                // A duplicate counts once, and a vantage that was not asked does not count.
                bench.desk.record(&recorded);
                bench.desk.record(&recorded);
                let stranger = "internet:stranger".parse().unwrap();
                bench.desk.record(&Recorded {
                    vantage: stranger,
                    ..recorded
                });
            }
        };
        let look = bench.desk.check_host(at, &bench.topology, &bench.view);
        let (looked, ()) = tokio::join!(look, only_outside);
        assert_eq!(
            looked.unwrap().observations.len(),
            2,
            "the name, and a fetch by the CA's rules"
        );
    }
    assert_eq!(
        asked,
        [
            "n1/pod", "n1/pod", "n1/pod", "n3/pod", "n3/pod", "n3/pod", "n2/pod", "n2/pod", "n2/pod"
        ],
        "the nodes take turns"
    );
    assert_eq!(bench.desk.list(), [], "a check is not a run");
    bench.stop().await;
}

#[tokio::test]
async fn nobody_looks_at_a_host_that_nobody_publishes() {
    let bench = Bench::new(RunOptions::default());
    let host = "b.example.test".parse().unwrap();
    let at = HostCheck {
        host: &host,
        token: "t0ken",
        turn: 0,
    };
    let refused = bench
        .desk
        .check_host(at, &bench.topology, &bench.view)
        .await
        .unwrap_err();
    assert!(matches!(refused, HostCheckError::OutOfScope(_)), "{refused}");
    assert!(bench.desk.orders().borrow().is_empty());
    bench.stop().await;
}
