//! Counting: each probe counts once, with one result, in the reports and in the metrics.

use std::{collections::BTreeMap, io::Write, net::SocketAddr};

use hickory_proto::rr::RecordType;
use parallax_model::{FailureKind, Observation, Outcome, OwnFault, Phase};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    agent::{OFTEN, Running, config},
    servers::{
        Server,
        aggregator::Aggregator,
        answering,
        dns::{Dns, DnsScript},
        request,
    },
};

/// An assignment with ten probes per second.
pub(crate) fn frequent_assignment(id: &str, target: &str, probe: &Value, dial: &Value) -> Value {
    json!({"id": id, "target": target, "channel": "direct", "probe": probe, "dial": dial,
           "interval_us": u64::try_from(OFTEN.as_micros()).unwrap(), "timeout_us": 2_000_000})
}

/// Requests a path from the agent's echo server.
pub(crate) async fn get(echo: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(echo).await.unwrap();
    let ask = format!("GET {path} HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Every series of `/metrics` with an integer value.
pub(crate) async fn metrics(echo: SocketAddr) -> BTreeMap<String, u64> {
    let series = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    get(echo, "/metrics").await.lines().filter_map(series).collect()
}

fn probes(metrics: &BTreeMap<String, u64>, result: &str) -> u64 {
    let suffix = format!("result=\"{result}\"}}");
    metrics
        .iter()
        .filter(|(name, _)| name.starts_with("parallax_prober_probes_total{") && name.ends_with(&suffix))
        .map(|(_, value)| value)
        .sum()
}

/// Asserts that reports and metrics agree: each attempt is a success, a failure or a fault of the prober.
#[track_caller]
fn assert_reports_match_metrics(observations: &[Observation], metrics: &BTreeMap<String, u64>) {
    let count = |of: fn(&Outcome) -> bool| observations.iter().filter(|o| of(&o.outcome)).count() as u64;
    let [ok, failed, not_asked] = ["ok", "failed", "not_asked"].map(|result| probes(metrics, result));
    assert_eq!(ok, count(|o| matches!(o, Outcome::Ok { .. })), "successes");
    assert_eq!(failed, count(Outcome::is_failure), "failures");
    assert_eq!(
        not_asked,
        count(|o| matches!(o, Outcome::NotProbed { .. })),
        "faults of the prober"
    );
    assert_eq!(ok + failed + not_asked, observations.len() as u64, "attempts");
    let numbers: Vec<u64> = observations.iter().map(|o| o.seq.0).collect();
    let expected: Vec<u64> = (0..observations.len() as u64).collect();
    assert_eq!(numbers, expected, "each once");
}

#[tokio::test]
async fn two_thousand_refused_probes_are_two_thousand_failures_in_the_reports_and_in_the_metrics() {
    let closed = answering("").await;
    let addr = closed.addr;
    closed.join().await;
    let http = json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": 80, "path": "/",
                      "expect_status": "<500"});
    // Separate targets, because the budget of a single one would be used up.
    let plan = (0..40)
        .map(|n| {
            frequent_assignment(
                &format!("a{n}"),
                &format!("http://shop-{n}.example.test/"),
                &http,
                &json!({"address": addr}),
            )
        })
        .collect();
    let mut aggregator = Aggregator::start(plan, &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let mut observations = Vec::new();
    let probed = |o: &&Observation| !matches!(o.outcome, Outcome::NotProbed { .. });
    while observations.iter().filter(probed).count() < 2000 {
        observations.extend(aggregator.observations(1).await);
    }
    observations.extend(aggregator.drain().await);
    for observation in observations.iter().filter(probed) {
        assert_eq!(
            observation.outcome,
            Outcome::Failed {
                phase: Phase::Connect,
                kind: FailureKind::Refused,
                status: None
            }
        );
    }
    assert_reports_match_metrics(&observations, &metrics(agent.echo).await);
    agent.stop().await;
    aggregator.join().await;
}

/// A server that redirects `/` to `/end` and responds there.
async fn redirecting() -> Server {
    Server::start(|mut stream| async move {
        let answer = if request(&mut stream).await.starts_with("GET /end ") {
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        } else {
            "HTTP/1.1 301 Moved\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n"
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await
}

#[tokio::test]
async fn a_healthy_redirect_and_a_healthy_name_with_a_dead_ipv6_address_count_no_failure_and_the_dead_address_its_own()
 {
    let server = redirecting().await;
    let dns = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Addresses(&["::1"]),
    })
    .await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "nameserver [127.0.0.1]:{}", dns.addr.port()).unwrap();
    let port = server.addr.port();
    let probe = json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": port, "path": "/",
                       "expect_status": "200", "redirects": {"max": 1}});
    let target = format!("http://shop.example.test:{port}/");
    let forced = |ip: &str| json!({"address": SocketAddr::new(ip.parse().unwrap(), port)});
    let mut plan = vec![
        frequent_assignment("redirect", &target, &probe, &forced("127.0.0.1")),
        frequent_assignment("name", &target, &probe, &json!("resolve")),
    ];
    let mut aggregator = Aggregator::start(plan.clone(), &[]).await;
    let mut config = config(aggregator.addr());
    config.resolv_conf = file.path().to_owned();
    let agent = Running::start(config).await;
    let mut observations = aggregator.observations(20).await;
    assert!(
        observations.iter().all(|o| !o.outcome.is_failure()),
        "{observations:?}"
    );
    assert_eq!(probes(&metrics(agent.echo).await, "failed"), 0);
    // The dead address as a separate assignment: only that one fails.
    plan.push(frequent_assignment("aaaa", &target, &probe, &forced("::1")));
    aggregator.plan(plan);
    while !observations.iter().any(|o| o.outcome.is_failure()) {
        observations.extend(aggregator.observations(1).await);
    }
    observations.extend(aggregator.drain().await);
    for failed in observations.iter().filter(|o| o.outcome.is_failure()) {
        assert_eq!(failed.assignment.as_ref().unwrap().as_str(), "aaaa");
        assert!(
            failed.front.unwrap().address.is_ipv6(),
            "the dead address is named"
        );
        assert!(
            matches!(
                failed.outcome,
                Outcome::Failed {
                    phase: Phase::Connect,
                    kind: FailureKind::Refused,
                    ..
                }
            ),
            "{failed:?}"
        );
    }
    assert_reports_match_metrics(&observations, &metrics(agent.echo).await);
    agent.stop().await;
    aggregator.join().await;
    server.join().await;
    dns.join().await;
}

#[tokio::test]
async fn a_probe_the_prober_cannot_make_is_counted_as_its_own_fault_and_never_passed_over() {
    let probe = json!({"kind": "dns", "name": "shop.example.test", "record": "A"});
    let plan = vec![frequent_assignment(
        "a",
        "dns://shop.example.test",
        &probe,
        &json!("resolve"),
    )];
    let mut aggregator = Aggregator::start(plan, &[]).await;
    // The agent's resolv.conf does not exist.
    let agent = Running::start(config(aggregator.addr())).await;
    let mut observations = aggregator.observations(5).await;
    observations.extend(aggregator.drain().await);
    for observation in &observations {
        assert!(
            matches!(
                observation.outcome,
                Outcome::NotProbed {
                    fault: OwnFault::NoResolver | OwnFault::Late
                }
            ),
            "{observation:?}"
        );
    }
    assert_reports_match_metrics(&observations, &metrics(agent.echo).await);
    agent.stop().await;
    aggregator.join().await;
}
