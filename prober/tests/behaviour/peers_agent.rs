//! Regression tests for defects found in other probers that need a whole agent; those of a single probe are in
//! `peers.rs`.

use std::{net::SocketAddr, time::Duration};

use parallax_model::{Channel, FailureKind, Outcome, OwnFault};
use parallax_prober::ProberCredential;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

use crate::{
    agent::{Running, config, tcp},
    counts::{frequent_assignment, get, metrics},
    servers::{Server, aggregator::Aggregator, answering, request, until_gone},
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn named(port: u16) -> Value {
    json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": port, "path": "/",
           "expect_status": "200"})
}

#[tokio::test]
async fn a_token_goes_to_the_aggregator_and_into_no_probe_whatever_its_path_is_called() {
    let (heads, mut seen) = mpsc::unbounded_channel();
    let target = Server::start(move |mut stream| {
        let heads = heads.clone();
        async move {
            heads.send(request(&mut stream).await).unwrap();
            let _ = stream.write_all(OK.as_bytes()).await;
        }
    })
    .await;
    let mut probe = named(80);
    probe["path"] = json!("/version");
    let plan = vec![frequent_assignment(
        "a",
        "http://shop.example.test/version",
        &probe,
        &json!({"address": target.addr}),
    )];
    let mut aggregator = Aggregator::start(plan, &[]).await;
    let mut config = config(aggregator.addr());
    config.credential = Some(ProberCredential::Fixed("sesame".into()));
    let agent = Running::start(config).await;
    aggregator.observations(3).await;
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
    while let Some(head) = seen.recv().await {
        let head = head.to_lowercase();
        assert!(
            !head.contains("authorization") && !head.contains("sesame"),
            "{head}"
        );
    }
}

#[tokio::test]
async fn the_echo_repeats_no_header_of_a_request_and_starts_nothing() {
    let mut aggregator = Aggregator::start(vec![], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    while aggregator.report().await.header.assignments.is_none() {}
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        for path in [
            "/",
            "/healthz",
            "/metrics",
            parallax_model::ECHO_PATH,
            "/v1/runs",
            "/version",
        ] {
            let mut stream = TcpStream::connect(agent.echo).await.unwrap();
            let ask = format!(
                "{method} {path} HTTP/1.1\r\nHost: canary-a\r\nCookie: canary-b\r\nX-Canary-C: canary-d\r\n\
                 {}: secret\r\nConnection: close\r\n\r\n",
                parallax_model::ECHO_NONCE_HEADER
            );
            stream.write_all(ask.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                !answer.to_lowercase().contains("canary"),
                "{method} {path}: {answer}"
            );
            assert!(
                method == "GET" || answer.starts_with("HTTP/1.1 405 "),
                "{method} {path}: {answer}"
            );
        }
    }
    agent.stop().await;
    aggregator.join().await;
}

/// A plan with one healthy target and many that never respond.
fn dead_and_alive(alive: SocketAddr, dead: SocketAddr) -> Vec<Value> {
    let request = |id: &str, addr: SocketAddr| {
        let target = format!("http://{id}.example.test/");
        frequent_assignment(id, &target, &named(80), &json!({"address": addr}))
    };
    let mut plan: Vec<Value> = (0..30).map(|n| request(&format!("dead-{n}"), dead)).collect();
    plan.push(request("alive", alive));
    plan
}

#[tokio::test]
async fn beside_targets_that_never_answer_the_others_are_probed_on_and_the_passed_over_starts_are_counted() {
    let alive = answering(OK).await;
    let dead = Server::start(|mut stream| async move { until_gone(&mut stream).await }).await;
    let mut aggregator = Aggregator::start(dead_and_alive(alive.addr, dead.addr), &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let (mut of_the_living, mut of_the_dead) = (0, 0);
    // A dead target takes its timeout of two seconds, twenty intervals of the healthy one.
    while of_the_dead < 30 || of_the_living < 5 {
        for observation in aggregator.observations(1).await {
            match &observation.outcome {
                Outcome::Ok { .. } => of_the_living += 1,
                Outcome::Failed { kind, .. } => {
                    assert_eq!(*kind, FailureKind::FirstByteTimeout);
                    of_the_dead += 1;
                }
                Outcome::NotProbed { fault } => assert_eq!(*fault, OwnFault::Late),
            }
        }
    }
    // If probes ran sequentially, all thirty would have had a turn before each of these five.
    assert!(of_the_dead < 5 * 30, "{of_the_dead} probes of dead targets");
    assert!(
        get(agent.echo, "/healthz").await.ends_with("ok\n"),
        "the echo responds meanwhile"
    );
    let passed_over = metrics(agent.echo).await["parallax_prober_overrun_total"];
    assert!(
        passed_over > 0,
        "starts during a running probe are counted as overrun"
    );
    agent.stop().await;
    aggregator.join().await;
    alive.join().await;
    dead.join().await;
}

#[tokio::test]
async fn more_starts_than_a_target_may_have_are_refused_with_the_reason_and_counted_as_our_own_doing() {
    let target = answering("").await;
    // One target with forty assignments of ten probes per second: eight times its budget.
    let plan: Vec<Value> = (0..40)
        .map(|n| tcp(&format!("a{n}"), target.addr, Duration::from_millis(100)))
        .collect();
    let mut aggregator = Aggregator::start(plan, &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let throttled = |outcome: &Outcome| {
        *outcome
            == Outcome::NotProbed {
                fault: OwnFault::Throttled,
            }
    };
    let mut observations = aggregator.observations(1).await;
    while !observations.iter().any(|o| throttled(&o.outcome)) {
        observations.extend(aggregator.observations(1).await);
    }
    observations.extend(aggregator.drain().await);
    assert!(
        observations.iter().all(|o| !o.outcome.is_failure()),
        "the target is not blamed"
    );
    let not_asked = observations
        .iter()
        .filter(|o| matches!(o.outcome, Outcome::NotProbed { .. }))
        .count();
    let counted =
        metrics(agent.echo).await["parallax_prober_probes_total{kind=\"tcp\",result=\"not_asked\"}"];
    assert_eq!(counted, not_asked as u64);
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn a_scraper_that_never_reads_holds_up_neither_probes_nor_other_scrapers() {
    let target = answering("").await;
    let plan = vec![tcp("a", target.addr, Duration::from_millis(100))];
    let mut aggregator = Aggregator::start(plan, &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let mut stuck = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(agent.echo).await.unwrap();
        for _ in 0..200 {
            let request = b"GET /metrics HTTP/1.1\r\nHost: echo\r\n\r\n";
            // The prober closes the connection of a stranger after a response, or for a newer one.
            if stream.write_all(request).await.is_err() {
                break;
            }
        }
        stuck.push(stream);
    }
    let before = metrics(agent.echo).await["parallax_prober_probes_total{kind=\"tcp\",result=\"ok\"}"];
    aggregator.observations(5).await;
    let after = metrics(agent.echo).await["parallax_prober_probes_total{kind=\"tcp\",result=\"ok\"}"];
    assert!(after > before || before >= 5, "{before} then {after}");
    assert_eq!(
        metrics(agent.echo).await["parallax_prober_spool_dropped_total"],
        0
    );
    drop(stuck);
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn a_neighbour_that_answers_for_itself_carries_the_channel_of_the_mesh_and_never_a_targets() {
    let mut aggregator = Aggregator::start(vec![], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let mut own = frequent_assignment(
        "mesh|n1",
        "echo://n1",
        &json!({"kind": "echo", "nonce": "secret"}),
        &json!({"address": agent.echo}),
    );
    own["channel"] = json!("mesh");
    own["peer"] = json!("n1");
    aggregator.plan(vec![own]);
    let answer = aggregator.observations(1).await.remove(0);
    assert_eq!(
        (answer.channel, answer.target.as_str()),
        (Channel::Mesh, "echo://n1")
    );
    // The prober itself responded, and the observation says so.
    assert_eq!(answer.dst_node.unwrap().as_str(), "n1");
    assert_eq!(answer.echo.unwrap().instance, agent.incarnation);
    agent.stop().await;
    aggregator.join().await;
}
