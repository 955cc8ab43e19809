//! What should be reachable: as written by people, and as checked.

mod check;
mod silence;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Serialize};

pub use silence::{Forbidden, Whence};

use crate::{
    BodyPattern, DnsTransport, EscapedBytes, ExpectedStatus, HttpVersion, InvalidName, Method, Micros,
    MustNotAnswer, ProbeSpec, ProxyHeader, RecordType, RedirectPolicy, RootCertificates, SearchManner,
    TargetId, TlsExpectation, Vantage,
};

/// A target as written in YAML, a `ConfigMap` or a custom resource. Becomes a [`Target`] by `TryFrom`; only that
/// reaches plan and probe.
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
    /// Text the answer must contain in its first 64 KiB. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_contains: Option<String>,
    /// The whole answer, byte for byte, at most 64 KiB. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_equals: Option<String>,
    /// A regular expression that the answer's first 64 KiB must match. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub expect_body_matches: Option<BodyPattern>,
    /// Headers the answer must have; `null` where any value will do. HTTP only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expect_headers: BTreeMap<String, Option<String>>,
    /// What must hold of the TLS handshake (`minVersion`, `name`, `daysLeft`, `issuer`). https and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_tls: Option<TlsExpectation>,
    /// The target must be silent in one of these ways (`"refused,timeout,404"`): everywhere, or where the next two say.
    /// HTTP, tcp and tls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub must_not_answer: Option<MustNotAnswer>,
    /// Addresses that must not answer for this name, whatever it resolves to; the URL's port. HTTP, tcp and tls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<String>"))]
    pub must_not_answer_at: Vec<IpAddr>,
    /// Vantages that must get no answer (`nodes`, `vpc`, `internet`); the others must. HTTP, tcp and tls.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[cfg_attr(feature = "schemars", schemars(with = "BTreeSet<String>"))]
    pub must_not_answer_from: BTreeSet<Whence>,
    /// Most bytes the answer may have, at most 1 GiB. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// `GET` (the default), `HEAD` or `POST`. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// What a POST sends, at most 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Media type of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// `"1.1"` (the default) or `"2"`; the latter for https only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_version: Option<HttpVersion>,
    /// Where redirects are followed to; without it none is. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirects: Option<RedirectPolicy>,
    /// `false` accepts a certificate that does not verify. https and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_verify: Option<bool>,
    /// CA certificates in PEM form that are trusted for this target, beside those that the probers trust for every target.
    /// https and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub extra_roots: Option<RootCertificates>,
    /// Time a second request on the same connection; the target is then one of its own. HTTP only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_alive: bool,
    /// PROXY v1 header to send first: `tcp` or `unknown`. HTTP, tcp and tls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<ProxyHeader>,
    /// What to send once connected, with `\r`, `\n`, `\xNN`. tcp and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub send: Option<EscapedBytes>,
    /// What must come back. tcp and tls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub expect: Option<EscapedBytes>,
    /// `A` (the default) or `AAAA`. dns only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordType>,
    /// Address and port of the resolver to ask; the machine's first one where absent. dns only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub resolver: Option<SocketAddr>,
    /// `udp` (the default) or `tcp`. dns only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<DnsTransport>,
    /// Walk the search list as `glibc` or as `musl` does. Any other target but dns does it as glibc where absent; a dns
    /// target takes its name as fully qualified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchManner>,
    /// Milliseconds between two probes of one vantage; the configuration's interval where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Deadline of one probe in milliseconds; the configuration's timeout where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The target is not in service yet: that it has never worked is expected, and raises no alert. It has no effect once
    /// the target has worked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

impl TargetSpec {
    /// A target with defaults for everything but its URL.
    #[must_use]
    pub fn of(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }
}

/// A target that passed all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The normalised URL; with a word behind `#` where the same URL is probed in a way that must be kept apart.
    pub id: TargetId,
    /// What a probe of it does.
    pub probe: ProbeSpec,
    /// Its own interval.
    pub interval: Option<Micros>,
    /// Its own timeout.
    pub timeout: Option<Micros>,
    /// Questions about it that must stay without an answer.
    pub forbidden: Vec<Forbidden>,
    /// Its owner expects it not to work yet.
    pub pending: bool,
}

impl Target {
    /// Whether a vantage is to be answered: not where the target must be silent to it.
    #[must_use]
    pub fn answers(&self, vantage: &Vantage) -> bool {
        self.answers_from(Whence::of(vantage))
    }

    /// The same for all vantages of a kind.
    #[must_use]
    pub fn answers_from(&self, whence: Whence) -> bool {
        !self
            .forbidden
            .iter()
            .any(|question| question.at.is_none() && question.from.contains(&whence))
    }
}

/// Why a target cannot be used. The text names the field and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// Not a URL.
    #[error(
        "url: expected http://…, https://…, tcp://host:port, tls://host:port or dns://name, got {url:?} ({reason})"
    )]
    Url {
        /// As written.
        url: String,
        /// What the parser said.
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
    /// User information in a URL would end in logs and labels.
    #[error("url: a user name or password is not allowed here (it would show in tables, labels and logs)")]
    Credentials,
    /// A wildcard cannot be probed.
    #[error("url: the wildcard host {0:?} cannot be probed; name one host that it covers")]
    Wildcard(String),
    /// A field that means nothing for this scheme.
    #[error("{field}: only for {schemes} targets, this one is {scheme}")]
    NotForScheme {
        /// The field.
        field: &'static str,
        /// Where it means something.
        schemes: &'static str,
        /// The target's scheme.
        scheme: String,
    },
    /// Outside the allowed span.
    #[error("{field}: expected {low} to {high} {unit}, got {got}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Least.
        low: u64,
        /// Most.
        high: u64,
        /// Of what.
        unit: &'static str,
        /// Given.
        got: u64,
    },
    /// A value that cannot be used.
    #[error("{field}: expected {expected}, got {got:?}")]
    Value {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
        /// Given.
        got: String,
    },
    /// Two fields that contradict each other.
    #[error("{field}: {why}")]
    Conflict {
        /// The field.
        field: &'static str,
        /// Why it cannot stand.
        why: &'static str,
    },
    /// The host is no name.
    #[error("url: {0}")]
    Name(#[from] InvalidName),
}
