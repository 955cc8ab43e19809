//! Results for servers that misbehave in HTTP/2.

use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{ProbeResult, run};
use serde_json::json;

use crate::{
    phases::assert_phase_invariants,
    servers::{
        AMPLE, SHORT, Server, context, failure,
        h2::{self, After, DATA, END_HEADERS, END_STREAM, HEADERS, STATUS_200, frame, goaway, rst_stream},
        http, repeated,
        tls::{Ca, VALID, https},
    },
};

async fn probe(server: &Server, ca: &Ca, timeout: std::time::Duration) -> ProbeResult {
    let change = json!({"scheme": "https", "port": 443, "version": "2", "expect_body_equals": "over two"});
    let result = run(&http(server.addr, &change, timeout), &context(ca.trusted())).await;
    assert_phase_invariants(&result);
    result
}

#[tokio::test]
async fn http_2_is_spoken_where_asked_for_and_agreed_on() {
    let ca = Ca::new();
    let server = h2::answering(&ca).await;
    let result = probe(&server, &ca, AMPLE).await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
    assert_eq!(result.tls.unwrap().alpn.as_deref(), Some("h2"));
    server.join().await;
}

#[tokio::test]
async fn a_server_that_does_not_agree_to_http_2_fails_the_handshake_with_the_reason() {
    let ca = Ca::new();
    let server = https(ca.server("shop.example.test", VALID), "HTTP/1.1 200 OK\r\n\r\n").await;
    let result = probe(&server, &ca, AMPLE).await;
    assert_eq!(failure(&result), (Phase::Tls, FailureKind::TlsProtocol));
    assert!(result.detail.unwrap().contains("ALPN"));
    server.join().await;
}

// Error codes of RFC 9113 §7.
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;
const HTTP_1_1_REQUIRED: u32 = 13;

fn begun() -> Vec<u8> {
    [
        frame(HEADERS, END_HEADERS, 1, STATUS_200),
        frame(DATA, 0, 1, b"over"),
    ]
    .concat()
}

#[tokio::test]
async fn each_way_of_breaking_off_has_its_own_name() {
    use FailureKind as K;
    use Phase as P;
    let ca = Ca::new();
    for (after, bytes, phase, kind) in [
        (After::Request, goaway(0, NO_ERROR), P::FirstByte, K::GoAway),
        (
            After::Request,
            goaway(0, ENHANCE_YOUR_CALM),
            P::FirstByte,
            K::GoAway,
        ),
        // It announces that it will process the request, and then closes.
        (After::Request, goaway(1, INTERNAL_ERROR), P::FirstByte, K::Eof),
        (
            After::Request,
            rst_stream(REFUSED_STREAM),
            P::FirstByte,
            K::StreamRefused,
        ),
        (After::Request, rst_stream(CANCEL), P::FirstByte, K::StreamReset),
        (
            After::Request,
            rst_stream(HTTP_1_1_REQUIRED),
            P::FirstByte,
            K::StreamReset,
        ),
        (
            After::Request,
            [begun(), rst_stream(INTERNAL_ERROR)].concat(),
            P::Body,
            K::StreamReset,
        ),
        (
            After::Request,
            [begun(), goaway(0, INTERNAL_ERROR)].concat(),
            P::Body,
            K::GoAway,
        ),
        (After::Request, Vec::new(), P::FirstByte, K::Eof),
        (After::Request, begun(), P::Body, K::BodyCut),
        (After::Settings, Vec::new(), P::FirstByte, K::Eof),
        (
            After::Handshake,
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(),
            P::FirstByte,
            K::Malformed,
        ),
        // DATA before any HEADERS of a response.
        (
            After::Request,
            frame(DATA, END_STREAM, 1, b"over two"),
            P::FirstByte,
            K::Malformed,
        ),
    ] {
        repeated(async || {
            let server = h2::sending(&ca, after, bytes.clone(), true).await;
            let result = probe(&server, &ca, AMPLE).await;
            assert_eq!(
                failure(&result),
                (phase, kind.clone()),
                "{after:?} {bytes:?}: {:?}",
                result.detail
            );
            server.join().await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_goodbye_behind_the_request_it_still_answers_is_no_failure() {
    let ca = Ca::new();
    let answer = [
        goaway(1, NO_ERROR),
        frame(HEADERS, END_HEADERS, 1, STATUS_200),
        frame(DATA, END_STREAM, 1, b"over two"),
    ]
    .concat();
    let server = h2::sending(&ca, After::Request, answer, true).await;
    let result = probe(&server, &ca, AMPLE).await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
    server.join().await;
}

#[tokio::test]
async fn silence_behind_the_settings_and_in_the_answer_are_told_apart() {
    let ca = Ca::new();
    for (bytes, phase, kind) in [
        (Vec::new(), Phase::FirstByte, FailureKind::FirstByteTimeout),
        (begun(), Phase::Body, FailureKind::BodyStalled),
    ] {
        let server = h2::sending(&ca, After::Request, bytes, false).await;
        assert_eq!(failure(&probe(&server, &ca, SHORT).await), (phase, kind));
        server.join().await;
    }
}

#[tokio::test]
async fn interim_answers_over_http_2_are_passed_over_and_without_an_answer_behind_them_silence() {
    let ca = Ca::new();
    // `:status` as an index into the static table, then "103" as a literal (RFC 7541 §6.2.2).
    let interims = frame(HEADERS, END_HEADERS, 1, b"\x08\x03103").repeat(1000);
    let server = h2::sending(&ca, After::Request, interims.clone(), false).await;
    let result = probe(&server, &ca, SHORT).await;
    assert_eq!(
        failure(&result),
        (Phase::FirstByte, FailureKind::FirstByteTimeout),
        "{:?}",
        result.detail
    );
    server.join().await;
    let answer = [
        interims,
        frame(HEADERS, END_HEADERS, 1, STATUS_200),
        frame(DATA, END_STREAM, 1, b"over two"),
    ]
    .concat();
    let server = h2::sending(&ca, After::Request, answer, true).await;
    assert_eq!(
        probe(&server, &ca, AMPLE).await.outcome,
        Outcome::Ok { status: Some(200) }
    );
    server.join().await;
}
