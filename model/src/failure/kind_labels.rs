//! Labels and descriptions of the failure kinds.

use std::{borrow::Cow, fmt};

use super::kind::FailureKind;

impl FailureKind {
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
            Self::ProxyUnresolved => "proxy_unresolved",
            Self::ProxyRefused => "proxy_refused",
            Self::ProxyUnreachable => "proxy_unreachable",
            Self::ProxyTimeout => "proxy_timeout",
            Self::ProxyClosed => "proxy_closed",
            Self::ProxyDenied => "proxy_denied",
            Self::ProxyAuthentication => "proxy_authentication",
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
            Self::ProxyUnresolved => "the name of the HTTP proxy cannot be resolved",
            Self::ProxyRefused => "the HTTP proxy refuses the connection",
            Self::ProxyUnreachable => "no route to the HTTP proxy",
            Self::ProxyTimeout => "the HTTP proxy does not answer",
            Self::ProxyClosed => "the HTTP proxy closed the connection",
            Self::ProxyDenied => "the HTTP proxy refuses a tunnel to the target",
            Self::ProxyAuthentication => "the HTTP proxy requires authentication or rejects the credential",
            Self::Other(word) => word,
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

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

impl From<FailureKind> for String {
    fn from(kind: FailureKind) -> Self {
        kind.label().to_owned()
    }
}
