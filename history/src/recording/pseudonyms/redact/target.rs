//! Replaces names in targets and in what they expect.

use std::collections::BTreeMap;

use parallax_model::{CredentialName, HttpProxyUrl, RedirectPolicy, TargetSpec, TlsExpectation};

use crate::recording::pseudonyms::Pseudonymizer;

impl Pseudonymizer {
    /// Contents and header values are free text and certificates name people; they are left out, since a replay never
    /// probes.
    pub(super) fn target_spec(&mut self, target: TargetSpec) -> TargetSpec {
        let TargetSpec {
            url,
            expect_status,
            expect_body_contains: _,
            expect_body_equals: _,
            expect_body_matches: _,
            expect_headers: _,
            expect_tls,
            must_not_answer,
            must_not_answer_at,
            must_not_answer_from,
            max_body_bytes,
            method,
            body: _,
            content_type: _,
            request_headers: _,
            credential,
            client_certificate,
            http_proxy,
            proxy_credential,
            http_version,
            redirects,
            tls_verify,
            extra_roots: _,
            keep_alive,
            proxy_header,
            send: _,
            expect: _,
            record,
            resolver,
            transport,
            search,
            interval_ms,
            timeout_ms,
            pending,
        } = target;
        TargetSpec {
            url: self.url(&url),
            expect_status,
            expect_body_contains: None,
            expect_body_equals: None,
            expect_body_matches: None,
            expect_headers: BTreeMap::new(),
            expect_tls: expect_tls.map(|expected| self.tls_expectation(expected)),
            must_not_answer,
            must_not_answer_at: must_not_answer_at
                .into_iter()
                .map(|address| self.ip(address))
                .collect(),
            must_not_answer_from,
            max_body_bytes,
            method,
            body: None,
            content_type: None,
            request_headers: BTreeMap::new(),
            credential: credential.map(|name| self.credential_name(&name)),
            client_certificate: client_certificate.map(|name| self.credential_name(&name)),
            http_proxy: http_proxy.map(|proxy| self.http_proxy(proxy)),
            proxy_credential: proxy_credential.map(|name| self.credential_name(&name)),
            http_version,
            redirects: redirects.map(|policy| self.redirects(policy)),
            tls_verify,
            extra_roots: None,
            keep_alive,
            proxy_header,
            send: None,
            expect: None,
            record,
            resolver: resolver.map(|resolver| self.socket(resolver)),
            transport,
            search,
            interval_ms,
            timeout_ms,
            pending,
        }
    }

    /// A pseudonym is a valid name of a credential.
    fn credential_name(&self, name: &CredentialName) -> CredentialName {
        self.word(name.as_str()).parse().unwrap_or_else(|_| name.clone())
    }

    fn http_proxy(&mut self, proxy: HttpProxyUrl) -> HttpProxyUrl {
        HttpProxyUrl {
            host: self.typed_name(proxy.host),
            port: proxy.port,
        }
    }

    fn tls_expectation(&mut self, expected: TlsExpectation) -> TlsExpectation {
        let TlsExpectation {
            min_version,
            name,
            days_left,
            issuer: _,
        } = expected;
        TlsExpectation {
            min_version,
            name: name.map(|name| self.typed_name(name)),
            days_left,
            issuer: None,
        }
    }

    fn redirects(&mut self, policy: RedirectPolicy) -> RedirectPolicy {
        let RedirectPolicy {
            max,
            schemes,
            hosts,
            ports,
        } = policy;
        RedirectPolicy {
            max,
            schemes,
            hosts: hosts.into_iter().map(|host| self.typed_name(host)).collect(),
            ports,
        }
    }
}
