//! Replaces names in targets and in what they expect.

use std::collections::BTreeMap;

use parallax_model::{RedirectPolicy, TargetSpec, TlsExpectation};

use crate::recording::pseudonyms::Pseudonymizer;

impl Pseudonymizer {
    /// Expected content is free text and certificates name people; both are left out, since a replay never probes.
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
