//! The agent with an aggregator in the same process.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use parallax_model::{EchoIdentity, FailureKind, Observation, Outcome, OwnFault, Phase};
use parallax_prober::{
    Agent, AgentConfig, AgentError, AggregatorRoots, ProberCredential, Role, SPOOL_CAPACITY, TlsConfigs, run,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::servers::{
    AMPLE, Server,
    aggregator::{Aggregator, InjectedFailure},
    answering, assignment, context, failure, until_gone,
};

pub(crate) fn config(aggregator: SocketAddr) -> AgentConfig {
    AgentConfig {
        vantage: "n1/pod".parse().unwrap(),
        pod: "prober-n1".parse().unwrap(),
        aggregator: format!("http://{aggregator}").parse().unwrap(),
        credential: None,
        aggregator_roots: AggregatorRoots::SameAsProbes,
        role: Role::Prober,
        echo_listen: "127.0.0.1:0".parse().unwrap(),
        resolv_conf: PathBuf::from("/nonexistent/resolv.conf"),
        extra_roots: Vec::new(),
        spool_capacity: SPOOL_CAPACITY,
        facts: parallax_prober::FactSources::default(),
    }
}

/// A running agent.
pub(crate) struct Running {
    pub(crate) echo: SocketAddr,
    pub(crate) incarnation: String,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
}

impl Running {
    pub(crate) async fn start(config: AgentConfig) -> Self {
        Self::among(config, &[]).await
    }

    /// Starts an agent with several aggregators.
    pub(crate) async fn among(config: AgentConfig, others: &[SocketAddr]) -> Self {
        let others = others
            .iter()
            .map(|address| format!("http://{address}").parse().unwrap());
        let agent = Agent::bind(config).await.unwrap();
        let agent = agent.with_replicas(others.collect()).unwrap();
        let (echo, incarnation) = (agent.echo_addr(), agent.incarnation().to_string());
        let cancel = CancellationToken::new();
        let task = tokio::spawn(agent.run(cancel.clone()));
        Self {
            echo,
            incarnation,
            cancel,
            task,
        }
    }

    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }
}

pub(crate) fn tcp(id: &str, addr: SocketAddr, interval: Duration) -> Value {
    json!({"id": id, "target": format!("tcp://{addr}"), "channel": "vip",
           "probe": {"kind": "tcp", "host": addr.ip(), "port": addr.port()}, "dial": {"address": addr},
           "interval_us": u64::try_from(interval.as_micros()).unwrap(), "timeout_us": 2_000_000})
}

pub(crate) const OFTEN: Duration = Duration::from_millis(100);

fn numbers(observations: &[Observation]) -> Vec<u64> {
    observations.iter().map(|o| o.seq.0).collect()
}

#[tokio::test]
async fn a_plan_becomes_observations_once_and_in_order_also_when_the_first_report_is_cut() {
    let target = answering("").await;
    let plan = vec![tcp("a", target.addr, OFTEN), tcp("b", target.addr, OFTEN)];
    let mut aggregator = Aggregator::start(plan, &[InjectedFailure::Cut, InjectedFailure::Status(503)]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let observations = aggregator.observations(40).await;
    let expected: Vec<u64> = (0..observations.len() as u64).collect();
    assert_eq!(numbers(&observations), expected);
    let mishandled = aggregator.failed_reports();
    assert_eq!(mishandled.len(), 2);
    assert_eq!(mishandled[0], mishandled[1], "the same report again");
    for observation in &observations {
        assert_eq!(observation.outcome, Outcome::Ok { status: None });
        assert_eq!(observation.target.as_str(), format!("tcp://{}", target.addr));
        assert!(observation.times.delay.is_some() && observation.started.0 > 0);
    }
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn a_report_says_who_sends_it_when_and_how_far_it_is_complete() {
    let target = answering("").await;
    let mut aggregator = Aggregator::start(vec![tcp("a", target.addr, OFTEN)], &[]).await;
    let token = Some(ProberCredential::Fixed("sesame".into()));
    let agent = Running::start(AgentConfig {
        credential: token,
        ..config(aggregator.addr())
    })
    .await;
    let query = aggregator.plans.recv().await.unwrap();
    let wanted = format!(
        "GET /v1/plan?vantage=n1%2Fpod&incarnation={}&pod=prober-n1&echo_port={} ",
        agent.incarnation,
        agent.echo.port()
    );
    assert!(query.starts_with(&wanted), "{query}");
    assert!(
        query.to_lowercase().contains("authorization: bearer sesame"),
        "{query}"
    );
    let mut seen = 0;
    let mut last_complete = None;
    while seen < 5 {
        let report = aggregator.report().await;
        assert!(
            report
                .head
                .to_lowercase()
                .contains("authorization: bearer sesame")
        );
        let header = report.header;
        assert_eq!(header.incarnation.as_str(), agent.incarnation);
        assert_eq!(header.vantage.to_string(), "n1/pod");
        assert!(header.complete_until <= Some(header.sent_at));
        // No later observation may have started before the declared watermark.
        for observation in &report.observations {
            assert!(
                Some(observation.started) >= last_complete,
                "{observation:?} against {last_complete:?}"
            );
        }
        last_complete = header.complete_until;
        seen += report.observations.len();
    }
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn an_agent_without_assignments_still_reports_that_there_is_nothing() {
    let mut aggregator = Aggregator::start(vec![], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let first = aggregator.report().await;
    let second = aggregator.report().await;
    assert!(first.observations.is_empty() && second.observations.is_empty());
    assert!(second.header.complete_until > first.header.complete_until);
    agent.stop().await;
    aggregator.join().await;
}

#[tokio::test]
async fn a_refused_front_is_reported_with_the_ttl_of_who_refuses() {
    let target = answering("").await;
    let addr = target.addr;
    target.join().await;
    let mut aggregator = Aggregator::start(vec![tcp("a", addr, OFTEN)], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let observation = aggregator.observations(1).await.remove(0);
    assert_eq!(
        observation.outcome,
        Outcome::Failed {
            phase: Phase::Connect,
            kind: FailureKind::Refused,
            status: None
        }
    );
    let ttl = observation
        .ttl
        .expect("this machine answers for its own loopback address");
    assert!(ttl.crossed_no_router(), "{ttl:?}");
    assert_eq!(ttl.address, addr.ip());
    agent.stop().await;
    aggregator.join().await;
}

#[tokio::test]
async fn probing_goes_on_from_the_last_plan_while_there_is_no_plan_stream() {
    let target = answering("").await;
    let mut aggregator = Aggregator::start(vec![tcp("a", target.addr, OFTEN)], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    aggregator.plans.recv().await.unwrap();
    aggregator.observations(1).await;
    aggregator.plan_down(true);
    // The stream was cut, and a new request for it failed.
    aggregator.plans.recv().await.unwrap();
    let on = aggregator.observations(10).await;
    assert!(on.iter().all(|o| o.outcome == Outcome::Ok { status: None }));
    // Once the stream is available again, the agent follows it.
    let other = answering("").await;
    aggregator.plan_down(false);
    aggregator.plan(vec![tcp("b", other.addr, OFTEN)]);
    loop {
        let report = aggregator.report().await;
        if report
            .observations
            .iter()
            .any(|o| o.assignment.as_ref().is_some_and(|id| id.as_str() == "b"))
        {
            break;
        }
    }
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
    other.join().await;
}

#[tokio::test]
async fn a_report_refused_for_good_is_dropped_and_counted() {
    let target = answering("").await;
    let plan = vec![tcp("a", target.addr, OFTEN)];
    let mut aggregator = Aggregator::start(plan, &[InjectedFailure::Status(400)]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let report = loop {
        let report = aggregator.report().await;
        if !report.observations.is_empty() {
            break report;
        }
    };
    let lost = aggregator.failed_reports().remove(0);
    assert_eq!(report.header.dropped, lost.len() as u64);
    assert_eq!(
        report.observations[0].seq.0,
        lost.len() as u64,
        "the sequence numbers continue"
    );
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn stopping_delivers_every_probe_that_was_made() {
    let target = answering("").await;
    let mut aggregator = Aggregator::start(vec![tcp("a", target.addr, OFTEN)], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let before = aggregator.observations(3).await.len();
    agent.stop().await;
    let rest = aggregator.join().await.len();
    assert_eq!(before + rest, target.join().await);
}

#[tokio::test]
async fn a_probe_that_stopping_cuts_off_is_our_own_fault() {
    let silent = Server::start(|mut stream| async move { until_gone(&mut stream).await }).await;
    let mut plan = tcp("a", silent.addr, OFTEN);
    plan["probe"] = json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": 80,
                           "path": "/", "expect_status": "<500"});
    plan["timeout_us"] = json!(20_000_000);
    let mut aggregator = Aggregator::start(vec![plan], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    // The report with an assignment has a watermark in the past: its probe is waiting for the silent server.
    loop {
        let header = aggregator.report().await.header;
        if header.assignments == Some(1) && header.sent_at.0 - header.complete_until.unwrap().0 > 100_000 {
            break;
        }
    }
    agent.stop().await;
    let rest = aggregator.join().await;
    assert_eq!(rest.len(), 1, "one outstanding probe per assignment: {rest:?}");
    assert_eq!(
        rest[0].outcome,
        Outcome::NotProbed {
            fault: OwnFault::Stopping
        }
    );
    assert_eq!(silent.join().await, 1);
}

async fn echo(addr: SocketAddr, nonce: &str, peer: &str) -> parallax_prober::ProbeResult {
    let mut assignment = assignment(
        &json!({"kind": "echo", "nonce": nonce}),
        &json!({"address": addr}),
        AMPLE,
    );
    assignment.peer = Some(peer.parse().unwrap());
    run(&assignment, &context(TlsConfigs::with_roots([]))).await
}

#[tokio::test]
async fn the_echo_tells_a_neighbour_with_the_nonce_who_answered_and_strangers_nothing() {
    let mut aggregator = Aggregator::start(vec![], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    assert_eq!(
        failure(&echo(agent.echo, "secret", "n1").await),
        (Phase::Check, FailureKind::Status),
        "before the first plan there is no nonce"
    );
    // The header contains a number of assignments once the plan, and with it the nonce, has arrived.
    while aggregator.report().await.header.assignments.is_none() {}
    let result = echo(agent.echo, "secret", "n1").await;
    assert_eq!(result.outcome, Outcome::Ok { status: Some(200) });
    let EchoIdentity {
        pod,
        node,
        instance,
        peer,
    } = result.echo.unwrap();
    assert_eq!((pod.as_str(), node.as_str()), ("prober-n1", "n1"));
    assert_eq!(instance, agent.incarnation);
    assert!(peer.ip().is_loopback());
    assert_eq!(result.entry.unwrap().as_str(), "prober-n1");
    let stranger = echo(agent.echo, "guess", "n1").await;
    assert_eq!(
        stranger.outcome,
        Outcome::Failed {
            phase: Phase::Check,
            kind: FailureKind::Status,
            status: Some(404)
        }
    );
    let elsewhere = echo(agent.echo, "secret", "n2").await;
    assert_eq!(failure(&elsewhere), (Phase::Check, FailureKind::WrongBody));
    assert_eq!(
        elsewhere.dst_node.unwrap().as_str(),
        "n1",
        "the wrong one is the finding"
    );
    agent.stop().await;
    aggregator.join().await;
}

#[tokio::test]
async fn the_echo_answers_in_exactly_the_size_that_was_asked_for() {
    let mut aggregator = Aggregator::start(vec![], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    while aggregator.report().await.header.assignments.is_none() {}
    for size in parallax_model::SIZE_SWEEP.into_iter().chain([0, 10]) {
        let probe = json!({"kind": "echo", "nonce": "secret", "size": size});
        let assignment = assignment(&probe, &json!({"address": agent.echo}), AMPLE);
        let result = run(&assignment, &context(TlsConfigs::with_roots([]))).await;
        assert_eq!(result.outcome, Outcome::Ok { status: Some(200) }, "{size}");
        if size >= 1_300 {
            assert_eq!(result.echo.unwrap().pod.as_str(), "prober-n1");
        } else if size <= 10 {
            assert_eq!(result.echo, None, "too few bytes for the identity");
        }
    }
    let probe = json!({"kind": "echo", "nonce": "secret", "size": 300_000});
    let assignment = assignment(&probe, &json!({"address": agent.echo}), AMPLE);
    let result = run(&assignment, &context(TlsConfigs::with_roots([]))).await;
    assert_eq!(
        failure(&result),
        (Phase::Check, FailureKind::Status),
        "the size is bounded"
    );
    agent.stop().await;
    aggregator.join().await;
}

#[tokio::test]
async fn something_else_than_an_echo_is_a_wrong_body() {
    let server = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
    let result = echo(server.addr, "secret", "n1").await;
    assert_eq!(failure(&result), (Phase::Check, FailureKind::WrongBody));
    server.join().await;
}

async fn get(addr: SocketAddr, path: &str, contains: &str) -> parallax_prober::ProbeResult {
    let change = json!({"path": path, "expect_status": "200", "expect_body_contains": contains});
    run(
        &crate::servers::http(addr, &change, AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await
}

/// Whether the agent's metrics contain a line.
pub(crate) async fn metric_is(echo: SocketAddr, line: &str) -> bool {
    get(echo, "/metrics", line).await.outcome == Outcome::Ok { status: Some(200) }
}

#[tokio::test]
async fn health_and_metrics_are_served_beside_the_echo() {
    let target = answering("").await;
    let mut aggregator = Aggregator::start(vec![tcp("a", target.addr, OFTEN)], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    aggregator.observations(1).await;
    for (path, contains) in [
        ("/healthz", "ok"),
        (
            "/metrics",
            "parallax_prober_probes_total{kind=\"dns\",result=\"failed\"} 0",
        ),
        ("/metrics", "parallax_prober_late_seconds_count"),
    ] {
        let result = get(agent.echo, path, contains).await;
        assert_eq!(result.outcome, Outcome::Ok { status: Some(200) }, "{path}");
    }
    let none = get(
        agent.echo,
        "/metrics",
        "parallax_prober_probes_total{kind=\"tcp\",result=\"ok\"} 0",
    )
    .await;
    assert_eq!(
        failure(&none),
        (Phase::Check, FailureKind::WrongBody),
        "it was counted"
    );
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn a_taken_port_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let echo_listen = taken.local_addr().unwrap();
    let config = AgentConfig {
        echo_listen,
        ..config(echo_listen)
    };
    let said = Agent::bind(config).await.unwrap_err().to_string();
    assert!(said.contains(&echo_listen.to_string()), "{said}");
    assert!(said.contains("choose another address"), "{said}");
}

#[tokio::test]
async fn an_aggregator_that_is_no_http_url_is_refused_at_once() {
    let config = AgentConfig {
        aggregator: "ftp://agg".parse().unwrap(),
        ..config("127.0.0.1:1".parse().unwrap())
    };
    let said = Agent::bind(config).await.unwrap_err().to_string();
    assert!(
        said.contains("ftp://agg") && said.contains("http://HOST:PORT"),
        "{said}"
    );
}

#[tokio::test]
async fn a_prober_on_the_host_network_reports_what_its_node_says_of_itself() {
    let tree = tempfile::tempdir().unwrap();
    let folder = tree.path().join("proc/sys/net/netfilter");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("nf_conntrack_count"), "97\n").unwrap();
    std::fs::write(folder.join("nf_conntrack_max"), "100\n").unwrap();
    let mut aggregator = Aggregator::start(Vec::new(), &[]).await;
    let agent = Running::start(AgentConfig {
        vantage: "n1/host".parse().unwrap(),
        facts: parallax_prober::FactSources {
            root: tree.path().to_owned(),
            // Nothing listens there, so the mode stays unknown.
            kube_proxy: "127.0.0.1:1".parse().unwrap(),
        },
        ..config(aggregator.addr())
    })
    .await;
    let facts = loop {
        if let Some(facts) = aggregator.report().await.header.facts {
            break facts;
        }
    };
    assert_eq!(
        facts.conntrack.and_then(parallax_model::Conntrack::percent),
        Some(97)
    );
    assert_eq!((facts.proxy_mode, facts.hairpin), (None, None));
    agent.stop().await;
    aggregator.join().await;
}
