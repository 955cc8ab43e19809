//! Renders an outcome as the message that cert-manager or the CA would print, so that people find the message that
//! they have seen. Sources: cert-manager 1.21 with Go's errors; Boulder's `va/http.go` and `detailedError`, August
//! 2026; Pebble 2.4.

use parallax_model::{ChallengeClient, ChallengeSight, FailureKind, Outcome, Phase};

/// Returns cert-manager's message for a failed self check.
#[must_use]
pub fn self_check_message(outcome: &Outcome, sight: &ChallengeSight, url: &str) -> Option<String> {
    let Outcome::Failed { phase, kind, status } = outcome else {
        return None;
    };
    let answer = match (phase, kind) {
        (Phase::Check, FailureKind::Status) => Some(format!(
            "wrong status code '{}', expected '200'",
            status.unwrap_or_default()
        )),
        (Phase::Check, FailureKind::WrongBody) => {
            Some("did not get expected response \"KEY\" when querying endpoint".to_owned())
        }
        (Phase::Body, _) => Some("failed to read response body: unexpected EOF".to_owned()),
        _ => None,
    };
    if let Some(answer) = answer {
        return Some(answer);
    }
    let at = last_dialled(sight);
    let host = host_of_url(url);
    let tail = match kind {
        FailureKind::NxDomain | FailureKind::NoAddress => format!("dial tcp: lookup {host}: no such host"),
        FailureKind::ServFail | FailureKind::DnsRefused | FailureKind::DnsMalformed => {
            format!("dial tcp: lookup {host}: server misbehaving")
        }
        FailureKind::ResolveTimeout | FailureKind::ResolverUnreachable => {
            format!("dial tcp: lookup {host}: i/o timeout")
        }
        FailureKind::Refused => format!("dial tcp {at}: connect: connection refused"),
        FailureKind::Unreachable => format!("dial tcp {at}: connect: no route to host"),
        FailureKind::Prohibited => format!("dial tcp {at}: connect: operation not permitted"),
        FailureKind::ConnectTimeout => format!("dial tcp {at}: i/o timeout"),
        FailureKind::Reset => "read: connection reset by peer".to_owned(),
        FailureKind::Eof => "EOF".to_owned(),
        FailureKind::FirstByteTimeout => {
            "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned()
        }
        FailureKind::NotTls => "http: server gave HTTP response to HTTPS client".to_owned(),
        FailureKind::TlsAlert => "remote error: tls: handshake failure".to_owned(),
        FailureKind::Malformed => "malformed HTTP response".to_owned(),
        FailureKind::RedirectTooMany => "stopped after 10 redirects".to_owned(),
        other => other.description().to_owned(),
    };
    Some(format!(
        "failed to perform self check GET request '{url}': Get \"{url}\": {tail}"
    ))
}

/// Returns the CA's message for a failed validation: the problem type of RFC 8555 §6.7, and its detail.
#[must_use]
pub fn ca_message(
    client: ChallengeClient,
    outcome: &Outcome,
    sight: &ChallengeSight,
    url: &str,
) -> Option<(&'static str, String)> {
    let Outcome::Failed { phase, kind, status } = outcome else {
        return None;
    };
    if client == ChallengeClient::Pebble {
        return Some(pebble_message(kind, *status, sight, url));
    }
    let last = sight.redirects.last().map_or(url, |hop| hop.url.as_str());
    let host = host_of_url(url);
    if *phase == Phase::Resolve {
        let lookup = match kind {
            FailureKind::NoAddress => {
                format!("no valid A records found for {host}; no valid AAAA records found for {host}")
            }
            FailureKind::NxDomain => format!(
                "DNS problem: NXDOMAIN looking up A for {host} - check that a DNS record exists for this domain"
            ),
            FailureKind::ServFail => format!(
                "DNS problem: SERVFAIL looking up A for {host} - the domain's nameservers may be malfunctioning"
            ),
            FailureKind::ResolveTimeout => format!("DNS problem: query timed out looking up A for {host}"),
            _ => format!("DNS problem: networking error looking up A for {host}"),
        };
        return Some(("dns", lookup));
    }
    let (problem, detail) = boulder_message(*phase, kind, *status, sight, last);
    let ip = sight
        .dials
        .iter()
        .rfind(|dial| !dial.abandoned)
        .map(|dial| dial.address.ip());
    Some((
        problem,
        match ip {
            Some(_) if detail.starts_with("The key authorization") => detail,
            Some(ip) if problem == "unauthorized" => format!("{ip}: {detail}"),
            Some(ip) => format!("{ip}: Fetching {last}: {detail}"),
            None => format!("Fetching {last}: {detail}"),
        },
    ))
}

fn boulder_message(
    phase: Phase,
    kind: &FailureKind,
    status: Option<u16>,
    sight: &ChallengeSight,
    url: &str,
) -> (&'static str, String) {
    let error = sight.error.as_deref().unwrap_or_default();
    let text: &str = match kind {
        FailureKind::ConnectTimeout => "Timeout during connect (likely firewall problem)",
        FailureKind::Refused => "Connection refused",
        FailureKind::Reset => "Connection reset by peer",
        FailureKind::Unreachable => "Network unreachable",
        FailureKind::FirstByteTimeout | FailureKind::TlsTimeout => {
            "Timeout after connect (your server may be slow or overloaded)"
        }
        FailureKind::BodyStalled => "Timeout during read (your server may be slow or overloaded)",
        FailureKind::RedirectLoop => "Redirect loop detected",
        FailureKind::RedirectTooMany => "Too many redirects",
        FailureKind::RedirectRefused => return ("connection", redirect_message(error)),
        FailureKind::NotTls => return ("malformed", "Server only speaks HTTP, not TLS".to_owned()),
        FailureKind::TlsAlert | FailureKind::TlsProtocol => return ("tls", format!("remote error: {error}")),
        FailureKind::Status => {
            return (
                "unauthorized",
                format!("Invalid response from {url}: {}", status.unwrap_or_default()),
            );
        }
        FailureKind::BodyTooLarge => return ("unauthorized", format!("Invalid response from {url}: \"…\"")),
        FailureKind::WrongBody => {
            return (
                "unauthorized",
                "The key authorization file from the server did not match this challenge. Expected \"KEY\" (got another)"
                    .to_owned(),
            );
        }
        _ if phase == Phase::Body => {
            return (
                "unauthorized",
                "Error reading HTTP response body: unexpected EOF".to_owned(),
            );
        }
        _ => "Error getting validation data",
    };
    ("connection", text.to_owned())
}

/// Translates the reason for a refused redirect, as `RedirectRefusal` of the prober prints it, into Boulder's message.
fn redirect_message(reason: &str) -> String {
    let behind = |words: &str| reason.split_once(words).map(|(_, rest)| rest.trim().to_owned());
    if let Some(port) = behind("to port ") {
        return format!("Invalid port in redirect target. Only ports 80 and 443 are supported, not {port}");
    }
    if let Some(scheme) = behind("to the scheme ") {
        return format!(
            "Invalid protocol scheme in redirect target. Only \"http\" and \"https\" protocol schemes are supported, not \"{scheme}\""
        );
    }
    if reason.contains("must not be used here") {
        return "received disallowed redirect status code".to_owned();
    }
    if reason.contains("too long a path") {
        return "Redirect target too long".to_owned();
    }
    if let Some(host) = reason
        .strip_suffix(", where a slash is missing")
        .and_then(|text| text.rsplit(' ').next())
    {
        return format!(
            "Invalid host in redirect target \"{host}\". Check webserver config for missing '/' in redirect target."
        );
    }
    if reason.contains("no public name") {
        return "Invalid host in redirect target, must end in IANA registered TLD".to_owned();
    }
    "Invalid host in redirect target".to_owned()
}

fn pebble_message(
    kind: &FailureKind,
    status: Option<u16>,
    sight: &ChallengeSight,
    url: &str,
) -> (&'static str, String) {
    let at = last_dialled(sight);
    match kind {
        FailureKind::NxDomain
        | FailureKind::NoAddress
        | FailureKind::ServFail
        | FailureKind::DnsRefused
        | FailureKind::DnsMalformed
        | FailureKind::ResolveTimeout
        | FailureKind::ResolverUnreachable => ("connection", "could not resolve URL".to_owned()),
        FailureKind::Status => (
            "unauthorized",
            format!(
                "Non-200 status code from HTTP: {url} returned {}",
                status.unwrap_or_default()
            ),
        ),
        FailureKind::WrongBody | FailureKind::BodyTooLarge => (
            "unauthorized",
            "The key authorization file from the server did not match this challenge".to_owned(),
        ),
        FailureKind::Refused => (
            "connection",
            format!("dial tcp {at}: connect: connection refused"),
        ),
        FailureKind::Reset => ("connection", "read: connection reset by peer".to_owned()),
        FailureKind::Eof => ("connection", "EOF".to_owned()),
        FailureKind::FirstByteTimeout | FailureKind::ConnectTimeout | FailureKind::TlsTimeout => (
            "connection",
            "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned(),
        ),
        FailureKind::RedirectTooMany => ("connection", "stopped after 10 redirects".to_owned()),
        other => ("connection", other.description().to_owned()),
    }
}

/// The address that was dialled last.
fn last_dialled(sight: &ChallengeSight) -> String {
    sight
        .dials
        .iter()
        .rfind(|dial| !dial.abandoned)
        .map_or_else(String::new, |dial| dial.address.to_string())
}

fn host_of_url(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use parallax_model::DialSight;

    use super::*;
    use crate::{ChallengeReason, parse_reason};

    const URL: &str = "http://shop.example.test/.well-known/acme-challenge/t0ken";

    fn sight(error: &str) -> ChallengeSight {
        ChallengeSight {
            dials: vec![DialSight {
                address: "203.0.113.10:80".parse().unwrap(),
                failure: None,
                abandoned: false,
            }],
            error: Some(error.to_owned()),
            ..ChallengeSight::default()
        }
    }

    fn failed(phase: Phase, kind: FailureKind, status: Option<u16>) -> Outcome {
        Outcome::Failed { phase, kind, status }
    }

    #[test]
    fn messages_match_boulders_wording() {
        for (phase, kind, status, error, expected) in [
            (Phase::Connect, FailureKind::Refused, None, "", ("connection", format!("203.0.113.10: Fetching {URL}: Connection refused"))),
            (Phase::Connect, FailureKind::ConnectTimeout, None, "", ("connection", format!("203.0.113.10: Fetching {URL}: Timeout during connect (likely firewall problem)"))),
            (Phase::FirstByte, FailureKind::Eof, None, "", ("connection", format!("203.0.113.10: Fetching {URL}: Error getting validation data"))),
            (Phase::Check, FailureKind::Status, Some(404), "", ("unauthorized", format!("203.0.113.10: Invalid response from {URL}: 404"))),
            (Phase::Check, FailureKind::RedirectRefused, None, "redirected by 301 to port 8443",
             ("connection", format!("203.0.113.10: Fetching {URL}: Invalid port in redirect target. Only ports 80 and 443 are supported, not 8443"))),
            (Phase::Check, FailureKind::RedirectRefused, None, "redirected by 303 which must not be used here",
             ("connection", format!("203.0.113.10: Fetching {URL}: received disallowed redirect status code"))),
            (Phase::Check, FailureKind::RedirectRefused, None, "redirected by 301 to shop.example.test.well-known, where a slash is missing",
             ("connection", format!("203.0.113.10: Fetching {URL}: Invalid host in redirect target \"shop.example.test.well-known\". Check webserver config for missing '/' in redirect target."))),
            (Phase::Check, FailureKind::RedirectLoop, None, "", ("connection", format!("203.0.113.10: Fetching {URL}: Redirect loop detected"))),
            (Phase::Tls, FailureKind::NotTls, None, "", ("malformed", format!("203.0.113.10: Fetching {URL}: Server only speaks HTTP, not TLS"))),
            (Phase::Resolve, FailureKind::NoAddress, None, "",
             ("dns", "no valid A records found for shop.example.test; no valid AAAA records found for shop.example.test".to_owned())),
        ] {
            let outcome = failed(phase, kind, status);
            let (problem, text) = ca_message(ChallengeClient::Boulder, &outcome, &sight(error), URL).unwrap();
            assert_eq!((problem, text), expected);
        }
        let fine = Outcome::Ok { status: Some(200) };
        assert_eq!(ca_message(ChallengeClient::Boulder, &fine, &sight(""), URL), None);
    }

    #[test]
    fn what_we_say_in_cert_managers_words_reads_as_the_same_failure_again() {
        for (phase, kind, status) in [
            (Phase::Resolve, FailureKind::NxDomain, None),
            (Phase::Resolve, FailureKind::ServFail, None),
            (Phase::Resolve, FailureKind::ResolveTimeout, None),
            (Phase::Connect, FailureKind::Refused, None),
            (Phase::Connect, FailureKind::ConnectTimeout, None),
            (Phase::Connect, FailureKind::Unreachable, None),
            (Phase::Connect, FailureKind::Prohibited, None),
            (Phase::FirstByte, FailureKind::Reset, None),
            (Phase::FirstByte, FailureKind::Eof, None),
            (Phase::FirstByte, FailureKind::FirstByteTimeout, None),
            (Phase::FirstByte, FailureKind::Malformed, None),
            (Phase::Tls, FailureKind::NotTls, None),
            (Phase::Tls, FailureKind::TlsAlert, None),
            (Phase::Check, FailureKind::Status, Some(503)),
            (Phase::Check, FailureKind::WrongBody, None),
            (Phase::Check, FailureKind::RedirectTooMany, None),
        ] {
            let outcome = failed(phase, kind.clone(), status);
            let message = self_check_message(&outcome, &sight(""), URL).unwrap();
            let ChallengeReason::SelfCheck(read) =
                parse_reason(&format!("Waiting for HTTP-01 challenge propagation: {message}"))
            else {
                panic!("{message}")
            };
            assert_eq!(
                (read.phase, read.kind, read.status),
                (phase, kind, status),
                "{message}"
            );
        }
    }
}
