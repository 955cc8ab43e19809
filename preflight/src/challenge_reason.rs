//! Parses `status.reason` of a Challenge. The prefixes are cert-manager's; the rest is Go's.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{FailureKind, Phase};

/// A parsed reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChallengeReason {
    /// No reason is given yet.
    NoReason,
    /// The self check fails.
    SelfCheck(ParsedReason),
    /// The self check is skipped; cert-manager waits this long instead (`waitInsteadOfSelfCheck`).
    SelfCheckSkipped(String),
    /// The CA rejected the challenge, which is final.
    RejectedByCa(String),
    /// The solver's objects could not be created.
    NotPresented(String),
    /// An unknown message.
    Unrecognized(String),
}

/// The last failure of the self check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedReason {
    /// The phase that failed.
    pub phase: Phase,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The dialled address.
    pub address: Option<SocketAddr>,
    /// The queried resolver.
    pub resolver: Option<SocketAddr>,
    /// The HTTP status of the response.
    pub status: Option<u16>,
    /// Catalogue ids of the usual causes.
    pub usual_causes: &'static [&'static str],
}

const PROPAGATION_PREFIX: &str = "Waiting for HTTP-01 challenge propagation: ";

/// Parses a reason.
#[must_use]
pub fn parse_reason(text: &str) -> ChallengeReason {
    let text = text.trim();
    if text.is_empty() {
        return ChallengeReason::NoReason;
    }
    if let Some(failure) = text.strip_prefix(PROPAGATION_PREFIX) {
        return parse_failure(failure).map_or_else(
            || ChallengeReason::Unrecognized(failure.to_owned()),
            ChallengeReason::SelfCheck,
        );
    }
    let delay = text
        .strip_prefix("Waiting ")
        .and_then(|rest| rest.strip_suffix(" before accepting HTTP-01 challenge without self-check"));
    if let Some(delay) = delay {
        return ChallengeReason::SelfCheckSkipped(delay.to_owned());
    }
    if let Some(error) = text.strip_prefix("Error accepting authorization: ") {
        return ChallengeReason::RejectedByCa(error.to_owned());
    }
    if text.starts_with("Error presenting challenge") || text.contains("cannot be used with pathType") {
        return ChallengeReason::NotPresented(text.to_owned());
    }
    // Some versions omit the prefix.
    parse_failure(text).map_or_else(
        || ChallengeReason::Unrecognized(text.to_owned()),
        ChallengeReason::SelfCheck,
    )
}

/// A message fragment and its meaning. The list is searched in order: specific fragments come first.
type ReasonWording = (&'static str, Phase, FailureKind, &'static [&'static str]);

const REASON_WORDINGS: &[ReasonWording] = &[
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

fn parse_failure(text: &str) -> Option<ParsedReason> {
    let looked_up = text.contains("lookup ");
    let found = REASON_WORDINGS.iter().find(|(words, ..)| text.contains(words));
    let (phase, kind, usual): (Phase, FailureKind, &'static [&'static str]) = match found {
        // Go uses the same message for a resolver and a server.
        Some((_, Phase::Connect, FailureKind::ConnectTimeout, _)) if looked_up => {
            (Phase::Resolve, FailureKind::ResolveTimeout, &["P10", "P9"])
        }
        Some((_, Phase::Connect, FailureKind::Refused, _)) if looked_up => {
            (Phase::Resolve, FailureKind::ResolverUnreachable, &["F15"])
        }
        // The client's own deadline expired while it was still dialling.
        Some((_, Phase::FirstByte, FailureKind::FirstByteTimeout, _)) if text.contains("dial tcp") => (
            Phase::Connect,
            FailureKind::ConnectTimeout,
            &["F2", "F3", "F5", "F6", "F12", "F13", "F14"],
        ),
        Some((_, phase, kind, usual)) => (*phase, kind.clone(), usual),
        None if text.trim_end().ends_with("EOF") => (Phase::FirstByte, FailureKind::Eof, &["F9"]),
        None => return None,
    };
    Some(ParsedReason {
        phase,
        kind,
        address: address_after(text, "dial tcp "),
        resolver: address_after(text, " on "),
        status: text
            .split_once("wrong status code '")
            .and_then(|(_, rest)| rest.split('\'').next()?.parse().ok()),
        usual_causes: usual,
    })
}

/// Returns the address that follows a marker, with or without a port; IPv6 as Go writes it (`[::1]:80`).
fn address_after(text: &str, words: &str) -> Option<SocketAddr> {
    text.split(words).skip(1).find_map(|rest| {
        let word = rest.split([' ', ',']).next()?.trim_end_matches(':');
        word.parse().ok().or_else(|| {
            let alone: IpAddr = word.parse().ok()?;
            Some(SocketAddr::new(alone, 80))
        })
    })
}

#[cfg(test)]
#[path = "challenge_reason_tests.rs"]
mod tests;
