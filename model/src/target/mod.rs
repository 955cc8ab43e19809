//! Targets: as written, and as validated.

mod access;
mod must_not_answer;
mod request_headers;
mod validate;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Serialize};

pub use must_not_answer::{Forbidden, Whence};
pub use request_headers::{reserved_header_reason, reserved_headers};

use crate::{
    BodyPattern, CredentialName, DnsTransport, EscapedBytes, ExpectedStatus, HttpProxyUrl, HttpVersion,
    InvalidName, Method, Micros, MustNotAnswer, ProbeSpec, ProxyHeader, RecordType, RedirectPolicy,
    RootCertificates, SearchManner, TargetId, TlsExpectation, Vantage,
};

/// A target as written in YAML, a `ConfigMap` or a custom resource. `TryFrom` validates it and creates a
/// [`Target`], which is what plan and probe use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TargetSpec {
    /// `http://…`, `https://…`, `tcp://host:port`, `tls://host:port` or `dns://name`.
    pub url: String,
    /// Statuses that count as success (`"200"`, `"2xx"`, `"200-299,404"`, `"<500"`). HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub expect_status: Option<ExpectedStatus>,
    /// Text that the first 64 KiB of the response must contain. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_contains: Option<String>,
    /// The exact response body, at most 64 KiB. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_equals: Option<String>,
    /// A regular expression that the first 64 KiB of the response must match. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub expect_body_matches: Option<BodyPattern>,
    /// Required response headers; `null` accepts any value. HTTP only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expect_headers: BTreeMap<String, Option<String>>,
    /// Requirements on the TLS handshake (`minVersion`, `name`, `daysLeft`, `issuer`). https and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_tls: Option<TlsExpectation>,
    /// The target must not answer; lists the accepted failures and statuses (`"refused,timeout,404"`).
    /// Applies everywhere, or only where `mustNotAnswerAt` and `mustNotAnswerFrom` say. HTTP, tcp and tls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub must_not_answer: Option<MustNotAnswer>,
    /// Addresses that must not answer for this name on the URL's port, whatever the name resolves to. HTTP,
    /// tcp and tls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<String>"))]
    pub must_not_answer_at: Vec<IpAddr>,
    /// Kinds of vantages that must not get an answer (`nodes`, `vpc`, `internet`); all others must. HTTP, tcp
    /// and tls.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[cfg_attr(feature = "schemars", schemars(with = "BTreeSet<String>"))]
    pub must_not_answer_from: BTreeSet<Whence>,
    /// Maximum size of the response in bytes, at most 1 GiB. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// `GET` (the default), `HEAD` or `POST`. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Body of a POST request, at most 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Media type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Request headers by name, at most 16 and 4 KiB in all. Their values appear in plans and recordings: use
    /// `credential` for secrets. HTTP only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub request_headers: BTreeMap<String, String>,
    /// Name of a credential of the probers, sent as `Authorization` (bearer token, or user name and password). HTTP
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub credential: Option<CredentialName>,
    /// Name of a credential of the probers that is a client certificate with its key. https and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub client_certificate: Option<CredentialName>,
    /// HTTP proxy to send the request through, as `http://HOST:PORT`. For targets outside the cluster. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub http_proxy: Option<HttpProxyUrl>,
    /// Name of a credential of the probers, sent to the proxy as `Proxy-Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub proxy_credential: Option<CredentialName>,
    /// `"1.1"` (the default) or `"2"`; the latter for https only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_version: Option<HttpVersion>,
    /// Redirects to follow; none if absent. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirects: Option<RedirectPolicy>,
    /// `false` accepts certificates that do not verify. https and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_verify: Option<bool>,
    /// CA certificates in PEM form to trust for this target, in addition to those that the probers trust for
    /// every target. https and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub extra_roots: Option<RootCertificates>,
    /// Time a second request on the same connection. The result is a separate target. HTTP only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_alive: bool,
    /// PROXY v1 header to send before the first byte: `tcp` or `unknown`. HTTP, tcp and tls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<ProxyHeader>,
    /// Bytes to send once connected, with the escapes `\r`, `\n`, `\xNN`. tcp and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub send: Option<EscapedBytes>,
    /// Bytes that the server must send. tcp and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub expect: Option<EscapedBytes>,
    /// `A` (the default) or `AAAA`. dns only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordType>,
    /// Address and port of the resolver to query; if absent, the machine's first resolver for dns targets, and the
    /// machine's resolvers for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub resolver: Option<SocketAddr>,
    /// `udp` (the default) or `tcp`. dns only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<DnsTransport>,
    /// Walk the search list like `glibc` or `musl`. If absent, dns targets use the name as fully qualified;
    /// all other targets use the search list like glibc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchManner>,
    /// Milliseconds between two probes from one vantage; the configured interval if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Deadline of one probe in milliseconds; the configured timeout if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The target is not in service yet, so the fact that it has never worked raises no alert. No effect once
    /// the target has worked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

impl TargetSpec {
    /// Creates a target with defaults for everything except its URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }
}

/// A validated target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The normalised URL, with a suffix after `#` if the same URL is probed in a way that must be kept
    /// apart.
    pub id: TargetId,
    /// The probe.
    pub probe: ProbeSpec,
    /// The target's own interval.
    pub interval: Option<Micros>,
    /// The target's own timeout.
    pub timeout: Option<Micros>,
    /// Probes of the target that must not get an answer.
    pub forbidden_probes: Vec<Forbidden>,
    /// The owner does not expect it to work yet.
    pub pending: bool,
}

impl Target {
    /// Whether a vantage must get an answer, rather than being listed in `mustNotAnswerFrom`.
    #[must_use]
    pub fn must_answer(&self, vantage: &Vantage) -> bool {
        self.must_answer_kind(Whence::of(vantage))
    }

    /// The same for all vantages of a kind.
    #[must_use]
    pub fn must_answer_kind(&self, whence: Whence) -> bool {
        !self
            .forbidden_probes
            .iter()
            .any(|question| question.address.is_none() && question.vantages.contains(&whence))
    }
}

/// Why a target is invalid. The message names the field and the expectation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// The URL is malformed or unsupported.
    #[error(
        "url: expected http://…, https://…, tcp://host:port, tls://host:port or dns://name, got {url:?} ({reason})"
    )]
    Url {
        /// As written.
        url: String,
        /// The parser's message.
        reason: String,
    },
    /// A TCP target without a port.
    #[error(
        "url: a {scheme}:// target needs a port, as in {scheme}://db.example.test:5432; {url:?} has none"
    )]
    NoPort {
        /// The target's scheme.
        scheme: String,
        /// As written.
        url: String,
    },
    /// User information in a URL would appear in logs and labels.
    #[error("url: a user name or password is not allowed here (it would appear in tables, labels and logs)")]
    Credentials,
    /// A wildcard cannot be probed.
    #[error("url: the wildcard host {0:?} cannot be probed; name one host that it covers")]
    Wildcard(String),
    /// The field does not apply to the scheme.
    #[error("{field}: only for {schemes} targets, not for {scheme}")]
    NotForScheme {
        /// The field.
        field: &'static str,
        /// Schemes that the field applies to.
        schemes: &'static str,
        /// The target's scheme.
        scheme: String,
    },
    /// The number is out of range.
    #[error("{field}: expected {min} to {max} {unit}, got {value}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
        /// Unit.
        unit: &'static str,
        /// The given value.
        value: u64,
    },
    /// The value is invalid.
    #[error("{field}: expected {expected}, got {value:?}")]
    Value {
        /// The field.
        field: &'static str,
        /// What is expected.
        expected: &'static str,
        /// The given value.
        value: String,
    },
    /// The header must not be set, or its value is invalid.
    #[error("requestHeaders: {name:?}: {reason}")]
    Header {
        /// The header.
        name: String,
        /// Why, and what to do instead. The value is never repeated: it may be a secret.
        reason: &'static str,
    },
    /// The field contradicts another one.
    #[error("{field}: {reason}")]
    Conflict {
        /// The field.
        field: &'static str,
        /// The contradiction.
        reason: &'static str,
    },
    /// The host is not a valid name.
    #[error("url: {0}")]
    Name(#[from] InvalidName),
}
