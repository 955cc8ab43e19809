//! The servers and the expected failures.

use std::{pin::Pin, time::Duration};

use parallax_model::{FailureKind, Phase};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::servers::{AMPLE, SHORT, request, reset, tls::VALID, until_gone};

pub(super) type Conversation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The behaviour of a server.
#[derive(Clone)]
pub(super) enum Behaviour {
    /// Nothing listens.
    Refuse,
    /// Sends these bytes in response to a request and closes.
    Respond(&'static str),
    /// Sends these bytes and keeps the connection open.
    Stall(&'static str),
    /// Runs a handler.
    Handler(fn(TcpStream) -> Conversation),
    /// Serves TLS with a certificate of this name and validity.
    Certificate(&'static str, (i32, i32), Trusted),
    /// Serves TLS and requires a client certificate.
    RequireClientCertificate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trusted {
    Yes,
    No,
}

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) does: Behaviour,
    /// Over TLS.
    pub(super) tls: bool,
    pub(super) timeout: Duration,
    pub(super) change: Value,
    /// The expected failure; several if it depends on the kernel.
    pub(super) kinds: &'static [(Phase, FailureKind)],
}

pub(super) const HOST: &str = "shop.example.test";
pub(super) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn case(name: &'static str, does: Behaviour, kinds: &'static [(Phase, FailureKind)]) -> Case {
    Case {
        name,
        does,
        tls: false,
        timeout: AMPLE,
        change: json!({}),
        kinds,
    }
}

fn tls(name: &'static str, does: Behaviour, kinds: &'static [(Phase, FailureKind)]) -> Case {
    Case {
        tls: true,
        ..case(name, does, kinds)
    }
}

/// Lets the deadline end the probe.
fn short(case: Case) -> Case {
    Case {
        timeout: SHORT,
        ..case
    }
}

fn with(change: Value, case: Case) -> Case {
    Case { change, ..case }
}

/// All cases, except black holes: `http.rs` simulates one with a full backlog, and the lab tests real drops and
/// rejects.
pub(super) fn cases() -> Vec<Case> {
    [connections(), answers(), policies(), handshakes()]
        .into_iter()
        .flatten()
        .collect()
}

fn connections() -> Vec<Case> {
    use FailureKind as K;
    use Phase as P;
    vec![
        case("refuses", Behaviour::Refuse, &[(P::Connect, K::Refused)]),
        case(
            "resets after accept",
            Behaviour::Handler(|stream| Box::pin(async move { reset(stream) })),
            &[(P::Request, K::Reset), (P::FirstByte, K::Reset)],
        ),
        case(
            "resets after the request",
            Behaviour::Handler(|mut stream| {
                Box::pin(async move {
                    request(&mut stream).await;
                    reset(stream);
                })
            }),
            &[(P::FirstByte, K::Reset)],
        ),
        short(case(
            "accepts and stays silent",
            Behaviour::Handler(|mut stream| Box::pin(async move { until_gone(&mut stream).await })),
            &[(P::FirstByte, K::FirstByteTimeout)],
        )),
        case(
            "closes without an answer",
            Behaviour::Respond(""),
            &[(P::FirstByte, K::Eof)],
        ),
        case(
            "closes its write side",
            Behaviour::Handler(|mut stream| {
                Box::pin(async move {
                    request(&mut stream).await;
                    stream.shutdown().await.unwrap();
                    until_gone(&mut stream).await;
                })
            }),
            &[(P::FirstByte, K::Eof)],
        ),
        short(case(
            "stops in the head",
            Behaviour::Stall("HTTP/1.1 200 OK\r\nServ"),
            &[(P::Body, K::BodyStalled)],
        )),
        short(case(
            "stops in the body",
            Behaviour::Stall("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"),
            &[(P::Body, K::BodyStalled)],
        )),
    ]
}

fn answers() -> Vec<Case> {
    use FailureKind as K;
    use Phase as P;
    vec![
        case(
            "sends less than announced",
            Behaviour::Respond("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"),
            &[(P::Body, K::BodyCut)],
        ),
        case(
            "cuts a chunk",
            Behaviour::Respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok"),
            &[(P::Body, K::BodyCut)],
        ),
        with(
            json!({"max_body": 1}),
            case(
                "sends more than allowed",
                Behaviour::Respond(OK),
                &[(P::Body, K::BodyTooLarge)],
            ),
        ),
        case(
            "speaks another protocol",
            Behaviour::Respond("SSH-2.0-x\r\n"),
            &[(P::FirstByte, K::Malformed)],
        ),
        case(
            "garbles its status",
            Behaviour::Respond("HTTP/1.1 2x0 OK\r\n\r\n"),
            &[(P::FirstByte, K::Malformed)],
        ),
        case(
            "answers 503",
            Behaviour::Respond("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
            &[(P::Check, K::Status)],
        ),
        with(
            json!({"expect_body_contains": "hello"}),
            case(
                "sends unexpected content",
                Behaviour::Respond(OK),
                &[(P::Check, K::WrongBody)],
            ),
        ),
        with(
            json!({"expect_headers": {"x-cache": null}}),
            case(
                "lacks a header",
                Behaviour::Respond(OK),
                &[(P::Check, K::WrongHeader)],
            ),
        ),
    ]
}

fn redirects() -> Value {
    json!({"redirects": {"max": 2}})
}

fn policies() -> Vec<Case> {
    use FailureKind as K;
    use Phase as P;
    vec![
        with(
            json!({"must_not_answer": "refused"}),
            case(
                "answers although forbidden",
                Behaviour::Respond(OK),
                &[(P::Check, K::AnsweredThoughForbidden)],
            ),
        ),
        with(
            redirects(),
            case(
                "redirects in a circle",
                Behaviour::Respond("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
                &[(P::Check, K::RedirectLoop)],
            ),
        ),
        with(
            redirects(),
            case(
                "redirects to another scheme",
                Behaviour::Respond(
                    "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
                ),
                &[(P::Check, K::RedirectRefused)],
            ),
        ),
        with(
            redirects(),
            case(
                "redirects to another host",
                Behaviour::Respond(
                    "HTTP/1.1 302 Found\r\nLocation: //evil.test/\r\nContent-Length: 0\r\n\r\n",
                ),
                &[(P::Check, K::RedirectRefused)],
            ),
        ),
    ]
}

fn handshakes() -> Vec<Case> {
    use FailureKind as K;
    use Phase as P;
    vec![
        case(
            "speaks TLS on the HTTP port",
            Behaviour::Certificate(HOST, VALID, Trusted::Yes),
            &[(P::FirstByte, K::Malformed)],
        ),
        tls(
            "speaks HTTP on the TLS port",
            Behaviour::Handler(|mut stream| {
                Box::pin(async move {
                    stream
                        .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                        .await
                        .unwrap();
                    until_gone(&mut stream).await;
                })
            }),
            &[(P::Tls, K::NotTls)],
        ),
        short(tls(
            "is silent in the handshake",
            Behaviour::Handler(|mut stream| Box::pin(async move { until_gone(&mut stream).await })),
            &[(P::Tls, K::TlsTimeout)],
        )),
        tls(
            "closes in the handshake",
            Behaviour::Handler(|mut stream| Box::pin(async move { drop(stream.read(&mut [0; 4096]).await) })),
            &[(P::Tls, K::Eof)],
        ),
        tls(
            "presents an expired certificate",
            Behaviour::Certificate(HOST, (2020, 2021), Trusted::Yes),
            &[(P::Tls, K::CertificateExpired)],
        ),
        tls(
            "presents a certificate that is not valid yet",
            Behaviour::Certificate(HOST, (2080, 2090), Trusted::Yes),
            &[(P::Tls, K::CertificateNotYetValid)],
        ),
        tls(
            "presents a certificate for another name",
            Behaviour::Certificate("other.example.test", VALID, Trusted::Yes),
            &[(P::Tls, K::CertificateWrongName)],
        ),
        tls(
            "presents an untrusted certificate",
            Behaviour::Certificate(HOST, VALID, Trusted::No),
            &[(P::Tls, K::CertificateUntrusted)],
        ),
        tls(
            "demands a certificate",
            Behaviour::RequireClientCertificate,
            &[(P::Tls, K::TlsAlert)],
        ),
    ]
}
