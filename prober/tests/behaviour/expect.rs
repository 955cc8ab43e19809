//! Expectations: content, headers, targets that must not answer, handshakes.

use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{ProbeResult, TlsConfigs, run};
use serde_json::{Value, json};

use crate::servers::{
    AMPLE, Server, answering, context, failure, http, repeated, request,
    tls::{Ca, VALID, https},
};

const HELLO: &str = "HTTP/1.1 200 OK\r\nServer: shop\r\nContent-Length: 5\r\n\r\nhello";

async fn probe(server: &Server, change: Value) -> ProbeResult {
    run(
        &http(server.addr, &change, AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await
}

#[tokio::test]
async fn each_expectation_of_an_answer_holds_or_has_its_kind() {
    for (change, kind) in [
        (json!({"expect_body_equals": "hello"}), None),
        (
            json!({"expect_body_equals": "hell"}),
            Some(FailureKind::WrongBody),
        ),
        (
            json!({"expect_body_equals": "hello\n"}),
            Some(FailureKind::WrongBody),
        ),
        (json!({"expect_body_matches": "^h.l+o$"}), None),
        (
            json!({"expect_body_matches": "[0-9]"}),
            Some(FailureKind::WrongBody),
        ),
        (json!({"expect_headers": {"server": null}}), None),
        (json!({"expect_headers": {"server": "shop"}}), None),
        (
            json!({"expect_headers": {"server": "Shop"}}),
            Some(FailureKind::WrongHeader),
        ),
        (
            json!({"expect_headers": {"x-cache": null}}),
            Some(FailureKind::WrongHeader),
        ),
        (json!({"max_body": 5}), None),
    ] {
        let server = answering(HELLO).await;
        let result = probe(&server, change.clone()).await;
        match kind {
            None => assert_eq!(result.outcome, Outcome::Ok { status: Some(200) }, "{change}"),
            Some(kind) => assert_eq!(failure(&result), (Phase::Check, kind), "{change}"),
        }
        server.join().await;
    }
}

#[tokio::test]
async fn an_answer_beyond_its_bound_is_too_large_whether_or_not_its_size_is_announced() {
    repeated(async || {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\nx",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ] {
            let server = answering(answer).await;
            let result = probe(&server, json!({"max_body": 4})).await;
            assert_eq!(
                result.outcome,
                Outcome::Failed {
                    phase: Phase::Body,
                    kind: FailureKind::BodyTooLarge,
                    status: Some(200)
                },
                "{answer}"
            );
            server.join().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_status_that_is_expected_is_a_success_whatever_it_is() {
    for status in [204, 301, 404, 401, 503] {
        let server = answering(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")).await;
        let result = probe(&server, json!({"expect_status": status.to_string()})).await;
        assert_eq!(result.outcome, Outcome::Ok { status: Some(status) });
        server.join().await;
    }
}

#[tokio::test]
async fn a_target_that_must_not_answer_fails_when_it_does() {
    let forbidden = |status| Outcome::Failed {
        phase: Phase::Check,
        kind: FailureKind::AnsweredThoughForbidden,
        status,
    };
    let not_found = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    for (answer, ways, outcome) in [
        (HELLO, "refused,timeout,404", forbidden(Some(200))),
        (
            not_found,
            "refused,timeout,404",
            Outcome::Ok { status: Some(404) },
        ),
        (not_found, "refused", forbidden(Some(404))),
        ("SSH-2.0-OpenSSH\r\n\r\n", "refused", forbidden(None)),
        ("", "reset", Outcome::Ok { status: None }),
    ] {
        let server = answering(answer).await;
        let result = probe(&server, json!({"must_not_answer": ways})).await;
        assert_eq!(result.outcome, outcome, "{answer:?} against {ways}");
        server.join().await;
    }
    let closed = answering("").await;
    let addr = closed.addr;
    closed.join().await;
    for (ways, outcome) in [
        ("refused", Outcome::Ok { status: None }),
        (
            "timeout",
            Outcome::Failed {
                phase: Phase::Connect,
                kind: FailureKind::Refused,
                status: None,
            },
        ),
    ] {
        let change = json!({"must_not_answer": ways});
        let result = run(&http(addr, &change, AMPLE), &context(TlsConfigs::with_roots([]))).await;
        assert_eq!(result.outcome, outcome, "{ways}");
    }
}

#[tokio::test]
async fn a_handshake_expectation_fails_in_its_own_phase() {
    let ca = Ca::new();
    for (expected, kind) in [
        (
            json!({"minVersion": "1.3", "daysLeft": 30, "name": "shop.example.test"}),
            None,
        ),
        (
            json!({"daysLeft": 65_000}),
            Some(FailureKind::CertificateExpiresSoon),
        ),
        (
            json!({"name": "www.example.test"}),
            Some(FailureKind::CertificateWrongName),
        ),
        (
            json!({"issuer": "Somebody Else"}),
            Some(FailureKind::CertificateWrongIssuer),
        ),
    ] {
        let server = https(ca.server("shop.example.test", VALID), HELLO).await;
        let change = json!({"scheme": "https", "port": 443, "expect_tls": expected});
        let result = run(&http(server.addr, &change, AMPLE), &context(ca.trusted())).await;
        match kind {
            None => assert_eq!(
                result.outcome,
                Outcome::Ok { status: Some(200) },
                "{:?}",
                result.detail
            ),
            Some(kind) => assert_eq!(failure(&result), (Phase::Tls, kind)),
        }
        server.join().await;
    }
}

#[tokio::test]
async fn an_untrusted_certificate_is_accepted_only_on_request() {
    let server = https(Ca::new().server("other.example.test", VALID), HELLO).await;
    let change = json!({"scheme": "https", "port": 443, "any_certificate": true});
    // No roots are needed.
    let result = run(
        &http(server.addr, &change, AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
    server.join().await;
}

#[tokio::test]
async fn a_post_carries_its_body_and_a_head_has_none() {
    let server = Server::start(|mut stream| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let head = request(&mut stream).await.to_lowercase();
        if head.starts_with("post") {
            assert!(head.contains("content-type: application/json\r\n"), "{head}");
            let mut body = [0; 8];
            stream.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"{\"a\": 1}");
        } else {
            assert!(head.starts_with("head"), "{head}");
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
    })
    .await;
    for change in [
        json!({"method": "POST", "body": "{\"a\": 1}", "content_type": "application/json"}),
        json!({"method": "HEAD"}),
    ] {
        assert_eq!(
            probe(&server, change).await.outcome,
            Outcome::Ok { status: Some(200) }
        );
    }
    assert_eq!(server.join().await, 2);
}

#[tokio::test]
async fn two_thousand_refused_probes_are_two_thousand_failures_of_one_kind_and_nothing_else() {
    let closed = answering("").await;
    let addr = closed.addr;
    closed.join().await;
    let context = context(TlsConfigs::with_roots([]));
    let assignment = http(addr, &json!({}), AMPLE);
    for _ in 0..2000 {
        let result = run(&assignment, &context).await;
        assert_eq!(failure(&result), (Phase::Connect, FailureKind::Refused));
        let times = result.times;
        assert!(
            times.connect.is_some()
                && times.first_byte.is_none()
                && times.body.is_none()
                && times.tls.is_none()
        );
    }
}

#[tokio::test]
async fn a_thousand_failed_handshakes_leave_no_connection_open() {
    let ca = Ca::new();
    let server = https(ca.server("other.example.test", VALID), HELLO).await;
    let context = context(ca.trusted());
    let assignment = http(server.addr, &json!({"scheme": "https", "port": 443}), AMPLE);
    for _ in 0..1000 {
        assert!(run(&assignment, &context).await.outcome.is_failure());
    }
    // The server reads each connection to its end, so this ends only if the prober closed them all.
    assert_eq!(server.join().await, 1000);
}
