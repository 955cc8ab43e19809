//! Probes other than a plain GET: send and expect over TCP, PROXY headers, kept connections, DNS over TCP.

use std::{io::Write, net::SocketAddr, time::Duration};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{ProbeContext, ProbeResult, ResolverChoice, TlsConfigs, resolve_all, run};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::servers::{
    AMPLE, SHORT, Server, answering, assignment, context,
    dns::{Dns, DnsScript},
    failure, http, request,
    tls::{Ca, VALID, https},
    until_gone,
};

async fn tcp(addr: SocketAddr, change: &Value, tls: TlsConfigs, timeout: Duration) -> ProbeResult {
    let mut probe = json!({"kind": "tcp", "host": "db.example.test", "port": 1});
    for (key, value) in change.as_object().unwrap() {
        probe[key] = value.clone();
    }
    run(
        &assignment(&probe, &json!({"address": addr}), timeout),
        &context(tls),
    )
    .await
}

/// A server that responds to one line with another.
async fn talking(answer: &'static [u8]) -> Server {
    Server::start(move |stream| async move {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert_eq!(line, "PING\r\n");
        stream.write_all(answer).await.unwrap();
        let _ = stream.read(&mut [0]).await;
    })
    .await
}

#[tokio::test]
async fn a_conversation_is_a_success_when_the_expected_bytes_come() {
    let server = talking(b"\0+PONG\r\n").await;
    let change = json!({"send": r"PING\r\n", "expect": r"\x00+PONG"});
    let result = tcp(server.addr, &change, TlsConfigs::with_roots([]), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
    assert!(result.times.first_byte.is_some());
    server.join().await;
}

#[tokio::test]
async fn other_bytes_silence_and_a_closed_connection_are_told_apart() {
    let change = json!({"send": r"PING\r\n", "expect": "PONG"});
    let server = talking(b"-ERR\r\n").await;
    let result = tcp(server.addr, &change, TlsConfigs::with_roots([]), SHORT).await;
    assert_eq!(failure(&result), (Phase::Check, FailureKind::WrongBody));
    server.join().await;
    let server = Server::start(|mut stream| async move { until_gone(&mut stream).await }).await;
    let result = tcp(server.addr, &change, TlsConfigs::with_roots([]), SHORT).await;
    assert_eq!(
        failure(&result),
        (Phase::FirstByte, FailureKind::FirstByteTimeout)
    );
    server.join().await;
    let server = Server::start(|mut stream| async move { drop(stream.read(&mut [0; 64]).await) }).await;
    let result = tcp(server.addr, &change, TlsConfigs::with_roots([]), AMPLE).await;
    assert_eq!(failure(&result), (Phase::FirstByte, FailureKind::Eof));
    server.join().await;
    let flood =
        Server::start(|mut stream| async move { while stream.write_all(&[b'x'; 4096]).await.is_ok() {} })
            .await;
    let result = tcp(flood.addr, &change, TlsConfigs::with_roots([]), AMPLE).await;
    assert_eq!(
        failure(&result),
        (Phase::Check, FailureKind::WrongBody),
        "reading is bounded"
    );
    flood.join().await;
}

#[tokio::test]
async fn a_tls_port_is_probed_with_its_certificate_and_its_own_server_name() {
    let ca = Ca::new();
    for (name, kind) in [
        ("db.example.test", None),
        ("other.example.test", Some(FailureKind::CertificateWrongName)),
    ] {
        let server = https(ca.server(name, VALID), "").await;
        let result = tcp(server.addr, &json!({"tls": true}), ca.trusted(), AMPLE).await;
        match kind {
            None => assert_eq!(
                result.outcome,
                Outcome::Ok { status: None },
                "{:?}",
                result.detail
            ),
            Some(kind) => assert_eq!(failure(&result), (Phase::Tls, kind)),
        }
        assert_eq!(result.tls.unwrap().server_name, "db.example.test");
        server.join().await;
    }
}

#[tokio::test]
async fn a_port_that_must_not_be_open_fails_when_it_is() {
    let server = answering("").await;
    let change = json!({"must_not_answer": "refused,timeout"});
    let result = tcp(server.addr, &change, TlsConfigs::with_roots([]), AMPLE).await;
    assert_eq!(
        failure(&result),
        (Phase::Check, FailureKind::AnsweredThoughForbidden)
    );
    let addr = server.addr;
    server.join().await;
    let result = tcp(addr, &change, TlsConfigs::with_roots([]), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
}

#[tokio::test]
async fn the_proxied_channel_announces_its_own_addresses_before_the_first_byte() {
    for (change, line) in [
        (json!({}), "PROXY TCP4 127.0.0.1 127.0.0.1 "),
        (json!({"proxy_header": "unknown"}), "PROXY UNKNOWN\r\n"),
    ] {
        let server = Server::start(move |stream| async move {
            let peer = stream.peer_addr().unwrap();
            let mut stream = BufReader::new(stream);
            let mut first = String::new();
            stream.read_line(&mut first).await.unwrap();
            assert!(first.starts_with(line), "{first}");
            if line.contains("TCP4") {
                assert!(first.contains(&format!(" {} ", peer.port())), "{first}");
            }
            assert!(request(&mut stream).await.starts_with("GET / "));
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                .await
                .unwrap();
        })
        .await;
        let mut assignment = http(server.addr, &change, AMPLE);
        assignment.channel = parallax_model::Channel::Proxied;
        let result = run(&assignment, &context(TlsConfigs::with_roots([]))).await;
        assert_eq!(
            result.outcome,
            Outcome::Ok { status: Some(204) },
            "{:?}",
            result.detail
        );
        assert!(result.times.proxy_header.is_some());
        server.join().await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_expect_a_proxy_header_shows_what_it_makes_of_it() {
    let server = answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    let change = json!({"proxy_header": "tcp", "expect_status": "200"});
    let result = run(
        &http(server.addr, &change, AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(failure(&result), (Phase::Check, FailureKind::Status));
    server.join().await;
}

#[tokio::test]
async fn a_kept_connection_is_asked_twice_and_the_second_answer_timed_on_its_own() {
    let server = Server::start(|mut stream| async move {
        for connection in ["keep-alive", "close"] {
            let head = request(&mut stream).await.to_lowercase();
            assert_eq!(
                head.contains("connection: close"),
                connection == "close",
                "{head}"
            );
            let answer =
                format!("HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: 2\r\n\r\nok");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let result = run(
        &http(server.addr, &json!({"keep_alive": true}), AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
    let times = result.times;
    assert!(times.second_request.is_some() && times.first_byte.is_some() && times.body.is_some());
    assert_eq!(server.join().await, 1, "one connection");
}

#[tokio::test]
async fn a_server_that_closes_behind_its_first_answer_fails_the_second_request_and_not_a_fresh_probe() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let server = answering(answer).await;
    let result = run(
        &http(server.addr, &json!({"keep_alive": true}), AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(
        failure(&result),
        (Phase::Request, FailureKind::Eof),
        "{:?}",
        result.detail
    );
    let result = run(
        &http(server.addr, &json!({}), AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(result.outcome, Outcome::Ok { status: Some(200) });
    assert_eq!(result.times.second_request, None);
    server.join().await;
}

#[tokio::test]
async fn a_question_travels_over_tcp_at_once_where_asked_for() {
    let dns = Dns::start(|_| DnsScript::Addresses(&["203.0.113.10"])).await;
    let probe =
        json!({"kind": "dns", "name": "shop.test", "record": "A", "resolver": dns.addr, "transport": "tcp"});
    let result = run(
        &assignment(&probe, &json!("resolve"), AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
    assert!(result.dns.unwrap().tcp);
    assert_eq!(*dns.queries.lock(), ["shop.test tcp"]);
    dns.join().await;
}

#[tokio::test]
async fn the_same_short_name_fails_in_musl_and_not_in_glibc_behind_a_servfail() {
    let dns = Dns::start(|query| match query.name().to_ascii().as_str() {
        "cart.svc.test." => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::ServFail),
    })
    .await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(
        file,
        "nameserver [127.0.0.1]:{}\nsearch shop.test svc.test\noptions ndots:5 attempts:1\n",
        dns.addr.port()
    )
    .unwrap();
    let context = ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([]));
    let server = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let port = server.addr.port();
    for mut probe in [
        json!({"kind": "dns", "name": "cart", "record": "A"}),
        json!({"kind": "tcp", "host": "cart", "port": port}),
        json!({"kind": "http", "scheme": "http", "host": "cart", "port": port, "path": "/", "expect_status": "200"}),
    ] {
        for (search, kind) in [("glibc", None), ("musl", Some(FailureKind::ServFail))] {
            probe["search"] = json!(search);
            let result = run(&assignment(&probe, &json!("resolve"), AMPLE), &context).await;
            match kind {
                None => assert!(
                    matches!(result.outcome, Outcome::Ok { .. }),
                    "{probe}: {result:?}"
                ),
                Some(kind) => assert_eq!(failure(&result), (Phase::Resolve, kind), "{probe}"),
            }
        }
    }
    server.join().await;
    dns.join().await;
}

#[tokio::test]
async fn a_healthy_host_with_a_dead_ipv6_address_counts_no_failure_and_the_dead_address_is_its_own_finding() {
    let server = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let dns = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Addresses(&["::1"]),
    })
    .await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "nameserver [127.0.0.1]:{}", dns.addr.port()).unwrap();
    let context = ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([]));
    let found = resolve_all(
        &context,
        "shop.example.test",
        &ResolverChoice::Machine,
        parallax_model::SearchManner::Glibc,
        AMPLE,
    )
    .await;
    let mut outcomes = Vec::new();
    for found in found.addresses {
        let address = SocketAddr::new(found.address, server.addr.port());
        let result = run(&http(address, &json!({}), AMPLE), &context).await;
        outcomes.push((found.address.is_ipv4(), result.outcome));
    }
    assert_eq!(outcomes[0], (true, Outcome::Ok { status: Some(200) }));
    assert!(
        matches!(
            &outcomes[1],
            (
                false,
                Outcome::Failed {
                    phase: Phase::Connect,
                    kind: FailureKind::Refused,
                    ..
                }
            )
        ),
        "{outcomes:?}"
    );
    let probe = json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": server.addr.port(),
                       "path": "/", "expect_status": "200"});
    let result = run(&assignment(&probe, &json!("resolve"), AMPLE), &context).await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "the name itself is healthy"
    );
    server.join().await;
    dns.join().await;
}
