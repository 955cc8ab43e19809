//! cert-manager's self check, case by case, as `pkg/issuer/acme/http/http.go` and Go's client behave.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use hickory_proto::{op::ResponseCode, rr::RecordType};
use parallax_model::{FailureKind, Outcome};
use parallax_prober::{
    ChallengeRequest, ClientProfile, Profile, ResolverChoice, TlsConfigs, ValidationResult, validate,
};
use tokio::io::AsyncWriteExt;

use crate::servers::{
    Server, answering, context,
    dns::{Dns, DnsScript},
    request, until_gone,
};

const HOST: &str = "shop.example.org";
const KEY: &str = "token.key";

/// The rules of the profile, with a single pass.
fn once() -> Profile {
    Profile {
        passes: 1,
        ..Profile::for_client(ClientProfile::CertManager)
    }
}

async fn fetch(profile: &Profile, port: u16) -> ValidationResult {
    let dns = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::NoError),
    })
    .await;
    let choice = ResolverChoice::Servers(vec![dns.addr]);
    let validation = validate(
        profile,
        &challenge(port),
        &choice,
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    dns.join().await;
    validation
}

fn challenge(port: u16) -> ChallengeRequest {
    ChallengeRequest {
        host: HOST.to_owned(),
        port,
        path: "/.well-known/acme-challenge/token".to_owned(),
        expected: KEY.to_owned(),
    }
}

fn kind(validation: &ValidationResult) -> Option<FailureKind> {
    match &validation.outcome {
        Outcome::Ok { .. } => None,
        Outcome::Failed { kind, .. } => Some(kind.clone()),
        own @ Outcome::NotProbed { .. } => panic!("{own:?} ({:?})", validation.detail),
    }
}

fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 {status} Said\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}

#[test]
fn its_numbers_are_those_of_its_source() {
    let profile = Profile::for_client(ClientProfile::CertManager);
    assert_eq!(profile.timeout, Duration::from_secs(10));
    assert_eq!((profile.passes, profile.pause), (5, Duration::from_secs(2)));
    assert_eq!(profile.redirects.max, 9, "an error once ten requests were made");
    assert_eq!(profile.named_resolvers_timeout, Some(Duration::from_secs(3)));
    assert!(profile.uses_environment_proxy && profile.reserved_allowed && profile.gzip);
    assert_eq!((profile.accept, profile.host_with_port), (None, false));
}

#[tokio::test]
async fn each_answer_is_accepted_or_refused_as_it_accepts_or_refuses_it() {
    let mut cut = answer(200, "", KEY.as_bytes());
    cut.truncate(cut.len() - 2);
    let mut cut_404 = answer(404, "", b"not found");
    cut_404.truncate(cut_404.len() - 2);
    let large = [KEY.as_bytes(), &vec![b'\n'; 2 << 20]].concat();
    for (case, answer, expected) in [
        ("the key", answer(200, "", KEY.as_bytes()), None),
        (
            "a trailing newline",
            answer(200, "", b"token.key\n"),
            Some(FailureKind::WrongBody),
        ),
        (
            "a leading space",
            answer(200, "", b" token.key"),
            Some(FailureKind::WrongBody),
        ),
        ("nothing", answer(200, "", b""), Some(FailureKind::WrongBody)),
        (
            "bytes that are not text",
            answer(200, "", b"token.key\xff"),
            Some(FailureKind::WrongBody),
        ),
        (
            "more than a MiB",
            answer(200, "", &large),
            Some(FailureKind::WrongBody),
        ),
        ("201", answer(201, "", KEY.as_bytes()), Some(FailureKind::Status)),
        (
            "204",
            b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            Some(FailureKind::Status),
        ),
        (
            "304",
            b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
            Some(FailureKind::Status),
        ),
        (
            "404",
            answer(404, "", b"404 page not found\n"),
            Some(FailureKind::Status),
        ),
        ("a cut answer", cut, Some(FailureKind::BodyCut)),
        (
            "the status is checked before the content",
            cut_404,
            Some(FailureKind::Status),
        ),
        (
            "a redirect without Location",
            answer(301, "", b""),
            Some(FailureKind::Status),
        ),
        (
            "half a head",
            b"HTTP/1.1 200 OK\r\nContent-".to_vec(),
            Some(FailureKind::Eof),
        ),
        (
            "not HTTP",
            b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
            Some(FailureKind::Malformed),
        ),
        ("nothing at all", Vec::new(), Some(FailureKind::Eof)),
    ] {
        assert_ends(case, answer, expected).await;
    }
}

/// A gzip stream may have several members (RFC 1952 §2.2), and Go's client reads all of them.
#[tokio::test]
async fn a_compressed_answer_is_read_as_gos_client_reads_it() {
    let gzip = |text: &[u8]| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    };
    let packed = "Content-Encoding: gzip\r\n";
    for (case, answer, expected) in [
        (
            "the key compressed",
            answer(200, packed, &gzip(KEY.as_bytes())),
            None,
        ),
        (
            "a trailing newline, compressed",
            answer(200, packed, &gzip(b"token.key\n")),
            Some(FailureKind::WrongBody),
        ),
        (
            "the key compressed in two members",
            answer(200, packed, &[gzip(b"token"), gzip(b".key")].concat()),
            None,
        ),
        (
            "more content in a second member",
            answer(200, packed, &[gzip(KEY.as_bytes()), gzip(b"!")].concat()),
            Some(FailureKind::WrongBody),
        ),
        (
            "a line feed after the compressed key",
            answer(200, packed, &[&gzip(KEY.as_bytes()), &b"\n"[..]].concat()),
            Some(FailureKind::BodyCut),
        ),
        (
            "declared as compressed",
            answer(200, packed, KEY.as_bytes()),
            Some(FailureKind::BodyCut),
        ),
    ] {
        assert_ends(case, answer, expected).await;
    }
}

async fn assert_ends(case: &str, answer: Vec<u8>, expected: Option<FailureKind>) {
    let server = answering(answer).await;
    let validation = fetch(&once(), server.addr.port()).await;
    assert_eq!(kind(&validation), expected, "{case}: {:?}", validation.detail);
    assert_eq!(validation.problem, None, "the self check is not an authority");
    server.join().await;
}

#[tokio::test]
async fn every_redirect_code_leads_on_to_any_host_and_any_port() {
    let end = answering(answer(200, "", KEY.as_bytes())).await;
    for code in [301, 302, 303, 307, 308] {
        for host in ["other.example.org", "127.0.0.1", "internal"] {
            let location = format!("Location: http://{host}:{}/x\r\n", end.addr.port());
            let server = answering(answer(code, &location, b"moved")).await;
            let validation = fetch(&once(), server.addr.port()).await;
            assert_eq!(
                kind(&validation),
                None,
                "{code} to {host}: {:?}",
                validation.detail
            );
            assert_eq!(validation.hops.len(), 1);
            server.join().await;
        }
    }
    end.join().await;
}

#[tokio::test]
async fn behind_nine_redirects_it_still_goes_on_and_behind_the_tenth_it_stops() {
    for (links, expected) in [(9, None), (10, Some(FailureKind::RedirectTooMany))] {
        let server = Server::start(move |mut stream| async move {
            let head = request(&mut stream).await;
            let path = head.split(' ').nth(1).unwrap();
            let left: u32 = path.trim_start_matches('/').parse().unwrap_or(links);
            let bytes = if left == 0 {
                answer(200, "", KEY.as_bytes())
            } else {
                answer(302, &format!("Location: /{}\r\n", left - 1), b"")
            };
            stream.write_all(&bytes).await.unwrap();
        })
        .await;
        assert_eq!(
            kind(&fetch(&once(), server.addr.port()).await),
            expected,
            "{links}"
        );
        server.join().await;
    }
}

#[tokio::test]
async fn a_redirect_is_followed_whatever_becomes_of_its_content() {
    let server = Server::start(|mut stream| async move {
        let head = request(&mut stream).await;
        if head.starts_with("GET /there ") {
            stream.write_all(&answer(200, "", KEY.as_bytes())).await.unwrap();
        } else {
            stream
                .write_all(b"HTTP/1.1 301 Moved\r\nLocation: /there\r\nContent-Length: 50\r\n\r\ncut")
                .await
                .unwrap();
        }
    })
    .await;
    assert_eq!(kind(&fetch(&once(), server.addr.port()).await), None);
    server.join().await;
}

#[tokio::test]
async fn one_time_holds_for_everything_from_the_lookup_to_the_last_byte() {
    let profile = Profile {
        timeout: Duration::from_millis(400),
        ..once()
    };
    // The redirect takes most of the timeout, and the content gets only the rest.
    let server = Server::start(|mut stream| async move {
        let head = request(&mut stream).await;
        if head.starts_with("GET /there ") {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntoken")
                .await
                .unwrap();
            until_gone(&mut stream).await;
        } else {
            tokio::time::sleep(Duration::from_millis(250)).await;
            stream
                .write_all(&answer(302, "Location: /there\r\n", b""))
                .await
                .unwrap();
        }
    })
    .await;
    let begun = Instant::now();
    let validation = fetch(&profile, server.addr.port()).await;
    assert_eq!(kind(&validation), Some(FailureKind::BodyStalled));
    assert!(
        begun.elapsed() < Duration::from_millis(640),
        "250 ms and another 400"
    );
    server.join().await;
}

#[tokio::test]
async fn between_two_passes_is_a_pause_that_counts_for_none_of_them() {
    let pause = Duration::from_millis(60);
    let profile = Profile {
        passes: 3,
        pause,
        ..Profile::for_client(ClientProfile::CertManager)
    };
    let server = answering(answer(200, "", KEY.as_bytes())).await;
    let begun = Instant::now();
    let validation = fetch(&profile, server.addr.port()).await;
    let all = begun.elapsed();
    assert_eq!((kind(&validation), validation.passes), (None, 3));
    assert!(all >= 2 * pause, "two pauses between three passes: {all:?}");
    assert!(Duration::from(validation.duration) + 2 * pause <= all);
    assert_eq!(server.join().await, 3, "each on a new connection");
}

#[tokio::test]
async fn of_several_solver_nameservers_each_is_asked_one_of_the_two_questions_and_none_is_asked_instead_of_another()
 {
    let good = |record| {
        move |query: &hickory_proto::op::Query| {
            if query.query_type() == record {
                DnsScript::Addresses(if record == RecordType::A {
                    &["127.0.0.1"]
                } else {
                    &["::1"]
                })
            } else {
                DnsScript::Addresses(&["127.0.0.9"])
            }
        }
    };
    let first = Dns::start(good(RecordType::A)).await;
    let second = Dns::start(good(RecordType::AAAA)).await;
    let server = answering(answer(200, "", KEY.as_bytes())).await;
    let choice = ResolverChoice::Servers(vec![first.addr, second.addr]);
    let challenge = challenge(server.addr.port());
    let validation = validate(&once(), &challenge, &choice, &context(TlsConfigs::with_roots([]))).await;
    assert_eq!(kind(&validation), None, "{:?}", validation.detail);
    let found = validation.resolution.unwrap().addresses;
    let from = |v4: bool| found.iter().find(|one| one.address.is_ipv4() == v4).unwrap();
    assert_eq!(from(true).resolver, Some(first.addr));
    assert_eq!(from(false).resolver, Some(second.addr));
    second.join().await;
    // A silent nameserver uses up the three seconds of the dialer, whatever the other one answers.
    let silent = Dns::start(|_| DnsScript::Nothing).await;
    let choice = ResolverChoice::Servers(vec![first.addr, silent.addr]);
    let profile = Profile {
        named_resolvers_timeout: Some(Duration::from_millis(300)),
        ..once()
    };
    let validation = validate(
        &profile,
        &challenge,
        &choice,
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(
        kind(&validation),
        Some(FailureKind::ConnectTimeout),
        "{:?}",
        validation.detail
    );
    first.join().await;
    silent.join().await;
    server.join().await;
}
