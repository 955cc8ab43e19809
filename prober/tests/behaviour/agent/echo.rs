//! The echo of a prober.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::*;

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
async fn the_echo_identifies_itself_only_to_a_peer_with_the_nonce() {
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
    let wrong_secret = echo(agent.echo, "guess", "n1").await;
    assert_eq!(
        wrong_secret.outcome,
        Outcome::Failed {
            phase: Phase::Check,
            kind: FailureKind::Status,
            status: Some(404)
        }
    );
    let other_node = echo(agent.echo, "secret", "n2").await;
    assert_eq!(failure(&other_node), (Phase::Check, FailureKind::WrongBody));
    assert_eq!(
        other_node.dst_node.unwrap().as_str(),
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

/// Sends a request on a connection of its own and returns the response. Strangers get `connection: close`.
async fn get(echo: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(echo).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// Idle connections of one address and of many, more than the echo serves at a time.
#[tokio::test]
async fn idle_connections_stop_neither_health_nor_metrics_nor_the_echo_of_a_peer() {
    let mut aggregator = Aggregator::start(vec![], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    while aggregator.report().await.header.assignments.is_none() {}
    let one = std::iter::repeat_n([127, 0, 0, 2], 256);
    let many = (0..=255).map(|n| [127, 0, 1, n]);
    let mut idle = Vec::new();
    for source in one.chain(many) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((source, 0))).unwrap();
        idle.push(socket.connect(agent.echo).await.unwrap());
    }
    assert!(get(agent.echo, "/healthz").await.ends_with("ok\n"));
    assert!(get(agent.echo, "/metrics").await.contains("parallax_prober_"));
    let result = echo(agent.echo, "secret", "n1").await;
    assert_eq!(result.outcome, Outcome::Ok { status: Some(200) });
    // The first ones made room.
    assert_eq!(idle[0].read(&mut [0]).await.unwrap_or(0), 0);
    agent.stop().await;
    aggregator.join().await;
}
