//! Failure kind and phase for servers that misbehave in the HTTP exchange or before it.

use std::{sync::Arc, time::Duration};

use crate::servers::{AMPLE, SHORT, Server, answering, context, failure, http, request, reset, until_gone};
use parallax_model::{FailureKind, Outcome, OwnFault, Phase};
use parallax_prober::{ProbeResult, TlsConfigs, run};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn probe(server: &Server, change: Value, timeout: Duration) -> ProbeResult {
    run(
        &http(server.addr, &change, timeout),
        &context(TlsConfigs::with_roots([])),
    )
    .await
}

async fn failure_of(server: Server, timeout: Duration) -> (Phase, FailureKind) {
    let result = probe(&server, json!({}), timeout).await;
    assert_eq!(server.join().await, 1, "one connection per probe");
    failure(&result)
}

#[tokio::test]
async fn a_good_server_is_ok_with_every_phase_timed() {
    let server = answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
    let result = probe(&server, json!({"expect_body_contains": "ell"}), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: Some(200) });
    let times = result.times;
    assert!(times.connect.is_some() && times.kernel_rtt.is_some() && times.first_byte.is_some());
    assert!(times.body.is_some() && times.tls.is_none() && times.resolve.is_none());
    assert_eq!(times.syn_retransmits, Some(0));
    let parts = [times.connect, times.first_byte, times.body].map(|t| t.unwrap().0);
    assert!(parts.iter().sum::<u64>() <= times.total.unwrap().0, "{times:?}");
    server.join().await;
}

#[tokio::test]
async fn the_request_names_host_and_prober_and_asks_to_close() {
    let seen = Arc::new(Mutex::new(String::new()));
    let server = Server::start({
        let seen = Arc::clone(&seen);
        move |mut stream| {
            let seen = Arc::clone(&seen);
            async move {
                *seen.lock() = request(&mut stream).await.to_lowercase();
                stream
                    .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                    .await
                    .unwrap();
            }
        }
    })
    .await;
    probe(&server, json!({"path": "/a?b=c", "port": 8080}), AMPLE).await;
    server.join().await;
    let seen = seen.lock();
    assert!(seen.starts_with("get /a?b=c http/1.1\r\n"), "{seen}");
    for line in [
        "host: shop.example.test:8080\r\n",
        "user-agent: parallax/",
        "connection: close\r\n",
    ] {
        assert!(seen.contains(line), "{line} in {seen}");
    }
}

#[tokio::test]
async fn a_closed_port_is_refused_in_connect() {
    let server = answering("").await;
    let addr = server.addr;
    server.join().await;
    let result = run(
        &http(addr, &json!({}), AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(failure(&result), (Phase::Connect, FailureKind::Refused));
    assert_eq!(result.front.unwrap().address, addr);
    assert_eq!(result.times.kernel_rtt, None, "there was no handshake to time");
}

#[tokio::test]
async fn a_server_that_takes_no_syn_is_a_connect_timeout_that_counts_the_repeated_syns() {
    // A listener with a full accept queue drops further SYNs, like a black hole.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let addr = listener.local_addr().unwrap().as_socket().unwrap();
    let _filling = TcpStream::connect(addr).await.unwrap();
    // Linux retransmits a SYN after one second.
    let timeout = Duration::from_millis(1500);
    let result = run(
        &http(addr, &json!({}), timeout),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(failure(&result), (Phase::Connect, FailureKind::ConnectTimeout));
    assert!(result.times.syn_retransmits >= Some(1), "{:?}", result.times);
}

#[tokio::test]
async fn a_reset_before_the_first_byte_is_a_reset() {
    let server = Server::start(|mut stream| async move {
        request(&mut stream).await;
        reset(stream);
    })
    .await;
    assert_eq!(
        failure_of(server, AMPLE).await,
        (Phase::FirstByte, FailureKind::Reset)
    );
}

#[tokio::test]
async fn a_reset_right_after_accept_is_a_reset_whether_or_not_the_request_had_gone() {
    let server = Server::start(|stream| async move { reset(stream) }).await;
    let (phase, kind) = failure_of(server, AMPLE).await;
    assert_eq!(kind, FailureKind::Reset);
    assert!(matches!(phase, Phase::Request | Phase::FirstByte), "{phase}");
}

#[tokio::test]
async fn a_server_that_accepts_and_stays_silent_is_a_first_byte_timeout() {
    let server = Server::start(|mut stream| async move { until_gone(&mut stream).await }).await;
    assert_eq!(
        failure_of(server, SHORT).await,
        (Phase::FirstByte, FailureKind::FirstByteTimeout)
    );
}

#[tokio::test]
async fn a_server_that_closes_without_an_answer_is_an_eof() {
    assert_eq!(
        failure_of(answering("").await, AMPLE).await,
        (Phase::FirstByte, FailureKind::Eof)
    );
}

#[tokio::test]
async fn a_server_that_closes_only_its_half_is_an_eof() {
    let server = Server::start(|mut stream| async move {
        request(&mut stream).await;
        stream.shutdown().await.unwrap();
        until_gone(&mut stream).await;
    })
    .await;
    assert_eq!(
        failure_of(server, AMPLE).await,
        (Phase::FirstByte, FailureKind::Eof)
    );
}

/// A server that sends these bytes and then waits until the prober closes the connection.
async fn stalling(answer: &'static str) -> Server {
    Server::start(move |mut stream| async move {
        request(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        until_gone(&mut stream).await;
    })
    .await
}

#[tokio::test]
async fn a_head_that_stops_in_its_middle_is_a_stalled_answer() {
    let server = stalling("HTTP/1.1 200 OK\r\nContent-").await;
    assert_eq!(
        failure_of(server, SHORT).await,
        (Phase::Body, FailureKind::BodyStalled)
    );
}

#[tokio::test]
async fn a_body_that_stops_in_its_middle_is_stalled_and_keeps_its_status() {
    let server = stalling("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes!").await;
    let result = probe(&server, json!({}), SHORT).await;
    assert_eq!(
        result.outcome,
        Outcome::Failed {
            phase: Phase::Body,
            kind: FailureKind::BodyStalled,
            status: Some(200)
        }
    );
    server.join().await;
}

#[tokio::test]
async fn a_body_that_drips_past_the_deadline_is_stalled() {
    let server = Server::start(|mut stream| async move {
        request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            .await
            .unwrap();
        let mut drops = tokio::time::interval(Duration::from_millis(5));
        while stream.write_all(b".").await.is_ok() {
            drops.tick().await;
        }
    })
    .await;
    assert_eq!(
        failure_of(server, SHORT).await,
        (Phase::Body, FailureKind::BodyStalled)
    );
}

#[tokio::test]
async fn a_body_that_drips_and_ends_in_time_is_ok() {
    let server = Server::start(|mut stream| async move {
        request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
            .await
            .unwrap();
        for byte in b"drips" {
            stream.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    })
    .await;
    let result = probe(&server, json!({"expect_body_contains": "drips"}), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: Some(200) });
    server.join().await;
}

#[tokio::test]
async fn a_body_shorter_than_announced_is_cut() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes!",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nten by",
        "HTTP/1.1 200 OK\r\nContent-",
    ] {
        assert_eq!(
            failure_of(answering(answer).await, AMPLE).await,
            (Phase::Body, FailureKind::BodyCut),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_reset_in_the_body_is_a_cut_body() {
    let server = Server::start(|mut stream| async move {
        request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes!")
            .await
            .unwrap();
        reset(stream);
    })
    .await;
    // A reset discards unsent bytes, so it may also arrive before the first byte.
    let (phase, kind) = failure_of(server, AMPLE).await;
    assert!(
        matches!(
            (phase, &kind),
            (Phase::Body, FailureKind::BodyCut) | (Phase::FirstByte, FailureKind::Reset)
        ),
        "{phase} {kind}"
    );
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_malformed() {
    for answer in [
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
    ] {
        assert_eq!(
            failure_of(answering(answer).await, AMPLE).await,
            (Phase::FirstByte, FailureKind::Malformed),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn an_unexpected_status_fails_the_check_and_a_default_one_does_not() {
    for (status, expected, holds) in [(404, "<500", true), (503, "<500", false), (404, "200-299", false)] {
        let server = answering(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")).await;
        let result = probe(&server, json!({"expect_status": expected}), AMPLE).await;
        let wanted = if holds {
            Outcome::Ok { status: Some(status) }
        } else {
            Outcome::Failed {
                phase: Phase::Check,
                kind: FailureKind::Status,
                status: Some(status),
            }
        };
        assert_eq!(result.outcome, wanted, "{status} against {expected}");
        server.join().await;
    }
}

#[tokio::test]
async fn a_redirect_is_a_status_and_is_not_followed() {
    let server = answering("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n").await;
    let result = probe(&server, json!({}), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: Some(302) });
    assert_eq!(server.join().await, 1);
}

#[tokio::test]
async fn other_content_than_expected_is_a_wrong_body() {
    let server = answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
    let result = probe(&server, json!({"expect_body_contains": "goodbye"}), AMPLE).await;
    assert_eq!(failure(&result), (Phase::Check, FailureKind::WrongBody));
    server.join().await;
}

#[tokio::test]
async fn an_endless_body_is_read_only_up_to_a_bound() {
    let server = Server::start(|mut stream| async move {
        request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let block = vec![b'x'; 64 * 1024];
        // Ends only because the prober closes the connection.
        while stream.write_all(&block).await.is_ok() {}
    })
    .await;
    let result = probe(&server, json!({}), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: Some(200) });
    server.join().await;
}

#[tokio::test]
async fn a_backend_that_names_its_pod_is_recorded_as_the_entry() {
    let server = answering("HTTP/1.1 200 OK\r\nParallax-Pod: shop-7f9\r\nContent-Length: 0\r\n\r\n").await;
    let result = probe(&server, json!({}), AMPLE).await;
    assert_eq!(result.entry.unwrap().as_str(), "shop-7f9");
    server.join().await;
}

#[tokio::test]
async fn a_dropped_probe_closes_its_connection() {
    let (gone, closed) = tokio::sync::oneshot::channel();
    let gone = Arc::new(Mutex::new(Some(gone)));
    let (arrived, arrival) = tokio::sync::oneshot::channel();
    let arrived = Arc::new(Mutex::new(Some(arrived)));
    let server = Server::start(move |mut stream| {
        let (gone, arrived) = (gone.lock().take(), arrived.lock().take());
        async move {
            request(&mut stream).await;
            arrived.unwrap().send(()).unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
            gone.unwrap().send(()).unwrap();
        }
    })
    .await;
    let context = context(TlsConfigs::with_roots([]));
    let assignment = http(server.addr, &json!({}), AMPLE);
    tokio::select! {
        result = run(&assignment, &context) => panic!("the server never answers: {result:?}"),
        arrived = arrival => arrived.unwrap(),
    }
    closed.await.unwrap();
    server.join().await;
}

#[tokio::test]
async fn a_tcp_probe_only_connects() {
    let server = Server::start(|mut stream| async move {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert!(bytes.is_empty(), "a TCP probe sends nothing");
    })
    .await;
    let probe = json!({"kind": "tcp", "host": "127.0.0.1", "port": server.addr.port()});
    let assignment = crate::servers::assignment(&probe, &json!("resolve"), AMPLE);
    let result = run(&assignment, &context(TlsConfigs::with_roots([]))).await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
    assert_eq!(result.front.unwrap().address, server.addr);
    assert_eq!(result.dns, None, "a literal address is not resolved");
    server.join().await;
}

#[tokio::test]
async fn a_host_that_cannot_be_asked_for_is_our_own_fault() {
    let server = answering("").await;
    let result = probe(&server, json!({"path": "/a b"}), AMPLE).await;
    assert_eq!(
        result.outcome,
        Outcome::NotProbed {
            fault: OwnFault::InvalidAssignment
        }
    );
    assert_eq!(server.join().await, 0);
}
