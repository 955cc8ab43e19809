//! HTTP probes.

use std::{collections::BTreeMap, fmt, net::SocketAddr};

use serde::{Deserialize, Serialize};

use super::{
    ProxyHeader, Scheme, SearchManner,
    credential::CredentialName,
    expectations::{BodyPattern, MustNotAnswer, RedirectPolicy, TlsExpectation},
    http_proxy::HttpProxy,
    root_certificates::RootCertificates,
    status::ExpectedStatus,
};
use crate::{HostName, Scope, channel::label_enum};

label_enum! {
    /// The request method.
    Method {
        /// GET.
        Get = "GET",
        /// HEAD: a response without a body.
        Head = "HEAD",
        /// POST, with the body of the specification.
        Post = "POST",
    }
}

label_enum! {
    /// HTTP version.
    HttpVersion {
        /// HTTP/1.1, without ALPN.
        Http11 = "1.1",
        /// HTTP/2, negotiated by ALPN; the handshake fails if an https server does not negotiate it.
        Http2 = "2",
    }
}

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpProbe {
    /// Plain or over TLS.
    pub scheme: Scheme,
    /// Host name for `Host` and SNI, also if the address is given.
    pub host: HostName,
    /// Port to connect to if the name is resolved.
    pub port: u16,
    /// Path and query, starting with a slash.
    pub path: String,
    /// Statuses that count as success; of the last response if redirects are followed.
    pub expect_status: ExpectedStatus,
    /// Text that the first 64 KiB of the response must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_contains: Option<String>,
    /// The exact response body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_equals: Option<String>,
    /// Pattern that the first 64 KiB of the response must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_matches: Option<BodyPattern>,
    /// Required response headers by lower-case name, each with its required value, if any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expect_headers: BTreeMap<String, Option<String>>,
    /// Requirements on the TLS handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_tls: Option<TlsExpectation>,
    /// The target must fail in one of these ways; a response is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_not_answer: Option<MustNotAnswer>,
    /// Maximum size of the response in bytes. Without a limit, the probe stops reading after 1 MiB, which is
    /// not a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
    /// The request method.
    #[serde(default = "default_method", skip_serializing_if = "is_get")]
    pub method: Method,
    /// Body of a POST request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Media type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Additional request headers by lower-case name. They are sent to the URL's own origin only, not after a redirect
    /// to another one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub request_headers: BTreeMap<String, String>,
    /// The credential to send as `Authorization`, to the URL's own origin only. Only the prober knows the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialName>,
    /// The client certificate to present to the URL's own origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<CredentialName>,
    /// The HTTP proxy that all requests of the probe are sent through. The probe then connects to the proxy, and resolves
    /// the proxy's name only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<HttpProxy>,
    /// The HTTP version.
    #[serde(default = "default_version", skip_serializing_if = "is_http11")]
    pub version: HttpVersion,
    /// Redirects to follow; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirects: Option<RedirectPolicy>,
    /// Accept certificates that do not verify; other expectations on them still apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "any_certificate")]
    pub accept_invalid_certificate: bool,
    /// CA certificates to trust in addition to those of the prober's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_roots: Option<RootCertificates>,
    /// Send a second request on the same connection and time it separately; finds faults that a fresh
    /// connection cannot (R5). Such a target has its own id, so its results are never mixed with those of
    /// fresh connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_alive: bool,
    /// PROXY header to send before the first byte. On the channel `proxied` the default is `tcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<ProxyHeader>,
    /// The resolver to query for the name, which is then fully qualified; the machine's resolvers if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<SocketAddr>,
    /// The C library whose resolver behaviour the lookup follows; glibc if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchManner>,
    /// Report a fingerprint of the response ([`crate::AnswerPrint`]). Only probes that compare two fronts
    /// request it; a prober that does not know the field skips the probe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "print")]
    pub report_fingerprint: bool,
    /// Addresses that the probe may connect to, including behind names and redirects; unrestricted if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl HttpProbe {
    /// Creates a GET request over HTTP/1.1 with the default expected status.
    #[must_use]
    pub const fn get(scheme: Scheme, host: HostName, port: u16, path: String) -> Self {
        Self {
            scheme,
            host,
            port,
            path,
            expect_status: ExpectedStatus::Below500,
            expect_body_contains: None,
            expect_body_equals: None,
            expect_body_matches: None,
            expect_headers: BTreeMap::new(),
            expect_tls: None,
            must_not_answer: None,
            max_body: None,
            method: Method::Get,
            body: None,
            content_type: None,
            request_headers: BTreeMap::new(),
            credential: None,
            client_certificate: None,
            proxy: None,
            version: HttpVersion::Http11,
            redirects: None,
            accept_invalid_certificate: false,
            extra_roots: None,
            keep_alive: false,
            proxy_header: None,
            resolver: None,
            search: None,
            report_fingerprint: false,
            scope: None,
        }
    }
}

const fn default_method() -> Method {
    Method::Get
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
fn is_get(method: &Method) -> bool {
    *method == Method::Get
}

const fn default_version() -> HttpVersion {
    HttpVersion::Http11
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
fn is_http11(version: &HttpVersion) -> bool {
    *version == HttpVersion::Http11
}
