//! Every address of a name is probed separately.

use std::io::Write;

use hickory_proto::rr::RecordType;

use super::check;
use crate::servers::{
    RefusingPort, Server, answer,
    dns::{Dns, ScriptedResponse},
    request,
};

fn resolver(dns: &Dns) -> String {
    format!("--resolver={}", dns.addr)
}

fn ok() -> Server {
    Server::http(|_| answer("200 OK", "", ""))
}

#[test]
fn a_dead_ipv6_address_beside_a_live_ipv4_one_is_a_warning_and_with_every_address_a_no() {
    let (server, _dead) = RefusingPort::server_and_refusing_port(ok);
    let port = server.addr.port();
    let dns = Dns::always(&["127.0.0.1"], &["::1"]);
    let url = format!("http://shop.example.test:{port}/");
    let output = check([&resolver(&dns), &url]);
    output.assert_output(
        0,
        &[
            "✓ http://shop.example.test",
            "A 127.0.0.1 (TTL 30 s); AAAA ::1 (TTL 30 s), via 127.0.0.1:",
            "IPv6 does not work: connection refused; clients that prefer it",
        ],
    );
    check([&resolver(&dns), "--every-address", &url]).assert_output(1, &["IPv6 does not work"]);
    check([&resolver(&dns), "-6", &url]).assert_output(1, &["✗", "connection refused"]);
    check([&resolver(&dns), "-4", &url]).assert_output(0, &["answers 200"]);
}

#[test]
fn an_address_that_accepts_and_then_fails_is_a_no_because_its_clients_have_no_second_try() {
    let good = ok();
    let bad = Server::start(|mut stream| {
        request(&mut stream);
    });
    let args = [
        format!("--connect-to={}", good.addr),
        format!("--connect-to={}", bad.addr),
        "http://shop.example.test/".to_owned(),
    ];
    check(args).assert_output(1, &["before the first byte of a response", "✓ 200"]);
}

#[test]
fn addresses_that_answer_differently_are_a_finding() {
    let one = ok();
    let other = Server::http(|_| answer("404 Not Found", "", ""));
    let args = [
        format!("--connect-to={}", one.addr),
        format!("--connect-to={}", other.addr),
        "http://shop.example.test/".to_owned(),
    ];
    check(args).assert_output(
        0,
        &[
            "the addresses answer differently: 200 at 127.0.0.1:",
            "404 at 127.0.0.1:",
        ],
    );
}

#[test]
fn a_forced_address_keeps_the_host_of_the_url() {
    let server = Server::start(|mut stream| {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if std::io::Read::read_exact(&mut stream, &mut byte).is_err() {
                return;
            }
            request.push(byte[0]);
        }
        let right = String::from_utf8_lossy(&request)
            .to_lowercase()
            .contains("host: shop.example.test\r\n");
        let status = if right {
            "200 OK"
        } else {
            "421 Misdirected Request"
        };
        let _ = stream.write_all(answer(status, "", "").as_bytes());
    });
    let output = check([
        format!("--connect-to={}", server.addr),
        "--expect-status=200".to_owned(),
        "http://shop.example.test/".to_owned(),
    ]);
    output.assert_output(0, &["✓ http://shop.example.test/ answers 200"]);
}

#[test]
fn a_redirect_to_another_host_asks_the_same_resolver() {
    let server = Server::http(|path| match path {
        "/there" => answer("200 OK", "", ""),
        port => answer(
            "302 Found",
            &format!("Location: http://other.example.test:{}/there\r\n", &port[1..]),
            "",
        ),
    });
    let port = server.addr.port();
    let dns = Dns::always(&["127.0.0.1"], &[]);
    let output = check([resolver(&dns), format!("http://shop.example.test:{port}/{port}")]);
    output.assert_output(
        0,
        &[
            "answers 200 after a redirect",
            &format!("http://other.example.test:{port}/there  200"),
        ],
    );
}

#[test]
fn a_redirect_to_a_host_that_does_not_exist_names_that_host() {
    let server = Server::http(|_| answer("302 Found", "Location: http://gone.example.test/\r\n", ""));
    let dns = Dns::start(|name, record| match (name, record) {
        ("gone.example.test", _) => ScriptedResponse::NoSuchName,
        (_, RecordType::A) => ScriptedResponse::Addresses(&["127.0.0.1"]),
        _ => ScriptedResponse::Addresses(&[]),
    });
    let output = check([
        resolver(&dns),
        format!("http://shop.example.test:{}/", server.addr.port()),
    ]);
    output.assert_output(
        1,
        &[
            ": gone.example.test does not exist",
            "http://gone.example.test/  not requested",
        ],
    );
}

#[test]
fn the_profiles_differ_where_ipv6_is_dead() {
    let (server, _dead) = RefusingPort::server_and_refusing_port(ok);
    let port = server.addr.port();
    let dns = Dns::always(&["127.0.0.1"], &["::1"]);
    let url = format!("http://shop.example.test:{port}/");
    let as_client = |profile: &str| check([&resolver(&dns), &format!("--profile={profile}"), &url]);
    as_client("cert-manager").assert_output(
        0,
        &["was fetched in", "as cert-manager's self check: races", "[::1]:"],
    );
    as_client("pebble").assert_output(1, &[": connection refused", "uses the first address only"]);
    as_client("ca").assert_output(1, &["private or reserved addresses only"]);
}

#[test]
fn profile_compares_content_only_with_expect_body() {
    let server = Server::http(|_| answer("200 OK", "", "token.key"));
    let fetched = |extra: &[&str]| {
        let url = server.url("/.well-known/acme-challenge/token");
        check([&["--profile=cert-manager", &url], extra].concat())
    };
    fetched(&[]).assert_output(0, &["does not compare the content; see --expect-body"]);
    fetched(&["--expect-body=token.key"]).assert_output(0, &["was fetched"]);
    fetched(&["--expect-body=another"])
        .assert_output(1, &["content of the response is not what was expected"]);
}

#[test]
fn caa_records_that_forbid_the_authority_fail_its_profile_in_its_own_words() {
    let dns = Dns::start(|name, record| match (name, record) {
        ("example.test", RecordType::CAA) => ScriptedResponse::Issue("ca.example.net"),
        (_, RecordType::A) => ScriptedResponse::Addresses(&["127.0.0.1"]),
        _ => ScriptedResponse::Addresses(&[]),
    });
    let as_ca = |extra: &[&str]| {
        let url = "http://shop.example.test/";
        check([&[&*resolver(&dns), "--profile=ca", url], extra].concat())
    };
    as_ca(&[]).assert_output(
        1,
        &[
            "the CAA records of example.test allow ca.example.net only, not letsencrypt.org",
            "CAA         letsencrypt.org may not issue, according to example.test (0 issue \"ca.example.net\")",
            "caa: While processing CAA for shop.example.test: CAA record for example.test prevents issuance",
            "dns: no valid A records found for shop.example.test; no valid AAAA records found for shop.example.test",
        ],
    );
    let allowed = as_ca(&["--caa-issuer=ca.example.net"]);
    allowed.assert_output(1, &["ca.example.net may issue, according to example.test"]);
    allowed.assert_lacks("prevents issuance");
}

#[test]
fn a_resolver_that_fails_on_caa_records_fails_the_authority_and_no_other_client() {
    let dns = Dns::start(|_, record| match record {
        RecordType::CAA => ScriptedResponse::Fails,
        RecordType::A => ScriptedResponse::Addresses(&["127.0.0.1"]),
        _ => ScriptedResponse::Addresses(&[]),
    });
    let server = Server::http(|_| answer("200 OK", "", "token.key"));
    let url = format!("http://shop.example.test:{}/", server.addr.port());
    check([&resolver(&dns), "--profile=cert-manager", &url]).assert_output(0, &["was fetched"]);
    check([&resolver(&dns), "--profile=ca", &url])
        .assert_output(1, &["SERVFAIL looking up CAA for shop.example.test"]);
}
