//! Validates a target as written and derives the probe.

use url::Url;

use super::{InvalidTarget, Target, TargetSpec, Whence};
use crate::{
    DnsProbe, DnsTransport, ExpectedStatus, HostName, HttpProbe, HttpProxy, HttpVersion, Method, Micros,
    MustNotAnswer, ProbeSpec, RecordType, Scheme, SearchManner, TargetId, TcpProbe,
};

/// Minimum and maximum interval in milliseconds. A shorter interval would be a load test; with a longer one,
/// a verdict takes too long to be useful.
const INTERVAL_MS: (u64, u64) = (200, 3_600_000);

/// Minimum and maximum timeout in milliseconds. Below about 1 s, one lost SYN looks like an outage (R6); such
/// values are allowed for local tests.
const TIMEOUT_MS: (u64, u64) = (50, 60_000);

/// Number of bytes of a response that are kept for the content checks.
const MAX_CHECKED_BODY: u64 = 64 * 1024;

/// Maximum size of a POST body in bytes.
const MAX_REQUEST_BODY: u64 = 16 * 1024;

/// Maximum number of expected headers.
const MAX_EXPECTED_HEADERS: u64 = 32;

/// Maximum number of `mustNotAnswerAt` addresses per target. Every vantage of the target probes each of them.
const MAX_FORBIDDEN_ADDRESSES: u64 = 16;

impl TryFrom<TargetSpec> for Target {
    type Error = InvalidTarget;

    fn try_from(spec: TargetSpec) -> Result<Self, InvalidTarget> {
        let wrong = |reason: &str| InvalidTarget::Url {
            url: spec.url.clone(),
            reason: reason.to_owned(),
        };
        let url = Url::parse(&spec.url).map_err(|e| wrong(&e.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidTarget::Credentials);
        }
        let host = url
            .host_str()
            .filter(|h| !h.is_empty())
            .ok_or_else(|| wrong("no host"))?;
        if host.contains('*') {
            return Err(InvalidTarget::Wildcard(host.to_owned()));
        }
        let host = HostName::new(host.trim_start_matches('[').trim_end_matches(']'))?;
        if !matches!(url.scheme(), "http" | "https") && !matches!(url.path(), "" | "/") {
            return Err(wrong(&format!("a {}:// target has no path", url.scheme())));
        }
        spec.check_fields(url.scheme())?;
        let interval = check_range("intervalMs", "milliseconds", INTERVAL_MS, spec.interval_ms)?
            .map(Micros::from_millis);
        let timeout =
            check_range("timeoutMs", "milliseconds", TIMEOUT_MS, spec.timeout_ms)?.map(Micros::from_millis);
        check_range(
            "mustNotAnswerAt",
            "addresses",
            (0, MAX_FORBIDDEN_ADDRESSES),
            Some(spec.must_not_answer_at.len() as u64),
        )?;
        if spec.must_not_answer_from.len() == Whence::ALL.len() {
            return Err(InvalidTarget::Conflict {
                field: "mustNotAnswerFrom",
                reason: "no vantage would get an answer; use mustNotAnswer alone",
            });
        }
        let (probe, id) = match url.scheme() {
            "http" => spec.http(&url, Scheme::Http, host)?,
            "https" => spec.http(&url, Scheme::Https, host)?,
            "tcp" | "tls" => spec.tcp(&url, host)?,
            "dns" => spec.dns(host),
            other => return Err(wrong(&format!("the scheme {other:?} is not supported"))),
        };
        let id = TargetId::new(id)?;
        Ok(Self {
            forbidden_probes: spec.forbidden_probes(&id, &probe)?,
            id,
            probe,
            interval,
            timeout,
            pending: spec.pending,
        })
    }
}

impl TargetSpec {
    /// The `mustNotAnswer` requirement of a target that must not answer any vantage.
    fn must_not_answer_everywhere(&self) -> Option<MustNotAnswer> {
        self.must_not_answer
            .clone()
            .filter(|_| !self.has_partial_must_not_answer())
    }

    /// Rejects fields that do not apply to the scheme.
    fn check_fields(&self, scheme: &str) -> Result<(), InvalidTarget> {
        let http = ("http and https", &["http", "https"][..]);
        let tls = ("https and tls", &["https", "tls"][..]);
        let tcp = ("tcp and tls", &["tcp", "tls"][..]);
        let streams = ("http, https, tcp and tls", &["http", "https", "tcp", "tls"][..]);
        let dns = ("dns", &["dns"][..]);
        for (field, given, (schemes, allowed)) in [
            ("expectStatus", self.expect_status.is_some(), http),
            ("expectBodyContains", self.expect_body_contains.is_some(), http),
            ("expectBodyEquals", self.expect_body_equals.is_some(), http),
            ("expectBodyMatches", self.expect_body_matches.is_some(), http),
            ("expectHeaders", !self.expect_headers.is_empty(), http),
            ("maxBodyBytes", self.max_body_bytes.is_some(), http),
            ("method", self.method.is_some(), http),
            ("body", self.body.is_some(), http),
            ("contentType", self.content_type.is_some(), http),
            ("requestHeaders", !self.request_headers.is_empty(), http),
            ("credential", self.credential.is_some(), http),
            ("clientCertificate", self.client_certificate.is_some(), tls),
            ("httpProxy", self.http_proxy.is_some(), http),
            ("proxyCredential", self.proxy_credential.is_some(), http),
            ("httpVersion", self.http_version.is_some(), http),
            ("redirects", self.redirects.is_some(), http),
            ("keepAlive", self.keep_alive, http),
            ("expectTls", self.expect_tls.is_some(), tls),
            ("tlsVerify", self.tls_verify.is_some(), tls),
            ("extraRoots", self.extra_roots.is_some(), tls),
            ("mustNotAnswer", self.must_not_answer.is_some(), streams),
            ("mustNotAnswerAt", !self.must_not_answer_at.is_empty(), streams),
            (
                "mustNotAnswerFrom",
                !self.must_not_answer_from.is_empty(),
                streams,
            ),
            ("proxyHeader", self.proxy_header.is_some(), streams),
            ("send", self.send.is_some(), tcp),
            ("expect", self.expect.is_some(), tcp),
            ("record", self.record.is_some(), dns),
            ("transport", self.transport.is_some(), dns),
        ] {
            // An unknown scheme is reported later, as an error of the URL.
            let known = streams.1.contains(&scheme) || scheme == "dns";
            if given && known && !allowed.contains(&scheme) {
                return Err(InvalidTarget::NotForScheme {
                    field,
                    schemes,
                    scheme: scheme.to_owned(),
                });
            }
        }
        if self.tls_verify == Some(false) && self.extra_roots.is_some() {
            return Err(InvalidTarget::Conflict {
                field: "extraRoots",
                reason: "with tlsVerify: false no certificate is rejected; remove one of the two fields",
            });
        }
        if scheme != "dns" && self.resolver.is_some() && self.search.is_some() {
            return Err(InvalidTarget::Conflict {
                field: "resolver",
                reason: "it is asked for the name as it is written; remove search",
            });
        }
        Ok(())
    }

    fn http(&self, url: &Url, scheme: Scheme, host: HostName) -> Result<(ProbeSpec, String), InvalidTarget> {
        self.check_http_values(scheme)?;
        self.check_access(&host)?;
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let port = url.port().unwrap_or(match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        });
        let lower = |(name, value): (&String, &Option<String>)| (name.to_ascii_lowercase(), value.clone());
        let probe = HttpProbe {
            expect_status: self.expect_status.clone().unwrap_or(ExpectedStatus::Below500),
            expect_body_contains: self.expect_body_contains.clone(),
            expect_body_equals: self.expect_body_equals.clone(),
            expect_body_matches: self.expect_body_matches.clone(),
            expect_headers: self.expect_headers.iter().map(lower).collect(),
            expect_tls: self.expect_tls.clone(),
            must_not_answer: self.must_not_answer_everywhere(),
            max_body: self.max_body_bytes,
            method: self.method.unwrap_or(Method::Get),
            body: self.body.clone(),
            content_type: self.content_type.clone(),
            request_headers: self
                .request_headers
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
                .collect(),
            credential: self.credential.clone(),
            client_certificate: self.client_certificate.clone(),
            proxy: self.http_proxy.clone().map(|url| HttpProxy {
                url,
                credential: self.proxy_credential.clone(),
            }),
            version: self.http_version.unwrap_or(HttpVersion::Http11),
            redirects: self.redirects.clone(),
            accept_invalid_certificate: self.tls_verify == Some(false),
            extra_roots: self.extra_roots.clone(),
            keep_alive: self.keep_alive,
            proxy_header: self.proxy_header,
            resolver: self.resolver,
            search: self.search,
            ..HttpProbe::get(scheme, host, port, path)
        };
        let mut plain = url.clone();
        let mut words = Vec::from_iter(self.keep_alive.then(|| "keep-alive".to_owned()));
        words.extend(self.suffix_words());
        plain.set_fragment((!words.is_empty()).then(|| words.join(",")).as_deref());
        Ok((ProbeSpec::Http(probe), plain.to_string()))
    }

    /// Validates the values of the HTTP fields, individually and in combination.
    fn check_http_values(&self, scheme: Scheme) -> Result<(), InvalidTarget> {
        let conflict = |field, why| Err(InvalidTarget::Conflict { field, reason: why });
        let length = |text: &Option<String>| text.as_ref().map(|text| text.len() as u64);
        check_range(
            "expectBodyContains",
            "bytes",
            (1, MAX_CHECKED_BODY),
            length(&self.expect_body_contains),
        )?;
        check_range(
            "expectBodyEquals",
            "bytes",
            (0, MAX_CHECKED_BODY),
            length(&self.expect_body_equals),
        )?;
        check_range("body", "bytes", (0, MAX_REQUEST_BODY), length(&self.body))?;
        check_range("contentType", "bytes", (1, 128), length(&self.content_type))?;
        check_range("maxBodyBytes", "bytes", (0, 1 << 30), self.max_body_bytes)?;
        check_range(
            "expectHeaders",
            "headers",
            (0, MAX_EXPECTED_HEADERS),
            Some(self.expect_headers.len() as u64),
        )?;
        for name in self.expect_headers.keys() {
            if name.is_empty()
                || name.len() > 128
                || !name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            {
                return Err(InvalidTarget::Value {
                    field: "expectHeaders",
                    expected: "header names of letters, digits, - and _",
                    value: name.clone(),
                });
            }
        }
        if let Some(redirects) = &self.redirects {
            check_range("redirects.max", "redirects", (1, 20), Some(redirects.max.into()))?;
        }
        if self.body.is_some() && self.method != Some(Method::Post) {
            return conflict("body", "only a POST has one; set method: POST or remove the body");
        }
        if self.content_type.is_some() && self.body.is_none() {
            return conflict("contentType", "there is no body; set body or remove contentType");
        }
        if self.method == Some(Method::Head)
            && (self.expect_body_contains.is_some()
                || self.expect_body_equals.is_some()
                || self.expect_body_matches.is_some())
        {
            return conflict(
                "method",
                "the response to a HEAD has no body; use GET, or remove the expectBody fields",
            );
        }
        if self.http_version == Some(HttpVersion::Http2) && scheme == Scheme::Http {
            return conflict(
                "httpVersion",
                "HTTP/2 is negotiated in the TLS handshake; use an https:// url",
            );
        }
        if self.keep_alive && self.http_version == Some(HttpVersion::Http2) {
            return conflict(
                "keepAlive",
                "an HTTP/2 connection is always kept alive; set httpVersion: \"1.1\"",
            );
        }
        if self.keep_alive
            && (self.redirects.is_some()
                || self.must_not_answer.is_some()
                || self.has_partial_must_not_answer())
        {
            return conflict(
                "keepAlive",
                "it repeats one request on one connection; remove redirects and mustNotAnswer",
            );
        }
        Ok(())
    }

    fn tcp(&self, url: &Url, host: HostName) -> Result<(ProbeSpec, String), InvalidTarget> {
        let port = url.port().ok_or_else(|| InvalidTarget::NoPort {
            scheme: url.scheme().to_owned(),
            url: self.url.clone(),
        })?;
        let mut id = format!("{}://{}:{port}", url.scheme(), url.host_str().unwrap_or_default());
        let words: Vec<String> = self.suffix_words().collect();
        if !words.is_empty() {
            id = format!("{id}#{}", words.join(","));
        }
        let probe = TcpProbe {
            tls: url.scheme() == "tls",
            expect_tls: self.expect_tls.clone(),
            accept_invalid_certificate: self.tls_verify == Some(false),
            extra_roots: self.extra_roots.clone(),
            send: self.send.clone(),
            expect: self.expect.clone(),
            must_not_answer: self.must_not_answer_everywhere(),
            proxy_header: self.proxy_header,
            client_certificate: self.client_certificate.clone(),
            resolver: self.resolver,
            search: self.search,
            ..TcpProbe::connect(host, port)
        };
        Ok((ProbeSpec::Tcp(probe), id))
    }

    /// Words that distinguish the target from the same target with the default lookup, without a proxy and without
    /// credentials: the same URL is often probed with and without them.
    fn suffix_words(&self) -> impl Iterator<Item = String> {
        let search = self.search.filter(|manner| *manner != SearchManner::Glibc);
        let proxy = self
            .http_proxy
            .as_ref()
            .map(|proxy| format!("proxy={}", proxy.authority()));
        let credential = self.credential.as_ref().map(|name| format!("credential={name}"));
        let certificate = self.client_certificate.as_ref();
        [
            search.map(|manner| manner.to_string()),
            self.resolver.map(|resolver| format!("@{resolver}")),
            proxy,
            credential,
            certificate.map(|name| format!("certificate={name}")),
        ]
        .into_iter()
        .flatten()
    }

    fn dns(&self, host: HostName) -> (ProbeSpec, String) {
        let mut id = format!("dns://{host}");
        // The same name queried in another way is a separate subject.
        let mut apart = Vec::new();
        apart.extend(self.record.filter(|r| *r != RecordType::A).map(|r| r.to_string()));
        apart.extend(
            self.transport
                .filter(|t| *t != DnsTransport::Udp)
                .map(|t| t.to_string()),
        );
        apart.extend(self.search.map(|s| s.to_string()));
        apart.extend(self.resolver.map(|r| format!("@{r}")));
        if !apart.is_empty() {
            id = format!("{id}#{}", apart.join(","));
        }
        let probe = DnsProbe {
            resolver: self.resolver,
            transport: self.transport.unwrap_or(DnsTransport::Udp),
            search: self.search,
            ..DnsProbe::new(host, self.record.unwrap_or(RecordType::A))
        };
        (ProbeSpec::Dns(probe), id)
    }
}

fn check_range(
    field: &'static str,
    unit: &'static str,
    (low, high): (u64, u64),
    got: Option<u64>,
) -> Result<Option<u64>, InvalidTarget> {
    match got {
        Some(got) if !(low..=high).contains(&got) => Err(InvalidTarget::OutOfRange {
            field,
            min: low,
            max: high,
            unit,
            value: got,
        }),
        got => Ok(got),
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
