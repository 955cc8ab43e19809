//! The outcome of a probe: a closed list of failure kinds, and the phases in which they occur.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use crate::channel::label_enum;

label_enum! {
    /// The phases of a probe, in order. A timeout names the phase in which it occurred. A phase that was not
    /// reached is *not observed*, not failed.
    Phase {
        /// Resolving the name to addresses.
        Resolve = "resolve",
        /// TCP handshake.
        Connect = "connect",
        /// Sending the PROXY header.
        ProxyHeader = "proxy-header",
        /// TLS handshake.
        Tls = "tls",
        /// Sending the request.
        Request = "request",
        /// Waiting for the first byte of the response.
        FirstByte = "first-byte",
        /// Reading the response.
        Body = "body",
        /// Comparing the response with the expectation.
        Check = "check",
    }
}

label_enum! {
    /// Classes of failure that the kind term of the diagnosis counts.
    KindClass {
        /// Packets are lost.
        Timeout = "timeout",
        /// Refused immediately.
        Refused = "refused",
        /// Reset or closed after the connection was established.
        Reset = "reset",
        /// No route, host unreachable, prohibited.
        Unreachable = "unreachable",
        /// Connected, then no progress.
        Stall = "stall",
        /// TLS handshake or certificate.
        Tls = "tls",
        /// A response with an unexpected status below 500 or with unexpected content.
        Http4xx = "http_4xx",
        /// A response with status 500 or above.
        Http5xx = "http_5xx",
        /// The name does not exist or has no address.
        NxDomain = "nxdomain",
        /// The resolver failed, refused the query or could not be reached.
        ServFail = "servfail",
    }
}

/// Why a probe failed. The list is closed: each kind has one mapping in the prober, one label, one
/// description and one class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>", into = "String")]
pub enum FailureKind {
    /// The resolver responds that the name does not exist (NXDOMAIN).
    NxDomain,
    /// The resolver responds that it failed (SERVFAIL).
    ServFail,
    /// The resolver refuses the query (REFUSED).
    DnsRefused,
    /// The resolver does not respond in time.
    ResolveTimeout,
    /// The resolver cannot be reached: its port is closed or there is no route.
    ResolverUnreachable,
    /// The resolver's response is unreadable or answers another query.
    DnsMalformed,
    /// The name exists but has no address of the requested family.
    NoAddress,
    /// Connection refused.
    Refused,
    /// No route to host or network.
    Unreachable,
    /// An administrative reject (`EACCES`, `EPERM`, ICMP prohibited).
    Prohibited,
    /// The SYN is not answered.
    ConnectTimeout,
    /// Reset while connecting or before the first byte of the response.
    Reset,
    /// Closed before the first byte of the response.
    Eof,
    /// Connected, but no byte of a response arrives in time.
    FirstByteTimeout,
    /// The TLS handshake times out.
    TlsTimeout,
    /// The peer does not speak TLS.
    NotTls,
    /// The peer ends the handshake with an alert.
    TlsAlert,
    /// The certificate has expired.
    CertificateExpired,
    /// The certificate is not valid yet.
    CertificateNotYetValid,
    /// The certificate is for another name.
    CertificateWrongName,
    /// The certificate chain does not lead to a trusted root.
    CertificateUntrusted,
    /// Any other error of the TLS handshake.
    TlsProtocol,
    /// The response is not HTTP.
    Malformed,
    /// The response has an unexpected status.
    Status,
    /// The response differs in kind from those that the target gave while it worked: another class of status,
    /// or another server's error.
    DiffersFromBaseline,
    /// The response's content is not the expected one.
    WrongBody,
    /// The response stops partway and no further bytes arrive.
    BodyStalled,
    /// The connection is closed or reset in the middle of the response.
    BodyCut,
    /// The response is larger than the configured limit.
    BodyTooLarge,
    /// The redirect leads to a location that the policy forbids.
    RedirectRefused,
    /// The redirects form a loop.
    RedirectLoop,
    /// More redirects than the policy allows.
    RedirectTooMany,
    /// The target responded although it must not.
    AnsweredThoughForbidden,
    /// A response header is missing or has an unexpected value.
    WrongHeader,
    /// The certificate is valid, but for fewer days than required.
    CertificateExpiresSoon,
    /// No certificate of the chain has the required issuer.
    CertificateWrongIssuer,
    /// The negotiated TLS version is older than required.
    TlsTooOld,
    /// Interim responses (1xx) without a final response.
    InterimStorm,
    /// The server closed the HTTP/2 connection without processing the request (GOAWAY).
    GoAway,
    /// The server refused the HTTP/2 request before processing it (`RST_STREAM` with `REFUSED_STREAM`).
    StreamRefused,
    /// The server reset the HTTP/2 request (`RST_STREAM` with any other code).
    StreamReset,
    /// The server sent its certificate without the intermediate certificate: the certificate is not
    /// self-signed, no trusted root issued it, and its Authority Information Access extension (RFC 5280
    /// §4.2.2.1) says where to find its issuer.
    CertificateChainIncomplete,
    /// A kind from a newer prober that this version does not know; counted as a failure.
    Other(Box<str>),
}

impl FailureKind {
    /// Every kind that this version knows.
    pub const ALL: &'static [Self] = &[
        Self::NxDomain,
        Self::ServFail,
        Self::DnsRefused,
        Self::ResolveTimeout,
        Self::ResolverUnreachable,
        Self::DnsMalformed,
        Self::NoAddress,
        Self::Refused,
        Self::Unreachable,
        Self::Prohibited,
        Self::ConnectTimeout,
        Self::Reset,
        Self::Eof,
        Self::FirstByteTimeout,
        Self::TlsTimeout,
        Self::NotTls,
        Self::TlsAlert,
        Self::CertificateExpired,
        Self::CertificateNotYetValid,
        Self::CertificateWrongName,
        Self::CertificateUntrusted,
        Self::TlsProtocol,
        Self::Malformed,
        Self::Status,
        Self::DiffersFromBaseline,
        Self::WrongBody,
        Self::BodyStalled,
        Self::BodyCut,
        Self::BodyTooLarge,
        Self::RedirectRefused,
        Self::RedirectLoop,
        Self::RedirectTooMany,
        Self::AnsweredThoughForbidden,
        Self::WrongHeader,
        Self::CertificateExpiresSoon,
        Self::CertificateWrongIssuer,
        Self::TlsTooOld,
        Self::InterimStorm,
        Self::GoAway,
        Self::StreamRefused,
        Self::StreamReset,
        Self::CertificateChainIncomplete,
    ];

    /// The label on the wire and in tables.
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::NxDomain => "nxdomain",
            Self::ServFail => "servfail",
            Self::DnsRefused => "dns_refused",
            Self::ResolveTimeout => "resolve_timeout",
            Self::ResolverUnreachable => "resolver_unreachable",
            Self::DnsMalformed => "dns_malformed",
            Self::NoAddress => "no_address",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Prohibited => "prohibited",
            Self::ConnectTimeout => "connect_timeout",
            Self::Reset => "reset",
            Self::Eof => "eof",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::TlsTimeout => "tls_timeout",
            Self::NotTls => "not_tls",
            Self::TlsAlert => "tls_alert",
            Self::CertificateExpired => "certificate_expired",
            Self::CertificateNotYetValid => "certificate_not_yet_valid",
            Self::CertificateWrongName => "certificate_wrong_name",
            Self::CertificateUntrusted => "certificate_untrusted",
            Self::TlsProtocol => "tls_protocol",
            Self::Malformed => "malformed",
            Self::Status => "status",
            Self::DiffersFromBaseline => "unlike_before",
            Self::WrongBody => "wrong_body",
            Self::BodyStalled => "body_stalled",
            Self::BodyCut => "body_cut",
            Self::BodyTooLarge => "body_too_large",
            Self::RedirectRefused => "redirect_refused",
            Self::RedirectLoop => "redirect_loop",
            Self::RedirectTooMany => "redirect_too_many",
            Self::AnsweredThoughForbidden => "answered_though_forbidden",
            Self::WrongHeader => "wrong_header",
            Self::CertificateExpiresSoon => "certificate_expires_soon",
            Self::CertificateWrongIssuer => "certificate_wrong_issuer",
            Self::TlsTooOld => "tls_too_old",
            Self::InterimStorm => "interim_storm",
            Self::GoAway => "go_away",
            Self::StreamRefused => "stream_refused",
            Self::StreamReset => "stream_reset",
            Self::CertificateChainIncomplete => "certificate_chain_incomplete",
            Self::Other(word) => word,
        }
    }

    /// The value of a metric label: the label of a known kind, or `other` for any kind from a newer prober.
    #[must_use]
    pub fn metric_label(&self) -> &'static str {
        Self::ALL
            .iter()
            .find(|known| *known == self)
            .map_or("other", |known| known.known_label())
    }

    fn known_label(&'static self) -> &'static str {
        self.label()
    }

    /// A short description for people.
    #[must_use]
    pub fn description(&self) -> &str {
        match self {
            Self::NxDomain => "the name does not exist",
            Self::ServFail => "the resolver failed",
            Self::DnsRefused => "the resolver refused the query",
            Self::ResolveTimeout => "the resolver did not answer",
            Self::ResolverUnreachable => "the resolver cannot be reached",
            Self::DnsMalformed => "the resolver's answer is malformed",
            Self::NoAddress => "the name has no address",
            Self::Refused => "connection refused",
            Self::Unreachable => "no route to the address",
            Self::Prohibited => "administratively prohibited",
            Self::ConnectTimeout => "no answer to the connection attempt",
            Self::Reset => "connection reset",
            Self::Eof => "closed without a response",
            Self::FirstByteTimeout => "connected, then no response",
            Self::TlsTimeout => "no answer to the TLS handshake",
            Self::NotTls => "the peer does not speak TLS",
            Self::TlsAlert => "the peer ended the TLS handshake with an alert",
            Self::CertificateExpired => "the certificate has expired",
            Self::CertificateNotYetValid => "the certificate is not valid yet",
            Self::CertificateWrongName => "the certificate is for another name",
            Self::CertificateUntrusted => "the certificate is not signed by a trusted root",
            Self::TlsProtocol => "the TLS handshake failed",
            Self::Malformed => "the response is not HTTP",
            Self::Status => "unexpected status",
            Self::DiffersFromBaseline => "the response differs from those while the target worked",
            Self::WrongBody => "unexpected content",
            Self::BodyStalled => "the response stopped partway",
            Self::BodyCut => "the connection ended in the middle of the response",
            Self::BodyTooLarge => "the response is larger than allowed",
            Self::RedirectRefused => "redirected to a location that the policy forbids",
            Self::RedirectLoop => "the redirects form a loop",
            Self::RedirectTooMany => "too many redirects",
            Self::AnsweredThoughForbidden => "responded although it must not",
            Self::WrongHeader => "a response header is missing or has another value",
            Self::CertificateExpiresSoon => "the certificate expires sooner than allowed",
            Self::CertificateWrongIssuer => "the certificate has another issuer than required",
            Self::TlsTooOld => "the negotiated TLS version is older than required",
            Self::InterimStorm => "interim responses (1xx) without a final one",
            Self::GoAway => "the server closed the connection without processing the request",
            Self::StreamRefused => "the server refused the request before processing it",
            Self::StreamReset => "the server reset the request",
            Self::CertificateChainIncomplete => "the server sent no intermediate certificate",
            Self::Other(word) => word,
        }
    }

    /// The class that the kind term counts; the status selects one of the two HTTP classes.
    #[must_use]
    pub fn class(&self, status: Option<u16>) -> KindClass {
        match self {
            Self::NxDomain | Self::NoAddress => KindClass::NxDomain,
            Self::ServFail | Self::DnsRefused | Self::ResolverUnreachable | Self::DnsMalformed => {
                KindClass::ServFail
            }
            Self::Refused => KindClass::Refused,
            Self::Unreachable | Self::Prohibited => KindClass::Unreachable,
            Self::ConnectTimeout | Self::ResolveTimeout | Self::TlsTimeout | Self::FirstByteTimeout => {
                KindClass::Timeout
            }
            Self::Reset
            | Self::Eof
            | Self::BodyCut
            | Self::GoAway
            | Self::StreamRefused
            | Self::StreamReset => KindClass::Reset,
            Self::BodyStalled => KindClass::Stall,
            Self::NotTls
            | Self::TlsAlert
            | Self::CertificateExpired
            | Self::CertificateNotYetValid
            | Self::CertificateWrongName
            | Self::CertificateUntrusted
            | Self::CertificateChainIncomplete
            | Self::CertificateExpiresSoon
            | Self::CertificateWrongIssuer
            | Self::TlsTooOld
            | Self::TlsProtocol => KindClass::Tls,
            Self::Status if status.is_some_and(|s| s >= 500) => KindClass::Http5xx,
            Self::Status
            | Self::DiffersFromBaseline
            | Self::Malformed
            | Self::WrongBody
            | Self::WrongHeader
            | Self::BodyTooLarge
            | Self::InterimStorm
            | Self::RedirectRefused
            | Self::RedirectLoop
            | Self::RedirectTooMany
            | Self::AnsweredThoughForbidden => KindClass::Http4xx,
            // The background profile is widest for timeouts, so an unknown kind carries the least weight
            // there.
            Self::Other(_) => KindClass::Timeout,
        }
    }
}

impl From<Cow<'_, str>> for FailureKind {
    fn from(word: Cow<'_, str>) -> Self {
        /// Labels from the wire appear in tables and pages, so they are bounded and restricted to printable
        /// characters.
        fn sanitized(word: &str) -> Box<str> {
            word.chars()
                .filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c))
                .take(64)
                .collect()
        }
        // Sanitize first: a word that becomes a known label must map to that kind, or it would not read back
        // as written.
        let word = sanitized(&word);
        let known = Self::ALL.iter().find(|kind| *kind.label() == *word).cloned();
        known.unwrap_or(Self::Other(word))
    }
}

impl From<FailureKind> for String {
    fn from(kind: FailureKind) -> Self {
        kind.label().to_owned()
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

label_enum! {
    /// A fault of the prober or its machine. It never counts against a target.
    OwnFault {
        /// No free local port (`EADDRNOTAVAIL`).
        NoPort = "no_port",
        /// Out of file descriptors or memory.
        NoResources = "no_resources",
        /// The probe started too late for a meaningful result.
        Late = "late",
        /// The budget did not allow the probe.
        Throttled = "throttled",
        /// No trusted root certificates are installed on this machine.
        NoRoots = "no_roots",
        /// The machine has no route or address of the requested family.
        NoFamily = "no_family",
        /// The prober is stopping.
        Stopping = "stopping",
        /// No resolver is configured on this machine.
        NoResolver = "no_resolver",
        /// The assignment cannot be sent: its host is missing, or is not a valid header value or server name.
        InvalidAssignment = "unaskable",
        /// The peer (prober or responder) is restarting or has no plan yet.
        PeerUnavailable = "peer_away",
        /// The name or a redirect led to an address outside the probe's [`crate::Scope`].
        OutOfScope = "out_of_scope",
    }
}

/// The outcome of one probe.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// All phases finished and the expectation was met.
    Ok {
        /// Status of the response, if the protocol has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    /// The target or its path failed. Earlier phases succeeded.
    Failed {
        /// The phase it failed in.
        phase: Phase,
        /// The failure kind.
        kind: FailureKind,
        /// Status of the response, if one arrived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    /// A fault of the prober itself; no evidence about the target.
    #[serde(rename = "not_asked")]
    NotProbed {
        /// The fault that prevented the probe.
        #[serde(rename = "own")]
        fault: OwnFault,
    },
}

impl Outcome {
    /// Whether the target or its path failed.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_label_and_reads_back() {
        let labels: std::collections::BTreeSet<_> = FailureKind::ALL.iter().map(FailureKind::label).collect();
        assert_eq!(labels.len(), FailureKind::ALL.len());
        for kind in FailureKind::ALL {
            let text = serde_json::to_string(kind).unwrap();
            assert_eq!(&serde_json::from_str::<FailureKind>(&text).unwrap(), kind);
            assert_eq!(kind.metric_label(), kind.label());
        }
    }

    #[test]
    fn a_kind_of_a_newer_prober_is_kept_bounded_and_counts_as_one_metric_label() {
        let kind: FailureKind = serde_json::from_str(r#""quic_\u001b[31mblocked""#).unwrap();
        assert_eq!(kind, FailureKind::Other("quic_31mblocked".into()));
        assert_eq!(kind.metric_label(), "other");
    }

    #[test]
    fn a_word_that_becomes_a_known_one_once_it_is_tamed_is_that_kind() {
        let kind: FailureKind = serde_json::from_str(r#""ref\u001bused""#).unwrap();
        assert_eq!(kind, FailureKind::Refused);
    }

    #[test]
    fn the_status_decides_the_http_class() {
        assert_eq!(FailureKind::Status.class(Some(503)), KindClass::Http5xx);
        assert_eq!(FailureKind::Status.class(Some(404)), KindClass::Http4xx);
    }
}
