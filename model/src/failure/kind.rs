//! The closed list of failure kinds, with the class of each.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::KindClass;

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
    /// The name of the HTTP proxy cannot be resolved.
    ProxyUnresolved,
    /// The HTTP proxy refuses the connection.
    ProxyRefused,
    /// There is no route to the HTTP proxy, or it is prohibited.
    ProxyUnreachable,
    /// The HTTP proxy does not answer the connection attempt or the request for a tunnel in time.
    ProxyTimeout,
    /// The HTTP proxy closes or resets the connection, or its answer to the request for a tunnel is not HTTP.
    ProxyClosed,
    /// The HTTP proxy refuses a tunnel to the target (an answer other than 2xx and 407 to CONNECT).
    ProxyDenied,
    /// The HTTP proxy requires authentication or rejects the credential (407).
    ProxyAuthentication,
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
        Self::ProxyUnresolved,
        Self::ProxyRefused,
        Self::ProxyUnreachable,
        Self::ProxyTimeout,
        Self::ProxyClosed,
        Self::ProxyDenied,
        Self::ProxyAuthentication,
    ];

    /// The class that the kind term counts; the status selects one of the two HTTP classes.
    #[must_use]
    pub fn class(&self, status: Option<u16>) -> KindClass {
        match self {
            Self::NxDomain | Self::NoAddress => KindClass::NxDomain,
            Self::ServFail
            | Self::DnsRefused
            | Self::ResolverUnreachable
            | Self::DnsMalformed
            | Self::ProxyUnresolved => KindClass::ServFail,
            Self::Refused | Self::ProxyRefused => KindClass::Refused,
            Self::Unreachable | Self::Prohibited | Self::ProxyUnreachable => KindClass::Unreachable,
            Self::ConnectTimeout
            | Self::ResolveTimeout
            | Self::TlsTimeout
            | Self::FirstByteTimeout
            | Self::ProxyTimeout
            // The background profile is widest for timeouts, so an unknown kind carries the least weight
            // there.
            | Self::Other(_) => KindClass::Timeout,
            Self::Reset
            | Self::Eof
            | Self::BodyCut
            | Self::GoAway
            | Self::StreamRefused
            | Self::StreamReset
            | Self::ProxyClosed => KindClass::Reset,
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
            Self::Status | Self::ProxyDenied if status.is_some_and(|s| s >= 500) => KindClass::Http5xx,
            Self::Status
            | Self::ProxyDenied
            | Self::ProxyAuthentication
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
        }
    }

    /// Whether the server presented a certificate that is not accepted.
    #[must_use]
    pub const fn is_wrong_certificate(&self) -> bool {
        matches!(
            self,
            Self::CertificateExpired
                | Self::CertificateNotYetValid
                | Self::CertificateWrongName
                | Self::CertificateUntrusted
                | Self::CertificateChainIncomplete
                | Self::CertificateExpiresSoon
                | Self::CertificateWrongIssuer
        )
    }

    /// Whether the server parsed what it received, so that no protocol header was missing or unexpected: it presented a
    /// certificate (though a wrong one), or responded with a redirect or a status other than 400.
    #[must_use]
    pub const fn proves_header_accepted(&self, status: Option<u16>) -> bool {
        match self {
            _ if self.is_wrong_certificate() => true,
            Self::TlsTooOld | Self::RedirectRefused | Self::RedirectLoop | Self::RedirectTooMany => true,
            Self::Status => matches!(status, Some(status) if status != 400 && status < 500),
            _ => false,
        }
    }

    /// Whether an HTTP proxy that could be reached did not let the request through. Its connection works, so this is no
    /// failure of the front, which is the proxy's address.
    #[must_use]
    pub const fn is_refusal_of_proxy(&self) -> bool {
        matches!(self, Self::ProxyDenied | Self::ProxyAuthentication)
    }
}
