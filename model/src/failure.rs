//! What became of a probe: one closed list of failure kinds, each with the phase it belongs to.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use crate::channel::label_enum;

label_enum! {
    /// The steps of a probe, in order. A timeout names the phase it struck; a phase that was not reached is *not
    /// observed*, not failed.
    Phase {
        /// Name to addresses.
        Resolve = "resolve",
        /// TCP handshake.
        Connect = "connect",
        /// Sending the PROXY header.
        ProxyHeader = "proxy-header",
        /// TLS handshake.
        Tls = "tls",
        /// Sending the request.
        Request = "request",
        /// Waiting for the first byte of the answer.
        FirstByte = "first-byte",
        /// Reading the answer.
        Body = "body",
        /// Holding the answer against what was expected.
        Check = "check",
    }
}

label_enum! {
    /// The ten classes of failure that the kind term of the diagnosis counts, plus one for what a newer prober names.
    KindClass {
        /// Packets vanish.
        Timeout = "timeout",
        /// Refused at once.
        Refused = "refused",
        /// Reset or closed after the connection stood.
        Reset = "reset",
        /// No route, host unreachable, prohibited.
        Unreachable = "unreachable",
        /// Connected, then no progress.
        Stall = "stall",
        /// TLS handshake or certificate.
        Tls = "tls",
        /// An answer with the wrong status below 500, or the wrong content.
        Http4xx = "http_4xx",
        /// An answer with status 500 or above.
        Http5xx = "http_5xx",
        /// The name does not exist, or has no address.
        NxDomain = "nxdomain",
        /// The resolver failed or did not answer.
        ServFail = "servfail",
    }
}

/// Why a probe failed. Closed: one mapping function in the prober, one label, one sentence, one class each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>", into = "String")]
pub enum FailureKind {
    /// The resolver says the name does not exist.
    NxDomain,
    /// The resolver says it failed.
    ServFail,
    /// The resolver refuses to answer.
    DnsRefused,
    /// The resolver does not answer in time.
    ResolveTimeout,
    /// The resolver cannot be reached: its port is closed or there is no route.
    ResolverUnreachable,
    /// The resolver's answer cannot be read, or answers another question.
    DnsMalformed,
    /// The name exists and has no address of the wanted family.
    NoAddress,
    /// Connection refused.
    Refused,
    /// No route to host or network.
    Unreachable,
    /// An administrative reject (`EACCES`, `EPERM`, ICMP prohibited).
    Prohibited,
    /// The SYN is not answered.
    ConnectTimeout,
    /// Reset while connecting or before the first byte of the answer.
    Reset,
    /// Closed before the first byte of the answer.
    Eof,
    /// The connection stands; nothing follows before the first byte.
    FirstByteTimeout,
    /// The TLS handshake gets no answer.
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
    /// The certificate chain ends at no trusted root.
    CertificateUntrusted,
    /// Any other error of the handshake.
    TlsProtocol,
    /// The answer is not HTTP.
    Malformed,
    /// The answer has a status that was not expected.
    Status,
    /// The answer is of another kind than those that the target gave while it worked: another class of status, or another
    /// server's error.
    UnlikeBefore,
    /// The answer's content is not what was expected.
    WrongBody,
    /// The answer stops in its middle and nothing follows.
    BodyStalled,
    /// The connection ends or resets in the middle of the answer.
    BodyCut,
    /// The answer is larger than the configured bound.
    BodyTooLarge,
    /// The redirect leads where the policy forbids to follow.
    RedirectRefused,
    /// The redirects run in a circle.
    RedirectLoop,
    /// More redirects than the policy allows.
    RedirectTooMany,
    /// The target answered though it must not.
    AnsweredThoughForbidden,
    /// A header of the answer is missing or not what was expected.
    WrongHeader,
    /// The certificate is valid, but for fewer days than were demanded.
    CertificateExpiresSoon,
    /// No certificate of the chain comes from the issuer that was demanded.
    CertificateWrongIssuer,
    /// The handshake agreed on an older version of TLS than was demanded.
    TlsTooOld,
    /// Interim answers (1xx) without end, and never the answer they announce.
    InterimStorm,
    /// The server ended the HTTP/2 connection without having dealt with the request (GOAWAY).
    GoAway,
    /// The server refused the HTTP/2 request before dealing with it (`RST_STREAM` with `REFUSED_STREAM`).
    StreamRefused,
    /// The server broke off the HTTP/2 request (`RST_STREAM` of any other code).
    StreamReset,
    /// The server sent its certificate without that of the CA that issued it: the certificate is not its own issuer, no
    /// trusted root issued it, and it names by Authority Information Access (RFC 5280 §4.2.2.1) where its issuer is found.
    CertificateChainIncomplete,
    /// A kind this version does not know; it came from a newer prober and counts as a failure.
    Other(Box<str>),
}

impl FailureKind {
    /// Every kind this version knows.
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
        Self::UnlikeBefore,
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

    /// The word on the wire and in tables.
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
            Self::UnlikeBefore => "unlike_before",
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

    /// The fixed word for a metric label: the closed list, and one word for everything a newer prober may say.
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

    /// What happened, in a few words that fit behind "the connection was".
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::NxDomain => "the name does not exist",
            Self::ServFail => "the resolver failed",
            Self::DnsRefused => "the resolver refused the question",
            Self::ResolveTimeout => "the resolver did not answer",
            Self::ResolverUnreachable => "the resolver cannot be reached",
            Self::DnsMalformed => "the resolver's answer is malformed",
            Self::NoAddress => "the name has no address",
            Self::Refused => "connection refused",
            Self::Unreachable => "no route to the address",
            Self::Prohibited => "administratively prohibited",
            Self::ConnectTimeout => "no answer to the connection attempt",
            Self::Reset => "connection reset",
            Self::Eof => "closed without an answer",
            Self::FirstByteTimeout => "connected, then silence",
            Self::TlsTimeout => "no answer to the TLS handshake",
            Self::NotTls => "the peer does not speak TLS",
            Self::TlsAlert => "the peer ended the TLS handshake with an alert",
            Self::CertificateExpired => "the certificate has expired",
            Self::CertificateNotYetValid => "the certificate is not valid yet",
            Self::CertificateWrongName => "the certificate is for another name",
            Self::CertificateUntrusted => "the certificate is signed by no trusted root",
            Self::TlsProtocol => "the TLS handshake failed",
            Self::Malformed => "the answer is not HTTP",
            Self::Status => "unexpected status",
            Self::UnlikeBefore => "an answer unlike those before",
            Self::WrongBody => "unexpected content",
            Self::BodyStalled => "the answer stopped in its middle",
            Self::BodyCut => "the connection ended in the middle of the answer",
            Self::BodyTooLarge => "the answer is larger than allowed",
            Self::RedirectRefused => "redirected to a place that must not be followed",
            Self::RedirectLoop => "redirects run in a circle",
            Self::RedirectTooMany => "too many redirects",
            Self::AnsweredThoughForbidden => "answered though it must not",
            Self::WrongHeader => "a header of the answer is missing or has another value",
            Self::CertificateExpiresSoon => "the certificate expires sooner than allowed",
            Self::CertificateWrongIssuer => "the certificate comes from another issuer",
            Self::TlsTooOld => "an older TLS version was agreed on than demanded",
            Self::InterimStorm => "interim answers without end",
            Self::GoAway => "the server ended the connection without dealing with the request",
            Self::StreamRefused => "the server refused to deal with the request",
            Self::StreamReset => "the server broke off the request",
            Self::CertificateChainIncomplete => "the server sent no intermediate certificate",
            Self::Other(word) => word,
        }
    }

    /// The class the kind term counts it in; a status decides between the two HTTP classes.
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
            | Self::UnlikeBefore
            | Self::Malformed
            | Self::WrongBody
            | Self::WrongHeader
            | Self::BodyTooLarge
            | Self::InterimStorm
            | Self::RedirectRefused
            | Self::RedirectLoop
            | Self::RedirectTooMany
            | Self::AnsweredThoughForbidden => KindClass::Http4xx,
            // The background profile gives a timeout the most room, so an unknown kind decides the least there.
            Self::Other(_) => KindClass::Timeout,
        }
    }
}

impl From<Cow<'_, str>> for FailureKind {
    fn from(word: Cow<'_, str>) -> Self {
        /// A label from the wire ends up in tables and pages: bounded and printable, whatever it was.
        fn tamed(word: &str) -> Box<str> {
            word.chars()
                .filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c))
                .take(64)
                .collect()
        }
        // Tamed first: what becomes a known word by it must be that kind, or it would not read back as written.
        let word = tamed(&word);
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
        /// The start was so late that the result would mislead.
        Late = "late",
        /// The budget did not allow the probe.
        Throttled = "throttled",
        /// No trusted root certificates are installed here.
        NoRoots = "no_roots",
        /// The machine has no route or address of the wanted family at all.
        NoFamily = "no_family",
        /// The prober is stopping.
        Stopping = "stopping",
        /// No resolver is configured here.
        NoResolver = "no_resolver",
        /// The assignment cannot be put on the wire: its host is no header value, no server name or missing.
        Unaskable = "unaskable",
        /// The prober or responder that was asked is being restarted, or has no plan yet.
        PeerAway = "peer_away",
        /// The name or a redirect led to an address that whoever asked for the probe may not reach ([`crate::Scope`]).
        OutOfScope = "out_of_scope",
    }
}

/// What became of one probe.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// All phases finished and the expectation held.
    Ok {
        /// Status of the answer, where the protocol has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    /// The target's side failed. Earlier phases succeeded.
    Failed {
        /// The phase it failed in.
        phase: Phase,
        /// How.
        kind: FailureKind,
        /// Status of the answer, where one came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    /// Our own fault; says nothing about the target.
    NotAsked {
        /// What kept us from asking.
        own: OwnFault,
    },
}

impl Outcome {
    /// Whether the target's side failed.
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
