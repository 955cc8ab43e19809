//! Converts a failure to the problem document that the certificate authority reports: type and detail, as an ACME
//! client reads them in the challenge.
//!
//! Boulder's texts are from `va.detailedError`, `va/http.go`, `va/dns.go` and `bdns/problem.go`, Pebble's from
//! `va/va.go` and from the Go errors that it passes on. Parts that mention a local port or internals of Go are left
//! out.

use std::net::SocketAddr;

use parallax_model::{FailureKind, Phase, dns::lookup_problem};
use serde::Serialize;

use super::{
    ClientProfile,
    go_text::{alert_name, quoted, speaks_http2},
};
use crate::{
    failure::{EarlyEnd, FailureOrigin},
    redirect::RedirectRefusal,
    resolution::{FamilyAnswer, Resolution},
    timestamped_stream::FIRST_BYTES,
};

/// Maximum length of [`AcmeProblem::detail`] in characters. It may quote a URL, and the key authorization twice.
const MAX_DETAIL: usize = 1000;

/// A problem document of a certificate authority (RFC 8555 §6.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcmeProblem {
    /// The type.
    #[serde(rename = "type")]
    pub class: ProblemClass,
    /// The detail: bounded, without control characters.
    pub detail: String,
}

impl AcmeProblem {
    /// Returns a problem with this type. The detail is shortened, and control characters are replaced by spaces.
    #[must_use]
    pub fn new(class: ProblemClass, detail: &str) -> Self {
        Self {
            class,
            detail: detail
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .take(MAX_DETAIL)
                .collect(),
        }
    }
}

/// The problem types with which an HTTP-01 validation can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ProblemClass {
    /// The authority could not connect to the server, or the server violated the protocol.
    #[serde(rename = "urn:ietf:params:acme:error:connection")]
    Connection,
    /// A lookup failed.
    #[serde(rename = "urn:ietf:params:acme:error:dns")]
    Dns,
    /// The response was not the key authorization.
    #[serde(rename = "urn:ietf:params:acme:error:unauthorized")]
    Unauthorized,
    /// The server ended the TLS handshake with an alert.
    #[serde(rename = "urn:ietf:params:acme:error:tls")]
    Tls,
    /// CAA records forbid issuance.
    #[serde(rename = "urn:ietf:params:acme:error:caa")]
    Caa,
    /// An error of the authority. Pebble reports it if a response ends early.
    #[serde(rename = "urn:ietf:params:acme:error:serverInternal")]
    ServerInternal,
}

impl ProblemClass {
    /// The last component of its URN.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Dns => "dns",
            Self::Unauthorized => "unauthorized",
            Self::Tls => "tls",
            Self::Caa => "caa",
            Self::ServerInternal => "serverInternal",
        }
    }
}

/// The state of a fetch when it ended.
#[derive(Debug, Default)]
pub(super) struct FetchStage {
    /// The first URL.
    pub(super) first_url: String,
    /// The URL that was fetched last.
    pub(super) url: String,
    /// The `Location` of its response, as written.
    pub(super) location: Option<String>,
    /// The address that was dialled last.
    pub(super) address: Option<SocketAddr>,
    /// The host that was resolved last, and its resolution.
    pub(super) host: String,
    pub(super) resolution: Option<Resolution>,
    /// The first bytes of the response, whatever they were.
    pub(super) first_bytes: [u8; FIRST_BYTES],
    /// The content of the response.
    pub(super) content: Vec<u8>,
    /// The expected content.
    pub(super) expected: String,
}

/// Returns the problem that the client reports; `None` for a client that is not an authority, and for a fault of this
/// machine.
pub(super) fn problem_for(
    client: ClientProfile,
    stop: &EarlyEnd,
    status: Option<u16>,
    refusal: Option<&RedirectRefusal>,
    stage: &FetchStage,
) -> Option<AcmeProblem> {
    let FailureOrigin::Target(kind) = &stop.origin else {
        return None;
    };
    let failure = FetchFailure {
        phase: stop.phase,
        kind,
        detail: stop.detail.as_deref().unwrap_or_default(),
        status: status.unwrap_or_default(),
        refusal,
        stage,
    };
    match client {
        ClientProfile::Boulder => Some(failure.boulder_problem()),
        ClientProfile::Pebble => Some(failure.pebble_problem()),
        ClientProfile::Generic | ClientProfile::CertManager => None,
    }
}

struct FetchFailure<'a> {
    phase: Phase,
    kind: &'a FailureKind,
    detail: &'a str,
    status: u16,
    refusal: Option<&'a RedirectRefusal>,
    stage: &'a FetchStage,
}

const TIMEOUT_TEXT: &str = "Timeout after connect (your server may be slow or overloaded)";
const OTHER_TEXT: &str = "Error getting validation data";

impl FetchFailure<'_> {
    fn boulder_problem(&self) -> AcmeProblem {
        let stage = self.stage;
        let at = stage
            .address
            .map_or_else(String::new, |address| format!("{}: ", address.ip()));
        match (self.phase, self.kind) {
            (Phase::Resolve, _) => {
                let detail = self.boulder_lookup_error();
                // Boulder looks up the host of a redirect while it evaluates the redirect.
                match &stage.location {
                    Some(location) => {
                        AcmeProblem::new(ProblemClass::Dns, &format!("{at}Fetching {location}: {detail}"))
                    }
                    None => AcmeProblem::new(ProblemClass::Dns, &detail),
                }
            }
            (Phase::Body, _) => AcmeProblem::new(
                ProblemClass::Unauthorized,
                &format!("{at}Error reading HTTP response body: {}", self.body_error()),
            ),
            (Phase::Check, FailureKind::Status) => AcmeProblem::new(
                ProblemClass::Unauthorized,
                &format!("{at}Invalid response from {}: {}", stage.url, self.status),
            ),
            (Phase::Check, FailureKind::BodyTooLarge) => AcmeProblem::new(
                ProblemClass::Unauthorized,
                &format!(
                    "{at}Invalid response from {}: {}",
                    stage.url,
                    quoted(&stage.content)
                ),
            ),
            (Phase::Check, FailureKind::WrongBody) => {
                let got = stage.content.trim_ascii_end();
                AcmeProblem::new(
                    ProblemClass::Unauthorized,
                    &format!(
                        "The key authorization file from the server did not match this challenge. Expected {} (got {})",
                        quoted(stage.expected.as_bytes()),
                        quoted(got)
                    ),
                )
            }
            _ => {
                let (class, detail) = self.boulder_fetch_error();
                let url = match self.refusal {
                    Some(_) => stage.location.as_deref().unwrap_or(&stage.url),
                    None => &stage.url,
                };
                AcmeProblem::new(class, &format!("{at}Fetching {url}: {detail}"))
            }
        }
    }

    /// Boulder's type and text for a failed request.
    fn boulder_fetch_error(&self) -> (ProblemClass, String) {
        let connection = |detail: &str| (ProblemClass::Connection, detail.to_owned());
        if let Some(refusal) = self.refusal {
            return connection(&boulder_redirect_error(refusal));
        }
        match self.kind {
            FailureKind::ConnectTimeout => connection("Timeout during connect (likely firewall problem)"),
            FailureKind::Refused => connection("Connection refused"),
            FailureKind::Reset => connection("Connection reset by peer"),
            FailureKind::Unreachable if self.detail.contains("Network is unreachable") => {
                connection("Network unreachable")
            }
            FailureKind::FirstByteTimeout | FailureKind::TlsTimeout => connection(TIMEOUT_TEXT),
            FailureKind::TlsAlert => match alert_name(self.detail) {
                Some(alert) => (ProblemClass::Tls, format!("remote error: tls: {alert}")),
                None => connection(OTHER_TEXT),
            },
            FailureKind::Malformed if speaks_http2(self.stage.first_bytes) => {
                connection("Server is speaking HTTP/2 over HTTP")
            }
            _ => connection(OTHER_TEXT),
        }
    }

    /// Boulder's text for a failed lookup, which names both families.
    fn boulder_lookup_error(&self) -> String {
        let host = &self.stage.host;
        let Some(found) = &self.stage.resolution else {
            return format!("no valid A records found for {host}; no valid AAAA records found for {host}");
        };
        let of = |record: &str, family: &FamilyAnswer| {
            let kind = match family {
                FamilyAnswer::Failed { kind, .. } => kind,
                FamilyAnswer::Addresses(_) | FamilyAnswer::NotQueried { .. } | FamilyAnswer::NotNeeded => {
                    &FailureKind::NoAddress
                }
            };
            if *kind == FailureKind::NoAddress {
                return format!("no valid {record} records found for {host}");
            }
            lookup_problem(kind, record, host)
        };
        format!("{}; {}", of("A", &found.a), of("AAAA", &found.aaaa))
    }

    fn body_error(&self) -> &str {
        match self.kind {
            FailureKind::BodyStalled => "context deadline exceeded",
            _ if self.detail.starts_with("gzip: ") => "gzip: invalid header",
            _ if self.detail.contains("reset by peer") => "read: connection reset by peer",
            _ => "unexpected EOF",
        }
    }

    fn pebble_problem(&self) -> AcmeProblem {
        let stage = self.stage;
        match (self.phase, self.kind) {
            (Phase::Body, FailureKind::BodyStalled) => AcmeProblem::new(
                ProblemClass::ServerInternal,
                "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
            ),
            (Phase::Body, _) => AcmeProblem::new(ProblemClass::ServerInternal, self.body_error()),
            (Phase::Check, FailureKind::Status) => AcmeProblem::new(
                ProblemClass::Unauthorized,
                &format!(
                    "Non-200 status code from HTTP: {} returned {}",
                    stage.first_url, self.status
                ),
            ),
            (Phase::Check, FailureKind::WrongBody | FailureKind::BodyTooLarge) => AcmeProblem::new(
                ProblemClass::Unauthorized,
                &format!(
                    "The key authorization file from the server did not match this challenge {} != {}",
                    quoted(stage.expected.as_bytes()),
                    quoted(trim_line_ends(&stage.content))
                ),
            ),
            _ => {
                let url = match self.refusal {
                    Some(_) => stage.location.as_deref().unwrap_or(&stage.url),
                    None => &stage.url,
                };
                let detail = self.pebble_fetch_error();
                AcmeProblem::new(
                    ProblemClass::Connection,
                    &format!("Get {}: {detail}", quoted(url.as_bytes())),
                )
            }
        }
    }

    fn pebble_fetch_error(&self) -> String {
        let stage = self.stage;
        let dialling = |reason: &str| {
            let address = stage
                .address
                .map_or_else(String::new, |address| format!(" {address}"));
            format!("dial tcp{address}: connect: {reason}")
        };
        match self.refusal {
            Some(RedirectRefusal::TooMany(_)) => return "stopped after 10 redirects".to_owned(),
            Some(RedirectRefusal::Scheme(scheme)) => {
                return format!("unsupported protocol scheme {}", quoted(scheme.as_bytes()));
            }
            Some(RedirectRefusal::NoHost) => return "http: no Host in request URL".to_owned(),
            Some(_) => return "failed to parse Location header".to_owned(),
            None => {}
        }
        match (self.phase, self.kind) {
            (
                Phase::Resolve,
                FailureKind::NoAddress
                | FailureKind::NxDomain
                | FailureKind::ServFail
                | FailureKind::DnsRefused,
            ) => format!("could not resolve URL {}", quoted(stage.first_url.as_bytes())),
            (Phase::Resolve, _) => format!(
                "error occurred while resolving URL {}: i/o timeout",
                quoted(stage.first_url.as_bytes())
            ),
            (_, FailureKind::Refused) => dialling("connection refused"),
            (_, FailureKind::Unreachable) if self.detail.contains("Network is unreachable") => {
                dialling("network is unreachable")
            }
            (_, FailureKind::Unreachable) => dialling("no route to host"),
            (_, FailureKind::Prohibited) => dialling("permission denied"),
            (_, FailureKind::ConnectTimeout | FailureKind::FirstByteTimeout | FailureKind::TlsTimeout) => {
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned()
            }
            (_, FailureKind::Reset) => "read: connection reset by peer".to_owned(),
            (_, FailureKind::NotTls) => "http: server gave HTTP response to HTTPS client".to_owned(),
            (_, FailureKind::TlsAlert) => {
                format!(
                    "remote error: tls: {}",
                    alert_name(self.detail).unwrap_or("alert")
                )
            }
            (_, FailureKind::Malformed) => "malformed HTTP response".to_owned(),
            _ => "EOF".to_owned(),
        }
    }
}

fn boulder_redirect_error(refusal: &RedirectRefusal) -> String {
    match refusal {
        RedirectRefusal::TooMany(_) => "Too many redirects".to_owned(),
        RedirectRefusal::Status => "received disallowed redirect status code".to_owned(),
        RedirectRefusal::Scheme(scheme) => format!(
            "Invalid protocol scheme in redirect target. Only \"http\" and \"https\" protocol schemes are supported, not {}",
            quoted(scheme.as_bytes())
        ),
        RedirectRefusal::Port(port) => {
            format!("Invalid port in redirect target. Only ports 80 and 443 are supported, not {port}")
        }
        RedirectRefusal::NoHost => "Invalid empty host in redirect target".to_owned(),
        RedirectRefusal::MissingSlash(host) => format!(
            "Invalid host in redirect target {}. Check webserver config for missing '/' in redirect target.",
            quoted(host.as_bytes())
        ),
        RedirectRefusal::Reserved(_) => {
            "Invalid host in redirect target: IP address is in a reserved address block".to_owned()
        }
        RedirectRefusal::NotPublic(_) => {
            "Invalid host in redirect target, must end in IANA registered TLD".to_owned()
        }
        RedirectRefusal::TooLong => "Redirect target too long".to_owned(),
        RedirectRefusal::Loop(_) => "Redirect loop detected".to_owned(),
        // Go cannot parse the location, or Boulder has no such rule.
        RedirectRefusal::NoUrl | RedirectRefusal::OtherHost(_) => OTHER_TEXT.to_owned(),
    }
}

fn trim_line_ends(content: &[u8]) -> &[u8] {
    let end = content
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r' | b'\t'))
        .map_or(0, |last| last + 1);
    &content[..end]
}

#[cfg(test)]
#[path = "problem_tests.rs"]
mod tests;
