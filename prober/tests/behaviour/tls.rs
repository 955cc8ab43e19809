//! Failure kind and phase for servers that misbehave in TLS.

use crate::servers::{
    AMPLE, SHORT, Server, answering, context, failure, http, reset,
    tls::{Ca, Chain, VALID, https},
    until_gone,
};
use parallax_model::{FailureKind, Outcome, OwnFault, Phase, TlsVersion};
use parallax_prober::{ProbeResult, TlsConfigs, run};
use serde_json::json;

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const HOST: &str = "shop.example.test";

async fn probe(server: &Server, tls: TlsConfigs, timeout: std::time::Duration) -> ProbeResult {
    let change = json!({"scheme": "https", "port": 443});
    run(&http(server.addr, &change, timeout), &context(tls)).await
}

#[tokio::test]
async fn a_good_server_is_ok_with_the_handshake_timed() {
    let ca = Ca::new();
    let server = https(ca.server(HOST, VALID), HELLO).await;
    let result = probe(&server, ca.trusted(), AMPLE).await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
    assert!(result.times.tls.is_some() && result.times.first_byte.is_some());
    server.join().await;
}

#[tokio::test]
async fn each_wrong_certificate_has_its_own_kind() {
    let ca = Ca::new();
    for (config, kind) in [
        (ca.server(HOST, (2020, 2021)), FailureKind::CertificateExpired),
        (ca.server(HOST, (2080, 2090)), FailureKind::CertificateNotYetValid),
        (
            ca.server("other.example.test", VALID),
            FailureKind::CertificateWrongName,
        ),
        (Ca::new().server(HOST, VALID), FailureKind::CertificateUntrusted),
    ] {
        let server = https(config, HELLO).await;
        let result = probe(&server, ca.trusted(), AMPLE).await;
        assert_eq!(failure(&result), (Phase::Tls, kind));
        server.join().await;
    }
}

#[tokio::test]
async fn a_target_may_trust_a_ca_that_no_other_target_does() {
    let (public, private) = (Ca::new(), Ca::new());
    for (machine, config, refused) in [
        (public.trusted(), private.server(HOST, VALID), None),
        // The machine's roots are trusted too.
        (public.trusted(), public.server(HOST, VALID), None),
        // A machine without roots uses those of the target.
        (TlsConfigs::with_roots([]), private.server(HOST, VALID), None),
        // The error comes from the verifier that knows the issuer.
        (
            public.trusted(),
            private.server(HOST, (2020, 2021)),
            Some(FailureKind::CertificateExpired),
        ),
        (
            public.trusted(),
            public.server(HOST, (2020, 2021)),
            Some(FailureKind::CertificateExpired),
        ),
        (
            public.trusted(),
            Ca::new().server(HOST, VALID),
            Some(FailureKind::CertificateUntrusted),
        ),
    ] {
        let server = https(config, HELLO).await;
        let change = json!({"scheme": "https", "port": 443, "extra_roots": private.pem()});
        let result = run(&http(server.addr, &change, AMPLE), &context(machine)).await;
        match refused {
            None => assert_eq!(result.outcome, Outcome::Ok { status: Some(200) }),
            Some(kind) => assert_eq!(failure(&result), (Phase::Tls, kind)),
        }
        server.join().await;
    }
}

#[tokio::test]
async fn a_missing_intermediate_is_told_from_a_private_ca_by_what_the_certificate_says_of_its_issuer() {
    let (known, private) = (Ca::new(), Ca::new());
    for (ca, chain, kind) in [
        (
            &known,
            Chain::Alone,
            Some(FailureKind::CertificateChainIncomplete),
        ),
        (&known, Chain::Whole, None),
        // Nothing indicates an intermediate: the issuer may be a private root.
        (
            &known,
            Chain::AloneAndSilent,
            Some(FailureKind::CertificateUntrusted),
        ),
        // The intermediate is present, but its root is not trusted.
        (&private, Chain::Whole, Some(FailureKind::CertificateUntrusted)),
    ] {
        let server = https(ca.behind_intermediate(HOST, chain), HELLO).await;
        let result = probe(&server, known.trusted(), AMPLE).await;
        match kind {
            Some(kind) => assert_eq!(failure(&result), (Phase::Tls, kind), "{chain:?}"),
            None => assert_eq!(result.outcome, Outcome::Ok { status: Some(200) }, "{chain:?}"),
        }
        if chain == Chain::Alone {
            let detail = result.detail.unwrap();
            assert!(
                detail.contains("CN=an intermediate") && detail.contains("http://ca.example.test/i1"),
                "{detail}"
            );
        }
        server.join().await;
    }
}

#[tokio::test]
async fn an_untrusted_chain_says_how_many_intermediates_the_server_sent() {
    let server = https(Ca::new().server(HOST, VALID), HELLO).await;
    let result = probe(&server, Ca::new().trusted(), AMPLE).await;
    let detail = result.detail.unwrap();
    assert!(detail.contains("no intermediate certificate"), "{detail}");
    server.join().await;
}

#[tokio::test]
async fn a_machine_without_roots_blames_itself() {
    let server = https(Ca::new().server(HOST, VALID), HELLO).await;
    let result = probe(&server, TlsConfigs::with_roots([]), AMPLE).await;
    assert_eq!(
        result.outcome,
        Outcome::NotProbed {
            fault: OwnFault::NoRoots
        }
    );
    server.join().await;
}

#[tokio::test]
async fn http_on_a_tls_port_is_not_tls() {
    let server = answering("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    // A TLS hello contains no empty line, for which `request` would wait. This server responds immediately instead.
    server.join().await;
    let server = Server::start(|mut stream| async move {
        use tokio::io::AsyncWriteExt;
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        until_gone(&mut stream).await;
    })
    .await;
    let result = probe(&server, Ca::new().trusted(), AMPLE).await;
    assert_eq!(failure(&result), (Phase::Tls, FailureKind::NotTls));
    server.join().await;
}

#[tokio::test]
async fn tls_on_an_http_port_is_malformed() {
    let ca = Ca::new();
    let server = https(ca.server(HOST, VALID), HELLO).await;
    let result = run(&http(server.addr, &json!({}), AMPLE), &context(ca.trusted())).await;
    assert_eq!(failure(&result), (Phase::FirstByte, FailureKind::Malformed));
    server.join().await;
}

#[tokio::test]
async fn a_server_that_is_silent_in_the_handshake_is_a_tls_timeout() {
    let server = Server::start(|mut stream| async move { until_gone(&mut stream).await }).await;
    let result = probe(&server, Ca::new().trusted(), SHORT).await;
    assert_eq!(failure(&result), (Phase::Tls, FailureKind::TlsTimeout));
    server.join().await;
}

#[tokio::test]
async fn a_server_that_closes_in_the_handshake_is_an_eof() {
    use tokio::io::AsyncReadExt;
    let server = Server::start(|mut stream| async move {
        // The whole hello must be read, otherwise closing causes a reset.
        let mut hello = [0; 4096];
        let _ = stream.read(&mut hello).await.unwrap();
    })
    .await;
    let result = probe(&server, Ca::new().trusted(), AMPLE).await;
    assert_eq!(failure(&result), (Phase::Tls, FailureKind::Eof));
    server.join().await;
}

#[tokio::test]
async fn a_server_that_resets_in_the_handshake_is_a_reset() {
    use tokio::io::AsyncReadExt;
    let server = Server::start(|mut stream| async move {
        let _ = stream.read(&mut [0; 16]).await.unwrap();
        reset(stream);
    })
    .await;
    let result = probe(&server, Ca::new().trusted(), AMPLE).await;
    assert_eq!(failure(&result), (Phase::Tls, FailureKind::Reset));
    server.join().await;
}

#[tokio::test]
async fn a_server_that_demands_a_client_certificate_is_a_tls_alert_though_it_comes_after_the_handshake() {
    let ca = Ca::new();
    let server = https(ca.demanding(HOST), HELLO).await;
    let result = probe(&server, ca.trusted(), AMPLE).await;
    assert_eq!(
        failure(&result),
        (Phase::Tls, FailureKind::TlsAlert),
        "{:?}",
        result.detail
    );
    server.join().await;
}

#[tokio::test]
async fn what_the_server_showed_is_known_whether_or_not_it_verifies() {
    let ca = Ca::new();
    for (config, refused) in [
        (ca.server(HOST, VALID), None),
        (
            ca.server(HOST, (2020, 2021)),
            Some(FailureKind::CertificateExpired),
        ),
        (
            ca.server("other.example.test", VALID),
            Some(FailureKind::CertificateWrongName),
        ),
    ] {
        let server = https(config, HELLO).await;
        let facts = probe(&server, ca.trusted(), AMPLE).await.tls.unwrap();
        assert_eq!(facts.server_name, HOST);
        assert_eq!(facts.version, Some(TlsVersion::Tls13));
        assert_eq!(facts.rejected, refused);
        let [leaf] = facts.chain.as_slice() else {
            panic!("one certificate: {facts:?}")
        };
        assert!(leaf.not_before < leaf.not_after && !leaf.self_signed);
        assert_eq!(leaf.names.len(), 1);
        server.join().await;
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_showed_nothing() {
    let server = Server::start(|mut stream| async move { until_gone(&mut stream).await }).await;
    let facts = probe(&server, Ca::new().trusted(), SHORT).await.tls.unwrap();
    assert_eq!((facts.version, facts.chain.len()), (None, 0));
    server.join().await;
}

#[tokio::test]
async fn a_print_says_whether_two_servers_show_the_same_certificate_and_page_and_is_made_only_where_asked_for()
 {
    let ca = Ca::new();
    let (one, other) = (ca.server(HOST, VALID), ca.server(HOST, VALID));
    let mut prints = Vec::new();
    for config in [&one, &one, &other] {
        let server = https(config.clone(), HELLO).await;
        // The CA is not trusted: the certificate counts, not its issuer.
        let change = json!({"scheme": "https", "port": 443, "any_certificate": true, "print": true});
        let tls = TlsConfigs::with_roots([]);
        let result = run(&http(server.addr, &change, AMPLE), &context(tls)).await;
        prints.push(result.fingerprint.unwrap());
        server.join().await;
    }
    assert_eq!(prints[0], prints[1]);
    assert!(prints[0].certificate.is_some() && prints[0].certificate != prints[2].certificate);
    assert_eq!((prints[0].body, prints[0].status), (prints[2].body, Some(200)));
    let server = https(one, HELLO).await;
    assert_eq!(probe(&server, ca.trusted(), AMPLE).await.fingerprint, None);
    server.join().await;
}
