//! The results of each HTTP-01 client profile for the same servers.

use std::time::Duration;

use hickory_proto::{op::ResponseCode, rr::RecordType};
use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{
    ChallengeRequest, ClientProfile, DialOutcome, Profile, ResolverChoice, TlsConfigs, ValidationResult,
    validate,
};
use tokio::io::AsyncWriteExt;

use crate::servers::{
    Server, answering, context,
    dns::{Dns, DnsScript},
    request,
    tls::{Ca, https},
};

const HOST: &str = "shop.example.org";

/// The rules of the client, except that private addresses are allowed and the pause between passes is short.
fn profile(client: ClientProfile) -> Profile {
    Profile {
        reserved_allowed: true,
        pause: Duration::ZERO,
        ..Profile::for_client(client)
    }
}

/// Fetches a challenge by the rules of a profile; the name has these addresses.
async fn fetch(profile: &Profile, port: u16, v4: DnsScript, v6: DnsScript) -> ValidationResult {
    let dns = Dns::start(move |query| {
        if query.query_type() == RecordType::A {
            v4
        } else {
            v6
        }
    })
    .await;
    let challenge = ChallengeRequest {
        host: HOST.to_owned(),
        port,
        path: "/.well-known/acme-challenge/token".to_owned(),
        expected: "token.key".to_owned(),
    };
    let choice = ResolverChoice::Servers(vec![dns.addr]);
    let validation = validate(profile, &challenge, &choice, &context(TlsConfigs::with_roots([]))).await;
    dns.join().await;
    validation
}

const V4: DnsScript = DnsScript::Addresses(&["127.0.0.1"]);
const V6: DnsScript = DnsScript::Addresses(&["::1"]);
const NONE: DnsScript = DnsScript::Code(ResponseCode::NoError);

const ALL: [ClientProfile; 3] = [
    ClientProfile::CertManager,
    ClientProfile::Boulder,
    ClientProfile::Pebble,
];

fn kind(validation: &ValidationResult) -> Option<(Phase, FailureKind)> {
    match &validation.outcome {
        Outcome::Ok { .. } => None,
        Outcome::Failed { phase, kind, .. } => Some((*phase, kind.clone())),
        own @ Outcome::NotProbed { .. } => panic!("{own:?} ({:?})", validation.detail),
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The failure kind of each of the three clients for one response.
async fn verdicts(answer: &str) -> [Option<FailureKind>; 3] {
    let mut verdicts = Vec::new();
    for client in ALL {
        let server = answering(answer).await;
        let validation = fetch(&profile(client), server.addr.port(), V4, NONE).await;
        verdicts.push(kind(&validation).map(|(_, kind)| kind));
        server.join().await;
    }
    verdicts.try_into().unwrap()
}

#[tokio::test]
async fn the_three_clients_agree_and_differ_on_bodies_and_statuses_as_their_sources_do() {
    let wrong = Some(FailureKind::WrongBody);
    let status = Some(FailureKind::Status);
    let long = format!("token.key{}", " ".repeat(200));
    for (answer, [cert_manager, boulder, pebble]) in [
        (ok("token.key"), [None, None, None]),
        (ok("token.key\r\n"), [wrong.clone(), None, None]),
        (ok("token.key\r\n  "), [wrong.clone(), None, wrong.clone()]),
        (
            ok(&long),
            [wrong.clone(), Some(FailureKind::BodyTooLarge), wrong.clone()],
        ),
        (ok("other.key"), [wrong.clone(), wrong.clone(), wrong.clone()]),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            [status.clone(), status.clone(), status.clone()],
        ),
        (
            "HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\ntoken.key".to_owned(),
            [status.clone(), status.clone(), status.clone()],
        ),
    ] {
        assert_eq!(
            verdicts(&answer).await,
            [cert_manager, boulder, pebble],
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn cert_manager_asks_five_times_and_the_certificate_authorities_once() {
    for (client, times) in ALL.into_iter().zip([5, 1, 1]) {
        let server = answering(ok("token.key")).await;
        let validation = fetch(&profile(client), server.addr.port(), V4, NONE).await;
        assert_eq!(
            (kind(&validation), validation.passes),
            (None, times),
            "{client:?}"
        );
        assert_eq!(server.join().await, usize::try_from(times).unwrap());
    }
}

#[tokio::test]
async fn the_first_pass_that_fails_ends_the_self_check() {
    let server = answering(ok("other")).await;
    let validation = fetch(&profile(ClientProfile::CertManager), server.addr.port(), V4, NONE).await;
    assert_eq!(validation.passes, 0);
    assert_eq!(server.join().await, 1);
}

#[tokio::test]
async fn a_dead_ipv6_address_fails_pebble_only_and_is_seen_in_all() {
    for (client, expected) in ALL
        .into_iter()
        .zip([None, None, Some((Phase::Connect, FailureKind::Refused))])
    {
        let server = answering(ok("token.key")).await;
        let validation = fetch(&profile(client), server.addr.port(), V4, V6).await;
        assert_eq!(kind(&validation), expected, "{client:?}");
        let dead = &validation.dials[0];
        assert!(
            dead.address.is_ipv6() && dead.outcome == DialOutcome::Failed(FailureKind::Refused),
            "{validation:?}"
        );
        server.join().await;
    }
}

#[tokio::test]
async fn an_ipv6_address_that_answers_wrongly_is_not_saved_by_ipv4() {
    let v4 = answering(ok("token.key")).await;
    let port = v4.addr.port();
    // The same port of the other family, with a different response.
    let listener = tokio::net::TcpListener::bind(("::1", port)).await.unwrap();
    let wrong = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
    });
    let validation = fetch(&profile(ClientProfile::Boulder), port, V4, V6).await;
    assert_eq!(
        kind(&validation),
        Some((Phase::Check, FailureKind::Status)),
        "no fallback after a successful dial"
    );
    wrong.await.unwrap();
    assert_eq!(v4.join().await, 0);
}

#[tokio::test]
async fn boulder_falls_back_from_its_first_url_and_then_meets_a_redirect_it_has_seen() {
    // IPv6 redirects to a port on which nothing listens; IPv4 sends the same redirect.
    let closed = answering("").await;
    let dead = closed.addr.port();
    closed.join().await;
    let location =
        format!("HTTP/1.1 302 Found\r\nLocation: http://{HOST}:{dead}/x\r\nContent-Length: 0\r\n\r\n");
    let v4 = answering(location.clone()).await;
    let port = v4.addr.port();
    let listener = tokio::net::TcpListener::bind(("::1", port)).await.unwrap();
    let v6 = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        stream.write_all(location.as_bytes()).await.unwrap();
    });
    let mut boulder = profile(ClientProfile::Boulder);
    boulder.redirects.ports = &[];
    let validation = fetch(&boulder, port, V4, V6).await;
    assert_eq!(kind(&validation), Some((Phase::Check, FailureKind::RedirectLoop)));
    v6.await.unwrap();
    assert_eq!(v4.join().await, 1);
}

#[tokio::test]
async fn private_addresses_are_no_addresses_for_boulder_and_are_for_the_others() {
    for (client, expected) in
        ALL.into_iter()
            .zip([None, Some((Phase::Resolve, FailureKind::NoAddress)), None])
    {
        let server = answering(ok("token.key")).await;
        let strict = Profile {
            pause: Duration::ZERO,
            ..Profile::for_client(client)
        };
        let validation = fetch(&strict, server.addr.port(), V4, NONE).await;
        assert_eq!(kind(&validation), expected, "{client:?}");
        if expected.is_some() {
            assert!(validation.detail.unwrap().contains("private or reserved"));
            assert_eq!(
                validation.resolution.unwrap().addresses.len(),
                1,
                "the addresses are still reported"
            );
        }
        server.join().await;
    }
}

#[tokio::test]
async fn a_family_whose_lookup_fails_is_no_failure_beside_one_that_has_addresses() {
    let server = answering(ok("token.key")).await;
    let servfail = DnsScript::Code(ResponseCode::ServFail);
    let validation = fetch(&profile(ClientProfile::Boulder), server.addr.port(), V4, servfail).await;
    assert_eq!(kind(&validation), None);
    server.join().await;
    let validation = fetch(&profile(ClientProfile::Boulder), 1, servfail, servfail).await;
    assert_eq!(kind(&validation), Some((Phase::Resolve, FailureKind::ServFail)));
}

#[tokio::test]
async fn behind_a_redirect_to_https_no_client_verifies_the_certificate() {
    for client in ALL {
        let end = https(
            Ca::new().server("other.example.org", (2020, 2021)),
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntoken.key",
        )
        .await;
        let location = format!(
            "HTTP/1.1 301 Moved\r\nLocation: https://{HOST}:{}/x\r\nContent-Length: 0\r\n\r\n",
            end.addr.port()
        );
        let server = answering(location).await;
        let mut rules = profile(client);
        rules.redirects.ports = &[];
        rules.passes = 1;
        let validation = fetch(&rules, server.addr.port(), V4, NONE).await;
        assert_eq!(kind(&validation), None, "{client:?}: {:?}", validation.detail);
        assert_eq!(validation.hops.len(), 1);
        server.join().await;
        end.join().await;
    }
}

#[tokio::test]
async fn a_circle_is_a_loop_for_boulder_and_too_many_redirects_for_go() {
    for (client, expected, requests) in [
        (ClientProfile::CertManager, FailureKind::RedirectTooMany, 10),
        (ClientProfile::Boulder, FailureKind::RedirectLoop, 1),
        (ClientProfile::Pebble, FailureKind::RedirectTooMany, 10),
    ] {
        let server = answering(
            "HTTP/1.1 302 Found\r\nLocation: /.well-known/acme-challenge/token\r\nContent-Length: 0\r\n\r\n",
        )
        .await;
        let mut rules = profile(client);
        rules.redirects.ports = &[];
        let validation = fetch(&rules, server.addr.port(), V4, NONE).await;
        assert_eq!(kind(&validation), Some((Phase::Check, expected)));
        assert_eq!(server.join().await, requests, "{client:?}");
    }
}

#[tokio::test]
async fn each_client_introduces_itself_as_it_does() {
    for (client, agent, accept) in [
        (
            ClientProfile::CertManager,
            "user-agent: cert-manager-challenges/",
            false,
        ),
        (ClientProfile::Boulder, "let's encrypt validation server", true),
        (ClientProfile::Pebble, "letsencrypt-pebble-va", true),
    ] {
        let server = Server::start(move |mut stream| async move {
            let port = stream.local_addr().unwrap().port();
            let head = request(&mut stream).await.to_lowercase();
            assert!(head.contains(agent), "{head}");
            assert_eq!(head.contains("accept: */*"), accept, "{head}");
            assert!(head.contains(&format!("host: {HOST}:{port}\r\n")), "{head}");
            assert!(head.contains("connection: close"), "{head}");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntoken.key")
                .await
                .unwrap();
        })
        .await;
        assert_eq!(
            kind(&fetch(&profile(client), server.addr.port(), V4, NONE).await),
            None
        );
        server.join().await;
    }
}
