//! Certificates and handshakes.

use super::{CheckOutput, check};
use crate::servers::{
    Server, answer,
    tls::{Ca, VALID},
};

fn ok(_: &str) -> String {
    answer("200 OK", "", "")
}

/// Checks a URL with its connections forced to the server.
fn check_at(server: &Server, roots: &Ca, url: &str, extra: &[&str]) -> CheckOutput {
    let mut args = vec![
        format!("--connect-to={}", server.addr),
        format!("--extra-roots={}", roots.file().display()),
        url.to_owned(),
    ];
    args.extend(extra.iter().map(|arg| (*arg).to_owned()));
    check(args)
}

#[test]
fn a_certificate_that_verifies_is_shown_with_names_issuer_and_days_left() {
    let ca = Ca::new();
    let server = ca.server(&["shop.example.test", "www.example.test"], VALID, ok);
    let output = check_at(&server, &ca, "shop.example.test", &[]);
    output.assert_output(
        0,
        &[
            "✓ https://shop.example.test/ answers 200",
            "no scheme was given: https:// is assumed",
            "certificate CN=shop, for shop.example.test and 1 more; valid until 2090-01-01,",
            "signed by CN=Test Authority, chain of 1, ECDSA 256, TLS 1.3",
            "TLS",
        ],
    );
}

#[test]
fn an_expired_certificate_says_when() {
    let ca = Ca::new();
    let server = ca.server(&["shop.example.test"], (2020, 2021), ok);
    let output = check_at(&server, &ca, "https://shop.example.test/", &[]);
    output.assert_output(
        1,
        &[
            ": the certificate has expired on 2021-01-01, ",
            " days ago",
            "; expired on 2021-01-01",
            "likely",
        ],
    );
}

#[test]
fn a_certificate_that_is_not_valid_yet_says_from_when() {
    let ca = Ca::new();
    let server = ca.server(&["shop.example.test"], (2080, 2090), ok);
    check_at(&server, &ca, "https://shop.example.test/", &[])
        .assert_output(1, &["not valid before 2080-01-01", "clock"]);
}

#[test]
fn a_certificate_for_others_lists_whom_it_is_for() {
    let ca = Ca::new();
    let server = ca.server(&["ingress.local", "*.other.test"], VALID, ok);
    let output = check_at(&server, &ca, "https://shop.example.test/", &[]);
    output.assert_output(
        1,
        &[
            "is not for shop.example.test; it is for ingress.local, *.other.test",
            "its default one",
        ],
    );
}

#[test]
fn untrusted_certificate_names_its_issuer_and_is_accepted_with_insecure() {
    let ca = Ca::new();
    let other_ca = Ca::new();
    let server = ca.server(&["shop.example.test"], VALID, ok);
    let output = check_at(&server, &other_ca, "https://shop.example.test/", &[]);
    output.assert_output(
        1,
        &[
            "not signed by a root that this machine trusts (CN=Test Authority)",
            "no intermediate",
        ],
    );
    let insecure = check_at(&server, &other_ca, "https://shop.example.test/", &["-k"]);
    insecure.assert_output(
        0,
        &[
            "answers 200",
            "accepted because of --insecure, although the certificate is not signed by a root",
        ],
    );
}

#[test]
fn addresses_with_different_certificates_show_which_has_which() {
    let ca = Ca::new();
    let right = ca.server(&["shop.example.test"], VALID, ok);
    let old = ca.server(&["shop.example.test"], (2020, 2021), ok);
    let also = format!("--connect-to={}", old.addr);
    let output = check_at(&right, &ca, "https://shop.example.test/", &[&also]);
    output.assert_output(
        1,
        &[
            &format!("presented by {}", right.addr),
            &format!("expired on 2021-01-01; presented by {}", old.addr),
            &format!("✗ {}: the certificate has expired", old.addr),
        ],
    );
}

#[test]
fn a_certificate_with_fewer_days_than_demanded_is_a_no() {
    let ca = Ca::new();
    let server = ca.server(&["shop.example.test"], VALID, ok);
    check_at(&server, &ca, "https://shop.example.test/", &["--days-left=30"]).assert_output(0, &[]);
    let output = check_at(&server, &ca, "https://shop.example.test/", &["--days-left=65000"]);
    output.assert_output(1, &["expires sooner than required"]);
}

#[test]
fn a_handshake_is_enough_for_tls() {
    let ca = Ca::new();
    let server = ca.server(&["shop.example.test"], VALID, ok);
    let output = check_at(&server, &ca, "tls://shop.example.test:443", &[]);
    output.assert_output(
        0,
        &[
            "✓ tls://shop.example.test:443 completes a TLS handshake",
            "certificate",
        ],
    );
}

#[test]
fn a_plain_request_to_a_tls_port_is_found_out() {
    let ca = Ca::new();
    let server = ca.server(&["shop.example.test"], VALID, ok);
    check_at(&server, &ca, "http://shop.example.test/", &[])
        .assert_output(1, &["a handshake succeeds (tried); use https://"]);
}

#[test]
fn http2_is_spoken_when_asked_for() {
    let ca = Ca::new();
    let server = ca.http2(&["shop.example.test"]);
    let output = check_at(&server, &ca, "https://shop.example.test/", &["--http2"]);
    output.assert_output(0, &["answers 200", "ALPN h2", "answer      HTTP/2, "]);
}

#[test]
fn a_server_without_http2_is_a_no_where_http2_is_asked_for() {
    let ca = Ca::new();
    let server = ca.server(&["shop.example.test"], VALID, ok);
    let output = check_at(&server, &ca, "https://shop.example.test/", &["--http2"]);
    output.assert_output(1, &["did not agree to HTTP/2", "leave out --http2"]);
}
