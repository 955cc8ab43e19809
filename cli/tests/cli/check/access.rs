//! Request headers, credentials and proxies.

use std::{fs, path::Path};

use super::{CheckOutput, check};
use crate::servers::{
    RequestHeads, Server,
    tls::{Ca, VALID},
};

fn check_at(url: &str, ca: &Ca, extra: &[&str]) -> CheckOutput {
    let roots = format!("--extra-roots={}", ca.file().display());
    check([&[roots.as_str(), url], extra].concat())
}

fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn url(server: &Server) -> String {
    format!("https://{}/", server.addr)
}

#[test]
fn headers_and_credentials_arrive_and_are_not_shown() {
    let (ca, folder) = (Ca::new(), tempfile::tempdir().unwrap());
    let heads = RequestHeads::default();
    let server = ca.recording(&["127.0.0.1"], heads.clone());
    let token = file(folder.path(), "token", "t0ken\n");
    let pair = file(folder.path(), "pair", "user:pass\n");
    for (flag, path, sent) in [
        ("--bearer-file", &token, "authorization: Bearer t0ken"),
        ("--basic-file", &pair, "authorization: Basic dXNlcjpwYXNz"),
    ] {
        let output = check_at(&url(&server), &ca, &["--header", "X-Team: shop", flag, path]);
        output.assert_output(0, &["answers 200"]);
        let head = heads.lock().unwrap().pop().unwrap();
        assert!(head.contains("x-team: shop\r\n") && head.contains(sent), "{head}");
        for secret in ["t0ken", "pass", "dXNl"] {
            assert!(
                !output.out.contains(secret) && !output.err.contains(secret),
                "{}",
                output.out
            );
        }
    }
}

#[test]
fn a_client_certificate_opens_a_server_that_requires_one() {
    let (ca, folder) = (Ca::new(), tempfile::tempdir().unwrap());
    ca.write_client_certificate(folder.path());
    let server = ca.demanding(&["127.0.0.1"]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let flags = ["--client-cert", &at("tls.crt"), "--client-key", &at("tls.key")];
    check_at(&url(&server), &ca, &flags).assert_output(0, &["answers 200"]);
    check_at(&url(&server), &ca, &[]).assert_output(1, &["alert"]);
}

#[test]
fn a_redirect_to_another_origin_gets_neither_headers_nor_credentials() {
    let (ca, folder) = (Ca::new(), tempfile::tempdir().unwrap());
    let heads = RequestHeads::default();
    let other = ca.recording(&["127.0.0.1"], heads.clone());
    let to = url(&other);
    let server = ca.server(&["127.0.0.1"], VALID, move |_| {
        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
    });
    let token = file(folder.path(), "token", "t0ken");
    let flags = ["--header", "X-Team: shop", "--bearer-file", &token];
    check_at(&url(&server), &ca, &flags).assert_output(0, &["answers 200"]);
    let head = heads.lock().unwrap().pop().unwrap().to_ascii_lowercase();
    assert!(
        !head.contains("t0ken") && !head.contains("authorization") && !head.contains("x-team"),
        "{head}"
    );
}

#[test]
fn through_a_proxy_its_address_is_checked_and_its_failure_is_told_from_the_targets() {
    let heads = RequestHeads::default();
    let proxy = Server::recording(heads.clone());
    let folder = tempfile::tempdir().unwrap();
    let pair = file(folder.path(), "pair", "user:pass");
    let at = format!("http://{}", proxy.addr);
    let output = check([
        "http://shop.example.test/",
        "--proxy",
        &at,
        "--proxy-basic-file",
        &pair,
    ]);
    output.assert_output(0, &["answers 200", &proxy.addr.to_string()]);
    let head = heads.lock().unwrap().pop().unwrap();
    assert!(
        head.starts_with("GET http://shop.example.test/ HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("proxy-authorization: Basic dXNlcjpwYXNz"), "{head}");
    drop(proxy);
    let output = check(["https://shop.example.test/", "--proxy", &at]);
    output.assert_output(1, &["the proxy refuses the connection"]);
}

#[test]
fn what_would_show_a_secret_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let token = file(folder.path(), "token", "t0ken");
    for (args, words) in [
        (
            &["http://a.test/", "--bearer-file", &token][..],
            "--bearer-file: not over plain HTTP",
        ),
        (
            &["https://a.test/", "-k", "--basic-file", &token],
            "with tlsVerify: false",
        ),
        (
            &["https://a.test/", "--header", "Authorization: Bearer x"],
            "--header: \"Authorization\"",
        ),
        (
            &["https://a.test/", "--header", "X-Team shop"],
            "expected NAME: VALUE",
        ),
        (
            &["https://a.test/", "-H", "A: 1", "-H", "A: 2"],
            "the same header is given twice",
        ),
        (
            &["https://a.test/", "--proxy", "http://u:s3cret@p:1"],
            "use --proxy-basic-file",
        ),
        (&["https://a.test/", "--client-cert", &token], "--client-key"),
        (
            &["http://a.test/", "--client-cert", &token, "--client-key", &token],
            "--client-cert: only for https and tls",
        ),
        (
            &["tcp://a.test:1", "--bearer-file", &token],
            "only for http and https",
        ),
    ] {
        let output = check(args);
        assert_eq!(output.code, Some(2), "{args:?}: {}{}", output.out, output.err);
        assert!(output.err.contains(words), "{args:?}: {}", output.err);
    }
}

#[test]
fn a_credential_that_cannot_be_read_leaves_the_result_unknown() {
    let ca = Ca::new();
    let server = ca.recording(&["127.0.0.1"], RequestHeads::default());
    let output = check_at(&url(&server), &ca, &["--bearer-file", "/nonexistent/token"]);
    output.assert_output(3, &["the credential cannot be used", "/nonexistent/token"]);
}
