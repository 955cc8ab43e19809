//! The agent with an aggregator in the same process.

mod echo;
mod reports;

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
        credentials: Vec::new(),
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
        ("/readyz", "ok"),
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
async fn a_prober_without_a_plan_is_alive_but_not_ready() {
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
    let agent = Running::start(config(refusing.local_addr().unwrap())).await;
    let alive = get(agent.echo, "/healthz", "ok").await;
    assert_eq!(alive.outcome, Outcome::Ok { status: Some(200) });
    let ready = get(agent.echo, "/readyz", "ok").await;
    assert_eq!(failure(&ready), (Phase::Check, FailureKind::Status));
    agent.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let echo_listen = taken.local_addr().unwrap();
    let config = AgentConfig {
        echo_listen,
        ..config(echo_listen)
    };
    let error = Agent::bind(config).await.unwrap_err().to_string();
    assert!(error.contains(&echo_listen.to_string()), "{error}");
    assert!(error.contains("choose another address"), "{error}");
}

#[tokio::test]
async fn an_aggregator_that_is_no_http_url_is_refused_at_once() {
    let config = AgentConfig {
        aggregator: "ftp://agg".parse().unwrap(),
        ..config("127.0.0.1:1".parse().unwrap())
    };
    let error = Agent::bind(config).await.unwrap_err().to_string();
    assert!(
        error.contains("ftp://agg") && error.contains("http://HOST:PORT"),
        "{error}"
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
