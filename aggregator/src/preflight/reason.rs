//! What `status.reason` of a Challenge says. The words around are cert-manager's, the rest is Go's.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{FailureKind, Phase};

/// A reason, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing is said yet.
    Nothing,
    /// The self check fails.
    SelfCheck(Reason),
    /// The self check is skipped, and so long is waited (`waitInsteadOfSelfCheck`).
    Delay(String),
    /// The CA refused the challenge: it is over.
    Refused(String),
    /// The solver's objects could not be made.
    NotPresented(String),
    /// Words that are not known here.
    Other(String),
}

/// Why the self check failed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// How far it came.
    pub phase: Phase,
    /// What became of it.
    pub kind: FailureKind,
    /// The address that was dialled.
    pub address: Option<SocketAddr>,
    /// The resolver that was asked.
    pub resolver: Option<SocketAddr>,
    /// The status that came.
    pub status: Option<u16>,
    /// Pointers into the catalogue: what usually causes it.
    pub usual: &'static [&'static str],
}

const PROPAGATION: &str = "Waiting for HTTP-01 challenge propagation: ";

/// Reads a reason.
#[must_use]
pub fn reason(text: &str) -> Waiting {
    let text = text.trim();
    if text.is_empty() {
        return Waiting::Nothing;
    }
    if let Some(failure) = text.strip_prefix(PROPAGATION) {
        return failed(failure).map_or_else(|| Waiting::Other(failure.to_owned()), Waiting::SelfCheck);
    }
    let delay = text
        .strip_prefix("Waiting ")
        .and_then(|rest| rest.strip_suffix(" before accepting HTTP-01 challenge without self-check"));
    if let Some(delay) = delay {
        return Waiting::Delay(delay.to_owned());
    }
    if let Some(said) = text.strip_prefix("Error accepting authorization: ") {
        return Waiting::Refused(said.to_owned());
    }
    if text.starts_with("Error presenting challenge") || text.contains("cannot be used with pathType") {
        return Waiting::NotPresented(text.to_owned());
    }
    // Some versions leave the words in front out.
    failed(text).map_or_else(|| Waiting::Other(text.to_owned()), Waiting::SelfCheck)
}

/// Wordings in the order in which they are looked for: the more special first.
type Wording = (&'static str, Phase, FailureKind, &'static [&'static str]);

const WORDINGS: &[Wording] = &[
    (
        "wrong status code '404'",
        Phase::Check,
        FailureKind::Status,
        &["F19"],
    ),
    (
        "wrong status code '502'",
        Phase::Check,
        FailureKind::Status,
        &["F20"],
    ),
    (
        "wrong status code '503'",
        Phase::Check,
        FailureKind::Status,
        &["F20", "F21"],
    ),
    (
        "wrong status code '504'",
        Phase::Check,
        FailureKind::Status,
        &["F13"],
    ),
    (
        "wrong status code '401'",
        Phase::Check,
        FailureKind::Status,
        &["F18"],
    ),
    (
        "wrong status code '403'",
        Phase::Check,
        FailureKind::Status,
        &["F14", "F18", "F31"],
    ),
    ("wrong status code", Phase::Check, FailureKind::Status, &["F19"]),
    (
        "did not get expected response",
        Phase::Check,
        FailureKind::WrongBody,
        &["F19"],
    ),
    (
        "failed to read response body",
        Phase::Body,
        FailureKind::BodyCut,
        &["F22", "F9"],
    ),
    ("no such host", Phase::Resolve, FailureKind::NxDomain, &["F15"]),
    (
        "server misbehaving",
        Phase::Resolve,
        FailureKind::ServFail,
        &["F15"],
    ),
    (
        "stopped after 10 redirects",
        Phase::Check,
        FailureKind::RedirectTooMany,
        &["F10", "F18"],
    ),
    ("remote error: tls:", Phase::Tls, FailureKind::TlsAlert, &["F18"]),
    (
        "server gave HTTP response to HTTPS client",
        Phase::Tls,
        FailureKind::NotTls,
        &["F10"],
    ),
    (
        "first record does not look like a TLS handshake",
        Phase::Tls,
        FailureKind::NotTls,
        &["F10"],
    ),
    (
        "TLS handshake timeout",
        Phase::Tls,
        FailureKind::TlsTimeout,
        &["F10", "F22"],
    ),
    ("tls: ", Phase::Tls, FailureKind::TlsProtocol, &["F18"]),
    (
        "malformed HTTP",
        Phase::FirstByte,
        FailureKind::Malformed,
        &["F9", "F10"],
    ),
    (
        "connect: connection refused",
        Phase::Connect,
        FailureKind::Refused,
        &["F1", "F4", "F24", "F25", "F26"],
    ),
    (
        "connect: connection timed out",
        Phase::Connect,
        FailureKind::ConnectTimeout,
        &["F2", "F3", "F5", "F6", "F12", "F13", "F14"],
    ),
    (
        "connect: no route to host",
        Phase::Connect,
        FailureKind::Unreachable,
        &["F24"],
    ),
    (
        "connect: network is unreachable",
        Phase::Connect,
        FailureKind::Unreachable,
        &["F17"],
    ),
    (
        "connect: operation not permitted",
        Phase::Connect,
        FailureKind::Prohibited,
        &["F13"],
    ),
    (
        "connect: permission denied",
        Phase::Connect,
        FailureKind::Prohibited,
        &["F13"],
    ),
    (
        "connection reset by peer",
        Phase::FirstByte,
        FailureKind::Reset,
        &["F9", "F21", "F27"],
    ),
    (
        "while awaiting headers",
        Phase::FirstByte,
        FailureKind::FirstByteTimeout,
        &["F5", "F6", "F22"],
    ),
    (
        "i/o timeout",
        Phase::Connect,
        FailureKind::ConnectTimeout,
        &["F2", "F3", "F5", "F6", "F12", "F13", "F14"],
    ),
    (
        "context deadline exceeded",
        Phase::FirstByte,
        FailureKind::FirstByteTimeout,
        &["F5", "F6", "F22"],
    ),
    (
        "Client.Timeout",
        Phase::FirstByte,
        FailureKind::FirstByteTimeout,
        &["F5", "F6", "F22"],
    ),
];

fn failed(text: &str) -> Option<Reason> {
    let looked_up = text.contains("lookup ");
    let found = WORDINGS.iter().find(|(words, ..)| text.contains(words));
    let (phase, kind, usual): (Phase, FailureKind, &'static [&'static str]) = match found {
        // Go says the same of a resolver as of a server.
        Some((_, Phase::Connect, FailureKind::ConnectTimeout, _)) if looked_up => {
            (Phase::Resolve, FailureKind::ResolveTimeout, &["F16"])
        }
        Some((_, Phase::Connect, FailureKind::Refused, _)) if looked_up => {
            (Phase::Resolve, FailureKind::ResolverUnreachable, &["F15"])
        }
        // The client's own deadline passed while it still dialled.
        Some((_, Phase::FirstByte, FailureKind::FirstByteTimeout, _)) if text.contains("dial tcp") => (
            Phase::Connect,
            FailureKind::ConnectTimeout,
            &["F2", "F3", "F5", "F6", "F12", "F13", "F14"],
        ),
        Some((_, phase, kind, usual)) => (*phase, kind.clone(), usual),
        None if text.trim_end().ends_with("EOF") => (Phase::FirstByte, FailureKind::Eof, &["F9"]),
        None => return None,
    };
    Some(Reason {
        phase,
        kind,
        address: after(text, "dial tcp "),
        resolver: after(text, " on "),
        status: text
            .split_once("wrong status code '")
            .and_then(|(_, rest)| rest.split('\'').next()?.parse().ok()),
        usual,
    })
}

/// The address that follows some words, with a port or without; `[::1]:80` as Go writes it.
fn after(text: &str, words: &str) -> Option<SocketAddr> {
    text.split(words).skip(1).find_map(|rest| {
        let word = rest.split([' ', ',']).next()?.trim_end_matches(':');
        word.parse().ok().or_else(|| {
            let alone: IpAddr = word.parse().ok()?;
            Some(SocketAddr::new(alone, 80))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(tail: &str) -> String {
        let url = "http://shop.example.test/.well-known/acme-challenge/t0ken";
        format!("{PROPAGATION}failed to perform self check GET request '{url}': Get \"{url}\": {tail}")
    }

    fn read(text: &str) -> Reason {
        match reason(text) {
            Waiting::SelfCheck(reason) => reason,
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
                "F16",
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
                (found.phase, found.kind, found.usual[0]),
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
        for (said, kind, status, usual) in [
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
            let found = read(&format!("{PROPAGATION}{said}"));
            assert_eq!(
                (found.kind, found.status, found.usual[0]),
                (kind, status, usual),
                "{said}"
            );
        }
    }

    #[test]
    fn what_is_no_failing_self_check_is_told_apart() {
        assert_eq!(reason(""), Waiting::Nothing);
        assert_eq!(
            reason("Waiting 42s before accepting HTTP-01 challenge without self-check"),
            Waiting::Delay("42s".into())
        );
        assert!(matches!(
            reason("Error accepting authorization: acme: authorization error for shop.example.test: 403 urn:ietf:params:acme:error:unauthorized: 203.0.113.10: Invalid response"),
            Waiting::Refused(said) if said.starts_with("acme: authorization error")
        ));
        assert!(matches!(
            reason(
                "admission webhook denied the request: path /.well-known/acme-challenge/t.x cannot be used with pathType Exact"
            ),
            Waiting::NotPresented(_)
        ));
        assert!(matches!(reason("Something new"), Waiting::Other(_)));
        assert!(matches!(
            reason(&format!("{PROPAGATION}a new wording")),
            Waiting::Other(_)
        ));
    }
}
