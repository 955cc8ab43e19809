//! Hostile servers: their responses do not grow memory, do not delay other probes, and reach no log unescaped.

use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{ProbeResult, TlsConfigs, run};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    phases::assert_phase_invariants,
    servers::{AMPLE, SHORT, Server, answering, context, failure, http, repeated, request, until_gone},
};

async fn probe(server: &Server, change: Value, timeout: std::time::Duration) -> ProbeResult {
    run(
        &http(server.addr, &change, timeout),
        &context(TlsConfigs::with_roots([])),
    )
    .await
}

/// A server that repeats a piece until the prober closes the connection.
async fn endless(start: &'static [u8], piece: &'static [u8]) -> Server {
    Server::start(move |mut stream| async move {
        request(&mut stream).await;
        let mut out = stream.write_all(start).await;
        while out.is_ok() {
            out = stream.write_all(piece).await;
        }
    })
    .await
}

#[tokio::test]
async fn endless_headers_are_malformed_as_soon_as_they_are_too_long() {
    repeated(async || {
        for piece in [&b"X-A: b\r\n"[..], &[b'x'; 1024][..]] {
            let server = endless(b"HTTP/1.1 200 OK\r\n", piece).await;
            // Ample time, so that the size limit ends the probe.
            let result = probe(&server, json!({}), AMPLE).await;
            assert_eq!(
                failure(&result),
                (Phase::FirstByte, FailureKind::Malformed),
                "{:?}",
                result.detail
            );
            server.join().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_storm_of_interim_answers_is_named_and_ended_long_before_the_deadline() {
    repeated(async || {
        let server = endless(
            b"",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        )
        .await;
        // Ample time, so that the number of interim responses ends the probe.
        let result = probe(&server, json!({}), AMPLE).await;
        assert_eq!(failure(&result), (Phase::FirstByte, FailureKind::InterimStorm));
        assert_phase_invariants(&result);
        server.join().await;
    })
    .await;
}

#[tokio::test]
async fn interim_answers_with_nothing_behind_them_are_silence_and_no_stalled_answer() {
    let server = Server::start(|mut stream| async move {
        request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            .await
            .unwrap();
        until_gone(&mut stream).await;
    })
    .await;
    let result = probe(&server, json!({}), SHORT).await;
    assert_eq!(
        failure(&result),
        (Phase::FirstByte, FailureKind::FirstByteTimeout)
    );
    assert!(result.detail.unwrap().contains("1xx"));
    server.join().await;
}

#[tokio::test]
async fn interim_answers_before_the_real_one_are_passed_over() {
    let server = answering(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    )
    .await;
    let result = probe(&server, json!({}), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: Some(204) });
    server.join().await;
}

#[tokio::test]
async fn a_compressed_answer_is_never_unpacked() {
    // Only the header of a gzip stream: decompressing it would fail, so a success shows that the bytes are used as they
    // are.
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n".to_vec();
    answer.extend([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
    let server = answering(answer).await;
    let result = probe(
        &server,
        json!({"max_body": 10, "expect_body_matches": r"(?-u)^\x1f\x8b"}),
        AMPLE,
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
async fn control_characters_of_a_server_reach_no_detail() {
    for answer in [
        "HTTP/1.1 200 \u{1b}[31mOK\r\nContent-Length: 0\r\n\r\n",
        "\u{1b}]0;owned\u{7}\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: ftp://\u{1b}[31m/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://other.test/\u{85}\u{9b}31m\r\nContent-Length: 0\r\n\r\n",
    ] {
        let server = answering(answer).await;
        let result = probe(&server, json!({"redirects": {"max": 1}}), AMPLE).await;
        let detail = result.detail.clone().unwrap_or_default();
        assert!(!detail.chars().any(char::is_control), "{detail:?}");
        for hop in &result.hops {
            assert!(!hop.url.chars().any(char::is_control), "{hop:?}");
        }
        server.join().await;
    }
}

#[tokio::test]
async fn a_body_without_end_beyond_its_bound_is_too_large_at_once() {
    let server = endless(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 16 * 1024]).await;
    let result = probe(&server, json!({"max_body": 100_000}), AMPLE).await;
    assert_eq!(failure(&result), (Phase::Body, FailureKind::BodyTooLarge));
    server.join().await;
}
