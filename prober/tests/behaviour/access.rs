//! Request headers and credentials: what arrives, and where a secret never arrives.

use std::{path::Path, sync::Arc};

use parallax_model::{FailureKind, Outcome, OwnFault, Phase};
use parallax_prober::{
    CredentialFiles, CredentialSource, CredentialStore, ProbeContext, ProbeResult, TlsConfigs, run,
};
use serde_json::{Value, json};

use crate::servers::{
    AMPLE, RequestHeads, Server, assert_ok, assignment, context, failure, header_values, http, recording,
    tls::{Ca, VALID, https, recording_https},
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const HOST: &str = "shop.example.test";

/// A mounted Secret.
pub(crate) fn mounted(keys: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (key, content) in keys {
        std::fs::write(folder.path().join(key), content).unwrap();
    }
    folder
}

/// The credential `shop` for a host.
pub(crate) fn credential(folder: &Path, host: &str, allow_plaintext: bool) -> CredentialStore {
    CredentialStore::new(vec![source(folder, host, allow_plaintext)]).unwrap()
}

fn source(folder: &Path, host: &str, allow_plaintext: bool) -> CredentialSource {
    CredentialSource {
        name: "shop".parse().unwrap(),
        files: CredentialFiles::Directory(folder.to_owned()),
        header: None,
        hosts: vec![host.parse().unwrap()],
        allow_plaintext,
    }
}

fn with(ca: &Ca, credentials: CredentialStore) -> ProbeContext {
    context(ca.trusted()).with_credentials(credentials)
}

async fn ask(server: &Server, change: Value, context: &ProbeContext) -> ProbeResult {
    let mut all = json!({"scheme": "https", "port": 443});
    all.as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    run(&http(server.addr, &all, AMPLE), context).await
}

fn only(heads: &RequestHeads) -> String {
    let heads = heads.lock();
    assert_eq!(heads.len(), 1, "{heads:?}");
    heads[0].clone()
}

#[track_caller]
fn assert_not_made(result: &ProbeResult, fault: OwnFault) {
    assert_eq!(
        result.outcome,
        Outcome::NotProbed { fault },
        "{:?}",
        result.detail
    );
}

#[tokio::test]
async fn request_headers_arrive_and_replace_the_probers_own() {
    let (server, heads) = recording(OK).await;
    let change = json!({"request_headers": {"x-team": "shop a", "accept": "application/json"}});
    let result = run(
        &http(server.addr, &change, AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_ok(&result);
    let head = only(&heads);
    assert_eq!(header_values(&head, "x-team"), ["shop a"]);
    assert_eq!(header_values(&head, "accept"), ["application/json"]);
    assert_eq!(header_values(&head, "host"), [HOST]);
    server.join().await;
}

#[tokio::test]
async fn a_bearer_token_and_a_user_with_a_password_arrive_over_tls() {
    let ca = Ca::new();
    for (keys, expected) in [
        (&[("token", "t0ken\n")][..], "Bearer t0ken"),
        (
            &[("username", "user"), ("password", "pass:word\n")],
            "Basic dXNlcjpwYXNzOndvcmQ=",
        ),
    ] {
        let folder = mounted(keys);
        let context = with(&ca, credential(folder.path(), HOST, false));
        let (server, heads) = recording_https(ca.server(HOST, VALID), OK.to_owned()).await;
        assert_ok(&ask(&server, json!({"credential": "shop"}), &context).await);
        assert_eq!(header_values(&only(&heads), "authorization"), [expected]);
        server.join().await;
    }
}

#[tokio::test]
async fn a_credential_with_a_header_replaces_the_header_of_the_target() {
    let (ca, folder) = (Ca::new(), mounted(&[("token", "t0ken\n")]));
    let source = CredentialSource {
        header: "X-Api-Key".parse().ok(),
        ..source(folder.path(), HOST, false)
    };
    let context = with(&ca, CredentialStore::new(vec![source]).unwrap());
    let (server, heads) = recording_https(ca.server(HOST, VALID), OK.to_owned()).await;
    let change = json!({"credential": "shop", "request_headers": {"x-api-key": "public"}});
    assert_ok(&ask(&server, change, &context).await);
    let head = only(&heads);
    assert_eq!(header_values(&head, "x-api-key"), ["t0ken"]);
    assert_eq!(header_values(&head, "authorization"), [""; 0]);
    server.join().await;
}

#[tokio::test]
async fn a_rotated_secret_is_used_by_the_next_probe() {
    let (ca, folder) = (Ca::new(), mounted(&[("token", "first")]));
    let context = with(&ca, credential(folder.path(), HOST, false));
    let (server, heads) = recording_https(ca.server(HOST, VALID), OK.to_owned()).await;
    assert_ok(&ask(&server, json!({"credential": "shop"}), &context).await);
    std::fs::write(folder.path().join("token"), "second").unwrap();
    assert_ok(&ask(&server, json!({"credential": "shop"}), &context).await);
    std::fs::remove_file(folder.path().join("token")).unwrap();
    let gone = ask(&server, json!({"credential": "shop"}), &context).await;
    assert_not_made(&gone, OwnFault::NoCredential);
    let sent: Vec<String> = heads
        .lock()
        .iter()
        .flat_map(|head| header_values(head, "authorization"))
        .map(str::to_owned)
        .collect();
    assert_eq!(sent, ["Bearer first", "Bearer second"]);
    assert_eq!(server.join().await, 2);
}

#[tokio::test]
async fn an_answer_of_401_or_403_is_judged_like_any_other_status() {
    let (ca, folder) = (Ca::new(), mounted(&[("token", "old")]));
    let context = with(&ca, credential(folder.path(), HOST, false));
    for (code, expected, works) in [(401, "<500", true), (403, "2xx", false), (401, "401", true)] {
        let answer = format!("HTTP/1.1 {code} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let (server, _) = recording_https(ca.server(HOST, VALID), answer).await;
        let result = ask(
            &server,
            json!({"credential": "shop", "expect_status": expected}),
            &context,
        )
        .await;
        if works {
            assert_eq!(result.outcome, Outcome::Ok { status: Some(code) });
        } else {
            assert_eq!(failure(&result), (Phase::Check, FailureKind::Status));
        }
        server.join().await;
    }
}

#[tokio::test]
async fn a_probe_whose_credential_cannot_be_used_is_not_made() {
    let (ca, folder) = (Ca::new(), mounted(&[("token", "t0ken")]));
    let (server, heads) = recording_https(ca.server(HOST, VALID), OK.to_owned()).await;
    let plain = json!({"credential": "shop", "scheme": "http", "port": 80});
    let unverified = json!({"credential": "shop", "any_certificate": true});
    let own = json!({"credential": "shop"});
    let roots = json!({"credential": "shop", "extra_roots": ca.pem()});
    for (host, change, fault) in [
        (HOST, &plain, OwnFault::CredentialRefused),
        (HOST, &unverified, OwnFault::CredentialRefused),
        // The author of a plan does not choose who receives the secret.
        (HOST, &roots, OwnFault::CredentialRefused),
        ("other.example.test", &own, OwnFault::CredentialRefused),
        (HOST, &json!({"credential": "unknown"}), OwnFault::NoCredential),
        (
            HOST,
            &json!({"client_certificate": "shop"}),
            OwnFault::NoCredential,
        ),
        (
            "other.example.test",
            &json!({"client_certificate": "shop"}),
            OwnFault::CredentialRefused,
        ),
    ] {
        let context = with(&ca, credential(folder.path(), host, false));
        let result = ask(&server, change.clone(), &context).await;
        assert_not_made(&result, fault);
        assert!(!result.detail.unwrap().contains("t0ken"));
    }
    assert_eq!(heads.lock().len(), 0);
    assert_eq!(server.join().await, 0, "not even a connection");
}

#[tokio::test]
async fn a_credential_goes_over_plain_http_only_if_its_owner_allows_it() {
    let folder = mounted(&[("token", "t0ken")]);
    let (server, heads) = recording(OK).await;
    let context = context(TlsConfigs::with_roots([])).with_credentials(credential(folder.path(), HOST, true));
    assert_ok(
        &run(
            &http(server.addr, &json!({"credential": "shop"}), AMPLE),
            &context,
        )
        .await,
    );
    assert_eq!(header_values(&only(&heads), "authorization"), ["Bearer t0ken"]);
    server.join().await;
}

#[tokio::test]
async fn a_redirect_to_the_own_origin_keeps_headers_and_credential_and_another_origin_gets_neither() {
    let (ca, folder) = (Ca::new(), mounted(&[("token", "t0ken")]));
    let context = with(&ca, credential(folder.path(), HOST, true));
    let (other, others) = recording_https(ca.server(HOST, VALID), OK.to_owned()).await;
    let port = other.addr.port();
    let answers = [
        "Location: /next".to_owned(),
        format!("Location: https://{HOST}:{port}/end"),
    ];
    let heads = RequestHeads::default();
    let (seen, acceptor) = (
        Arc::clone(&heads),
        tokio_rustls::TlsAcceptor::from(ca.server(HOST, VALID)),
    );
    let server = Server::start(move |stream| {
        let (seen, acceptor, answers) = (Arc::clone(&seen), acceptor.clone(), answers.clone());
        async move {
            use tokio::io::AsyncWriteExt;
            let mut tls = acceptor.accept(stream).await.unwrap();
            let head = crate::servers::request(&mut tls).await;
            let location = &answers[usize::from(head.starts_with("GET /next "))];
            seen.lock().push(head);
            let answer = format!("HTTP/1.1 302 Found\r\n{location}\r\nContent-Length: 0\r\n\r\n");
            tls.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let change = json!({
        "credential": "shop", "request_headers": {"x-team": "shop"}, "redirects": {"max": 3, "ports": [443, port]},
    });
    let result = ask(&server, change, &context).await;
    assert_ok(&result);
    assert_eq!(heads.lock().len(), 2);
    for head in heads.lock().iter() {
        assert_eq!(header_values(head, "authorization"), ["Bearer t0ken"], "{head}");
        assert_eq!(header_values(head, "x-team"), ["shop"]);
    }
    let head = only(&others);
    assert_eq!(header_values(&head, "authorization"), [""; 0], "{head}");
    assert_eq!(header_values(&head, "x-team"), [""; 0]);
    server.join().await;
    other.join().await;
}

#[tokio::test]
async fn a_client_certificate_is_accepted_where_a_server_requires_one_and_without_it_the_server_refuses() {
    let ca = Ca::new();
    let (certificate, key) = ca.client();
    let folder = mounted(&[("tls.crt", &certificate), ("tls.key", &key)]);
    let context = with(&ca, credential(folder.path(), HOST, false));
    for (change, accepted) in [(json!({"client_certificate": "shop"}), true), (json!({}), false)] {
        let server = https(ca.demanding(HOST), OK).await;
        let result = ask(&server, change, &context).await;
        if accepted {
            assert_ok(&result);
        } else {
            assert_eq!(failure(&result), (Phase::Tls, FailureKind::TlsAlert));
        }
        server.join().await;
    }
    // A certificate of another CA is refused as well.
    let (certificate, key) = Ca::new().client();
    let folder = mounted(&[("tls.crt", &certificate), ("tls.key", &key)]);
    let context = with(&ca, credential(folder.path(), HOST, false));
    let server = https(ca.demanding(HOST), OK).await;
    let result = ask(&server, json!({"client_certificate": "shop"}), &context).await;
    assert_eq!(failure(&result), (Phase::Tls, FailureKind::TlsAlert));
    server.join().await;
}

#[tokio::test]
async fn a_tls_probe_presents_a_client_certificate() {
    let ca = Ca::new();
    let (certificate, key) = ca.client();
    let folder = mounted(&[("tls.crt", &certificate), ("tls.key", &key)]);
    let context = with(&ca, credential(folder.path(), HOST, false));
    for (client, works) in [(json!("shop"), true), (Value::Null, false)] {
        let server = https(ca.demanding(HOST), OK).await;
        let mut probe = json!({"kind": "tcp", "host": HOST, "port": 443, "tls": true,
            "send": "GET / HTTP/1.1\\r\\n\\r\\n", "expect": "200 OK"});
        if works {
            probe["client_certificate"] = client;
        }
        let result = run(
            &assignment(&probe, &json!({"address": server.addr}), AMPLE),
            &context,
        )
        .await;
        assert_eq!(
            matches!(result.outcome, Outcome::Ok { .. }),
            works,
            "{:?}",
            result.outcome
        );
        server.join().await;
    }
}
