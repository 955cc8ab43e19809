use super::*;

fn transport(tail: &str) -> String {
    let url = "http://shop.example.test/.well-known/acme-challenge/t0ken";
    format!("{PROPAGATION_PREFIX}failed to perform self check GET request '{url}': Get \"{url}\": {tail}")
}

fn read(text: &str) -> ParsedReason {
    match parse_reason(text) {
        ChallengeReason::SelfCheck(reason) => reason,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_wording_of_a_transport_error_is_read() {
    for (tail, phase, kind, usual) in [
        (
            "dial tcp 203.0.113.10:80: connect: connection refused",
            Phase::Connect,
            FailureKind::Refused,
            "F1",
        ),
        (
            "dial tcp 203.0.113.10:80: i/o timeout",
            Phase::Connect,
            FailureKind::ConnectTimeout,
            "F2",
        ),
        (
            "dial tcp 203.0.113.10:80: connect: connection timed out",
            Phase::Connect,
            FailureKind::ConnectTimeout,
            "F2",
        ),
        (
            "dial tcp 203.0.113.10:80: connect: no route to host",
            Phase::Connect,
            FailureKind::Unreachable,
            "F24",
        ),
        (
            "dial tcp [2001:db8::1]:80: connect: network is unreachable",
            Phase::Connect,
            FailureKind::Unreachable,
            "F17",
        ),
        (
            "dial tcp: lookup shop.example.test on 10.96.0.10:53: no such host",
            Phase::Resolve,
            FailureKind::NxDomain,
            "F15",
        ),
        (
            "dial tcp: lookup shop.example.test on 10.96.0.10:53: server misbehaving",
            Phase::Resolve,
            FailureKind::ServFail,
            "F15",
        ),
        (
            "dial tcp: lookup shop.example.test on 10.96.0.10:53: read udp 10.244.0.7:4711->10.96.0.10:53: i/o timeout",
            Phase::Resolve,
            FailureKind::ResolveTimeout,
            "P10",
        ),
        (
            "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            Phase::FirstByte,
            FailureKind::FirstByteTimeout,
            "F5",
        ),
        (
            "dial tcp 203.0.113.10:80: i/o timeout (Client.Timeout exceeded while awaiting headers)",
            Phase::Connect,
            FailureKind::ConnectTimeout,
            "F2",
        ),
        ("EOF", Phase::FirstByte, FailureKind::Eof, "F9"),
        (
            "read tcp 10.244.0.7:4711->203.0.113.10:80: read: connection reset by peer",
            Phase::FirstByte,
            FailureKind::Reset,
            "F9",
        ),
        (
            "remote error: tls: unrecognized name",
            Phase::Tls,
            FailureKind::TlsAlert,
            "F18",
        ),
        (
            "http: server gave HTTP response to HTTPS client",
            Phase::Tls,
            FailureKind::NotTls,
            "F10",
        ),
        (
            "stopped after 10 redirects",
            Phase::Check,
            FailureKind::RedirectTooMany,
            "F10",
        ),
        (
            "net/http: HTTP/1.x transport connection broken: malformed HTTP response \"\\x15\\x03\"",
            Phase::FirstByte,
            FailureKind::Malformed,
            "F9",
        ),
    ] {
        let found = read(&transport(tail));
        assert_eq!(
            (found.phase, found.kind, found.usual_causes[0]),
            (phase, kind, usual),
            "{tail}"
        );
    }
}

#[test]
fn the_addresses_that_a_reason_names_are_read() {
    let refused = read(&transport(
        "dial tcp 203.0.113.10:80: connect: connection refused",
    ));
    assert_eq!(refused.address, Some("203.0.113.10:80".parse().unwrap()));
    let six = read(&transport("dial tcp [2001:db8::1]:80: i/o timeout"));
    assert_eq!(six.address, Some("[2001:db8::1]:80".parse().unwrap()));
    let lookup = read(&transport(
        "dial tcp: lookup a.test on 10.96.0.10:53: no such host",
    ));
    assert_eq!(
        (lookup.address, lookup.resolver),
        (None, Some("10.96.0.10:53".parse().unwrap()))
    );
}

#[test]
fn every_wording_of_an_answer_error_is_read() {
    for (message, kind, status, usual) in [
        (
            "wrong status code '404', expected '200'",
            FailureKind::Status,
            Some(404),
            "F19",
        ),
        (
            "wrong status code '503', expected '200'",
            FailureKind::Status,
            Some(503),
            "F20",
        ),
        (
            "wrong status code '504', expected '200'",
            FailureKind::Status,
            Some(504),
            "F13",
        ),
        (
            "wrong status code '403', expected '200'",
            FailureKind::Status,
            Some(403),
            "F14",
        ),
        (
            "wrong status code '418', expected '200'",
            FailureKind::Status,
            Some(418),
            "F19",
        ),
        (
            "did not get expected response \"t0ken.thumb\" when querying endpoint",
            FailureKind::WrongBody,
            None,
            "F19",
        ),
        (
            "did not get expected response when querying endpoint, expected \"t0ken.thumb\" but got: <!doctype html>... (truncated)",
            FailureKind::WrongBody,
            None,
            "F19",
        ),
        (
            "failed to read response body: unexpected EOF",
            FailureKind::BodyCut,
            None,
            "F22",
        ),
    ] {
        let found = read(&format!("{PROPAGATION_PREFIX}{message}"));
        assert_eq!(
            (found.kind, found.status, found.usual_causes[0]),
            (kind, status, usual),
            "{message}"
        );
    }
}

#[test]
fn what_is_no_failing_self_check_is_told_apart() {
    assert_eq!(parse_reason(""), ChallengeReason::NoReason);
    assert_eq!(
        parse_reason("Waiting 42s before accepting HTTP-01 challenge without self-check"),
        ChallengeReason::SelfCheckSkipped("42s".into())
    );
    assert!(matches!(
        parse_reason("Error accepting authorization: acme: authorization error for shop.example.test: 403 urn:ietf:params:acme:error:unauthorized: 203.0.113.10: Invalid response"),
        ChallengeReason::RejectedByCa(message) if message.starts_with("acme: authorization error")
    ));
    assert!(matches!(
        parse_reason(
            "admission webhook denied the request: path /.well-known/acme-challenge/t.x cannot be used with pathType Exact"
        ),
        ChallengeReason::NotPresented(_)
    ));
    assert!(matches!(
        parse_reason("Something new"),
        ChallengeReason::Unrecognized(_)
    ));
    assert!(matches!(
        parse_reason(&format!("{PROPAGATION_PREFIX}a new wording")),
        ChallengeReason::Unrecognized(_)
    ));
}
