//! Regression tests for defects found in other probers. The table in `docs/contributing/testing.md` lists them.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{ProbeContext, TlsConfigs, run};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    phases::assert_phase_invariants,
    servers::{
        AMPLE, SHORT, Server, answering, assignment, context,
        dns::{Dns, DnsScript},
        failure, http, request,
        tls::{Ca, VALID, https},
        until_gone,
    },
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A context that queries this server.
fn machine(dns: &Dns, rest: &str) -> (ProbeContext, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "nameserver [127.0.0.1]:{}\n{rest}", dns.addr.port()).unwrap();
    let context = ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([]));
    (context, file)
}

fn named(port: u16) -> Value {
    json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": port, "path": "/",
           "expect_status": "200"})
}

#[tokio::test]
async fn whatever_its_kind_a_probe_of_a_peer_that_accepts_and_is_silent_ends_with_its_deadline() {
    use FailureKind as K;
    use Phase as P;
    let silent = Server::start(|mut stream| async move { until_gone(&mut stream).await }).await;
    let dns = Dns::start(|_| DnsScript::Nothing).await;
    let https = json!({"scheme": "https", "port": 443});
    let over_two = json!({"scheme": "https", "port": 443, "version": "2"});
    let request = |change: &Value| http(silent.addr, change, SHORT);
    let dialled = |probe: Value| assignment(&probe, &json!({"address": silent.addr}), SHORT);
    let resolved = |probe: Value| assignment(&probe, &json!("resolve"), SHORT);
    let first_byte = (P::FirstByte, K::FirstByteTimeout);
    for (assignment, expected) in [
        (request(&json!({})), first_byte.clone()),
        (request(&json!({"keep_alive": true})), first_byte.clone()),
        (request(&json!({"proxy_header": "tcp"})), first_byte.clone()),
        (request(&https), (P::Tls, K::TlsTimeout)),
        (request(&over_two), (P::Tls, K::TlsTimeout)),
        (
            dialled(json!({"kind": "tcp", "host": "db", "port": 1, "expect": "x"})),
            first_byte.clone(),
        ),
        (
            dialled(json!({"kind": "tcp", "host": "db", "port": 1, "tls": true})),
            (P::Tls, K::TlsTimeout),
        ),
        (dialled(json!({"kind": "echo", "nonce": "n"})), first_byte),
        (
            resolved(json!({"kind": "dns", "name": "a.test", "record": "A", "resolver": dns.addr})),
            (P::Resolve, K::ResolveTimeout),
        ),
        (
            resolved(
                json!({"kind": "dns", "name": "a.test", "record": "A", "resolver": silent.addr, "transport": "tcp"}),
            ),
            (P::Resolve, K::ResolveTimeout),
        ),
    ] {
        let result = run(&assignment, &context(Ca::new().trusted())).await;
        assert_eq!(failure(&result), expected, "{:?}", assignment.probe);
        assert_phase_invariants(&result);
        let times = result.times;
        let before: u64 = Phase::ALL
            .iter()
            .filter(|phase| **phase < expected.0)
            .filter_map(|phase| times.get(*phase))
            .map(|time| time.0)
            .sum();
        // The phase takes the time that earlier phases left, up to the resolution of the timer of one millisecond.
        let waited = times.get(expected.0).unwrap().0 + before + 1_000;
        assert!(waited >= u64::try_from(SHORT.as_micros()).unwrap(), "{times:?}");
    }
    silent.join().await;
    dns.join().await;
}

#[tokio::test]
async fn one_lost_question_is_asked_again_and_is_no_failure_of_the_target() {
    let server = answering(OK).await;
    let queries = Arc::new(AtomicUsize::new(0));
    let dns = Dns::start(move |query| match query.query_type() {
        RecordType::A if queries.fetch_add(1, Ordering::Relaxed) == 0 => DnsScript::Nothing,
        RecordType::A => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::NoError),
    })
    .await;
    let (context, _file) = machine(&dns, "options timeout:1 attempts:2");
    let result = run(
        &assignment(&named(server.addr.port()), &json!("resolve"), AMPLE),
        &context,
    )
    .await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
    server.join().await;
    dns.join().await;
}

#[tokio::test]
async fn a_name_with_ipv6_only_is_probed_there_and_one_that_moves_at_its_present_address() {
    let server = answering(OK).await;
    let port = server.addr.port();
    let moves = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&moves);
    let dns = Dns::start(
        move |query| match (now.load(Ordering::Relaxed), query.query_type()) {
            (0, RecordType::AAAA) => DnsScript::Addresses(&["::1"]),
            (1, RecordType::A) => DnsScript::Addresses(&["127.0.0.9"]),
            (2, RecordType::A) => DnsScript::Addresses(&["127.0.0.1"]),
            _ => DnsScript::Code(ResponseCode::NoError),
        },
    )
    .await;
    let (context, _file) = machine(&dns, "");
    for (step, at, ok) in [(0, "::1", false), (1, "127.0.0.9", false), (2, "127.0.0.1", true)] {
        moves.store(step, Ordering::Relaxed);
        let result = run(&assignment(&named(port), &json!("resolve"), AMPLE), &context).await;
        let front = result.front.unwrap().address;
        assert_eq!(front, SocketAddr::new(at.parse().unwrap(), port));
        if ok {
            assert_eq!(result.outcome, Outcome::Ok { status: Some(200) });
        } else {
            assert_eq!(
                failure(&result),
                (Phase::Connect, FailureKind::Refused),
                "no \"no such host\""
            );
        }
    }
    server.join().await;
    dns.join().await;
}

#[tokio::test]
async fn of_several_addresses_the_dead_one_is_named_by_its_own_probe() {
    let server = answering(OK).await;
    let port = server.addr.port();
    let context = context(TlsConfigs::with_roots([]));
    let mut dead = Vec::new();
    for ip in ["127.0.0.1", "127.0.0.2", "127.0.0.3"] {
        let address = SocketAddr::new(ip.parse().unwrap(), port);
        let result = run(&http(address, &json!({}), AMPLE), &context).await;
        assert_eq!(
            result.front.unwrap().address,
            address,
            "exactly this address was probed"
        );
        if result.outcome.is_failure() {
            dead.push(ip);
        }
    }
    assert_eq!(dead, ["127.0.0.2", "127.0.0.3"]);
    assert_eq!(server.join().await, 1);
}

#[tokio::test]
async fn tls_targets_at_one_address_are_each_asked_for_by_their_own_name() {
    let ca = Arc::new(Ca::new());
    let context = Arc::new(context(ca.trusted()));
    let mut probes = tokio::task::JoinSet::new();
    for n in 0..50 {
        let (ca, context) = (Arc::clone(&ca), Arc::clone(&context));
        probes.spawn(async move {
            let name = format!("shop-{n}.example.test");
            // The certificate is valid for this name only, so any other server name would be rejected.
            let server = https(ca.server(&name, VALID), OK).await;
            let change = json!({"scheme": "https", "port": 443, "host": name});
            let result = run(&http(server.addr, &change, AMPLE), &context).await;
            assert_eq!(
                result.outcome,
                Outcome::Ok { status: Some(200) },
                "{:?}",
                result.detail
            );
            assert_eq!(result.tls.unwrap().server_name, name);
            server.join().await;
        });
    }
    while let Some(probed) = probes.join_next().await {
        probed.unwrap();
    }
}

#[tokio::test]
async fn five_hundred_empty_answers_over_tls_leave_no_connection_open() {
    let ca = Ca::new();
    let acceptor = tokio_rustls::TlsAcceptor::from(ca.server("shop.example.test", VALID));
    let server = Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut tls = acceptor.accept(stream).await.unwrap();
            request(&mut tls).await;
            tls.write_all(OK.as_bytes()).await.unwrap();
            // The server does not close: the connection ends because the prober closes it.
            let mut rest = Vec::new();
            let _ = tls.read_to_end(&mut rest).await;
        }
    })
    .await;
    let context = context(ca.trusted());
    let assignment = http(server.addr, &json!({"scheme": "https", "port": 443}), AMPLE);
    for _ in 0..500 {
        let result = run(&assignment, &context).await;
        assert_eq!(result.outcome, Outcome::Ok { status: Some(200) });
    }
    assert_eq!(server.join().await, 500);
}

#[tokio::test]
async fn an_expired_a_self_made_and_a_wrongly_named_certificate_are_told_apart_and_all_described() {
    let (ca, other_ca) = (Ca::new(), Ca::new());
    for (config, kind) in [
        (
            ca.server("shop.example.test", (2020, 2021)),
            FailureKind::CertificateExpired,
        ),
        (
            other_ca.server("shop.example.test", VALID),
            FailureKind::CertificateUntrusted,
        ),
        (
            ca.server("other.example.test", VALID),
            FailureKind::CertificateWrongName,
        ),
    ] {
        let server = https(config, OK).await;
        let change = json!({"scheme": "https", "port": 443});
        let result = run(&http(server.addr, &change, AMPLE), &context(ca.trusted())).await;
        assert_eq!(failure(&result), (Phase::Tls, kind));
        let shown = result.tls.unwrap();
        let leaf = &shown.chain[0];
        assert!(!leaf.issuer.is_empty() && leaf.names.len() == 1, "{leaf:?}");
        // Absolute times, not the remaining time.
        assert!(leaf.not_before > 1_500_000_000 && leaf.not_after > leaf.not_before);
        server.join().await;
    }
}

#[tokio::test]
async fn new_connections_that_fail_are_seen_while_an_established_one_lives() {
    let (first, opened) = tokio::sync::oneshot::channel();
    let first = Mutex::new(Some(first));
    let server = Server::start(move |mut stream| {
        let first = first.lock().take();
        async move {
            request(&mut stream).await;
            if let Some(first) = first {
                stream.write_all(OK.as_bytes()).await.unwrap();
                first.send(()).unwrap();
                // This connection stays open; every later one is closed without a response.
                until_gone(&mut stream).await;
            }
        }
    })
    .await;
    let mut established = TcpStream::connect(server.addr).await.unwrap();
    established.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    opened.await.unwrap();
    let result = run(
        &http(server.addr, &json!({}), AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(failure(&result), (Phase::FirstByte, FailureKind::Eof));
    drop(established);
    server.join().await;
}

/// Appends the text of every Rust file below a folder.
fn sources(folder: &std::path::Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_test_named_in_the_table_of_defects_exists() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let page = std::fs::read_to_string(root.join("docs/contributing/testing.md")).unwrap();
    let table = page.split("## Defects of others").nth(1).unwrap();
    let mut text = String::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("Cargo.toml").exists() {
            sources(&folder, &mut text);
        }
    }
    let names: Vec<&str> = table
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| {
            name.contains('_')
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
        .filter(|name| !name.starts_with("parallax_"))
        .collect();
    assert!(names.len() > 50, "{} names", names.len());
    let missing: Vec<&str> = names
        .into_iter()
        .filter(|name| !text.contains(&format!("fn {name}(")))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
