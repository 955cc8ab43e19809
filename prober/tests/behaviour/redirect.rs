//! Redirects: followed as the policy allows, each hop on a new connection.

use std::sync::Arc;

use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{ProbeResult, TlsConfigs, run};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::servers::{
    AMPLE, Server, answering, context, failure, http, request,
    tls::{Ca, VALID, https},
};

/// A server that redirects `/N` to `/N+1` up to `/end`, and responds there.
async fn chain(code: u16, end: usize) -> (Server, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let server = Server::start(move |mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            let head = request(&mut stream).await;
            let line = head.lines().next().unwrap_or_default().to_owned();
            let n: usize = line
                .split(['/', ' '])
                .nth(2)
                .and_then(|n| n.parse().ok())
                .unwrap_or(0);
            seen.lock().push(line);
            let answer = if n == end {
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend".to_owned()
            } else {
                format!(
                    "HTTP/1.1 {code} Moved\r\nLocation: /{}\r\nContent-Length: 0\r\n\r\n",
                    n + 1
                )
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    (server, requests)
}

async fn probe(server: &Server, change: Value) -> ProbeResult {
    run(
        &http(server.addr, &change, AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await
}

#[tokio::test]
async fn a_healthy_redirect_is_one_probe_without_a_failure_and_its_hops_are_evidence() {
    let (server, _) = chain(301, 2).await;
    let change =
        json!({"path": "/0", "redirects": {"max": 5}, "expect_status": "200", "expect_body_equals": "end"});
    let result = probe(&server, change).await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
    let hops: Vec<(&str, u16)> = result
        .hops
        .iter()
        .map(|hop| (hop.url.as_str(), hop.status))
        .collect();
    assert_eq!(
        hops,
        [
            ("http://shop.example.test/0", 301),
            ("http://shop.example.test/1", 301)
        ]
    );
    assert_eq!(result.front.unwrap().address, server.addr);
    let times = result.times;
    let parts: u64 = [times.connect, times.first_byte, times.body]
        .iter()
        .map(|t| t.unwrap().0)
        .sum();
    assert!(parts <= times.total.unwrap().0, "{times:?}");
    assert_eq!(server.join().await, 3, "each hop is a fresh connection");
}

#[tokio::test]
async fn too_many_hops_and_a_redirect_loop_have_their_own_kinds() {
    let (server, _) = chain(302, 99).await;
    let result = probe(&server, json!({"path": "/0", "redirects": {"max": 3}})).await;
    assert_eq!(
        result.outcome,
        Outcome::Failed {
            phase: Phase::Check,
            kind: FailureKind::RedirectTooMany,
            status: Some(302)
        }
    );
    assert_eq!(server.join().await, 4);
    let redirect_loop = answering("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n").await;
    let result = probe(&redirect_loop, json!({"redirects": {"max": 3}})).await;
    assert_eq!(failure(&result), (Phase::Check, FailureKind::RedirectLoop));
    assert_eq!(redirect_loop.join().await, 1);
}

#[tokio::test]
async fn a_redirect_to_a_third_party_or_another_scheme_is_refused_and_nobody_is_asked() {
    let third_party = answering("HTTP/1.1 200 OK\r\n\r\n").await;
    for location in [
        format!("http://127.0.0.1:{}/", third_party.addr.port()),
        "ftp://shop.example.test/".to_owned(),
        "gopher://shop.example.test/".to_owned(),
        "http://shop.example.test:8080/".to_owned(),
    ] {
        let server = answering(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ))
        .await;
        let result = probe(&server, json!({"redirects": {"max": 3}})).await;
        assert_eq!(
            failure(&result),
            (Phase::Check, FailureKind::RedirectRefused),
            "{location}"
        );
        assert_eq!(server.join().await, 1);
    }
    assert_eq!(third_party.join().await, 0);
}

#[tokio::test]
async fn a_post_becomes_a_get_where_browsers_make_it_one_and_stays_a_post_where_they_do_not() {
    for (code, second) in [
        (302, "GET /1 "),
        (303, "GET /1 "),
        (307, "POST /1 "),
        (308, "POST /1 "),
    ] {
        let (server, requests) = chain(code, 1).await;
        let change = json!({"path": "/0", "method": "POST", "body": "x", "redirects": {"max": 1}});
        assert_eq!(
            probe(&server, change).await.outcome,
            Outcome::Ok { status: Some(200) }
        );
        assert!(
            requests.lock()[1].starts_with(second),
            "{code}: {:?}",
            requests.lock()
        );
        server.join().await;
    }
}

#[tokio::test]
async fn a_failure_behind_a_redirect_stays_with_the_front_that_failed() {
    let closed = answering("").await;
    let dead = closed.addr;
    closed.join().await;
    let location = format!(
        "HTTP/1.1 301 Moved\r\nLocation: http://shop.example.test:{}/\r\nContent-Length: 0\r\n\r\n",
        dead.port()
    );
    let server = answering(location).await;
    let result = probe(&server, json!({"redirects": {"max": 1, "ports": [dead.port()]}})).await;
    assert_eq!(failure(&result), (Phase::Connect, FailureKind::Refused));
    assert_eq!(
        result.front.unwrap().address,
        dead,
        "the forced address applies to the same host"
    );
    assert_eq!(result.hops.len(), 1);
    server.join().await;
}

#[tokio::test]
async fn a_redirect_to_https_shakes_hands_for_its_host() {
    let ca = Ca::new();
    let end = https(
        ca.server("shop.example.test", VALID),
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    let location = format!(
        "HTTP/1.1 308 Moved\r\nLocation: https://shop.example.test:{}/\r\nContent-Length: 0\r\n\r\n",
        end.addr.port()
    );
    let server = answering(location).await;
    let change = json!({"redirects": {"max": 1, "ports": [end.addr.port()]}});
    let result = run(&http(server.addr, &change, AMPLE), &context(ca.trusted())).await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
    assert!(result.times.tls.is_some() && result.tls.is_some());
    assert_eq!(
        result.front.unwrap().address,
        server.addr,
        "a success is reported for the target's own front"
    );
    server.join().await;
    end.join().await;
}
