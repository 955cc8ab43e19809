//! What a `Target` object may ask for. Its author is a tenant of the cluster, while the probes come from every node and their
//! outcome is visible: without limits, a Target would send requests and read responses in the name of the mesh.

use std::collections::BTreeSet;

use parallax_model::{Method, TargetSpec};

/// Shortest interval of a Target, in milliseconds: each vantage probes it.
const MIN_INTERVAL_MS: u64 = 5_000;

/// Maximum size of a response that a Target may ask for.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// Limits of Target objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TenantRules {
    /// Namespaces whose objects have the same rights as the aggregator's configuration, apart from addresses.
    pub(crate) trusted_namespaces: BTreeSet<String>,
}

impl TenantRules {
    /// Returns the field that a Target of a namespace must not have, and why.
    pub(super) fn violation(&self, namespace: &str, spec: &TargetSpec) -> Option<String> {
        if self.trusted_namespaces.contains(namespace) {
            return None;
        }
        let fields = [
            (
                "method",
                spec.method.is_some_and(|method| method == Method::Post),
                "expected GET or HEAD",
            ),
            ("body", spec.body.is_some(), "a Target sends no content"),
            (
                "contentType",
                spec.content_type.is_some(),
                "a Target sends no content",
            ),
            ("send", spec.send.is_some(), "a Target sends no content"),
            (
                "expect",
                spec.expect.is_some(),
                "a Target must not test what a server sends",
            ),
            (
                "expectBodyContains",
                spec.expect_body_contains.is_some(),
                "a Target must not test what a server sends",
            ),
            (
                "expectBodyEquals",
                spec.expect_body_equals.is_some(),
                "a Target must not test what a server sends",
            ),
            (
                "expectBodyMatches",
                spec.expect_body_matches.is_some(),
                "a Target must not test what a server sends",
            ),
            (
                "intervalMs",
                spec.interval_ms
                    .is_some_and(|interval| interval < MIN_INTERVAL_MS),
                "expected 5000 or more",
            ),
            (
                "maxBodyBytes",
                spec.max_body_bytes.is_some_and(|size| size > MAX_BODY_BYTES),
                "expected 1048576 or less",
            ),
        ];
        let (field, _, reason) = fields.into_iter().find(|(_, is_set, _)| *is_set)?;
        Some(format!(
            "spec.{field}: {reason}; an operator can allow it for the namespace with tenants.trustedNamespaces in the aggregator's configuration"
        ))
    }

    /// Returns why a Target must not probe a host: the Service of another namespace.
    pub(super) fn foreign_service(&self, namespace: &str, host: &str) -> Option<String> {
        let owner = service_namespace(host)?;
        (owner != namespace && !self.trusted_namespaces.contains(namespace)).then(|| {
            format!("spec.url: {host} is a Service of the namespace {owner}; a Target must be in the same namespace")
        })
    }
}

/// Returns the namespace of the Service that a name inside the cluster denotes: `[POD.]SERVICE.NAMESPACE.svc[.cluster.local]`.
pub(super) fn service_namespace(host: &str) -> Option<&str> {
    let host = host.trim_end_matches('.');
    let inside = host.strip_suffix(".cluster.local").unwrap_or(host);
    inside.strip_suffix(".svc")?.rsplit('.').next()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn violation(namespace: &str, more: &Value) -> Option<String> {
        let mut spec = json!({"url": "http://a.example.test/"});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let rules = TenantRules {
            trusted_namespaces: ["platform".to_owned()].into(),
        };
        rules.violation(namespace, &serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_tenant_sends_nothing_reads_nothing_and_probes_at_most_every_five_seconds() {
        for (more, field) in [
            (json!({"method": "POST"}), "spec.method: "),
            (json!({"body": "x"}), "spec.body: "),
            (json!({"contentType": "text/plain"}), "spec.contentType: "),
            (json!({"send": "QUIT"}), "spec.send: "),
            (json!({"expect": "220"}), "spec.expect: "),
            (json!({"expectBodyMatches": "a.*"}), "spec.expectBodyMatches: "),
            (json!({"expectBodyContains": "a"}), "spec.expectBodyContains: "),
            (json!({"expectBodyEquals": "a"}), "spec.expectBodyEquals: "),
            (json!({"intervalMs": 4999}), "spec.intervalMs: "),
            (json!({"maxBodyBytes": 1_048_577}), "spec.maxBodyBytes: "),
        ] {
            let refused = violation("shop", &more).unwrap_or_default();
            assert!(refused.starts_with(field), "{more}: {refused}");
            assert_eq!(violation("platform", &more), None, "{more}");
        }
        for fine in [
            json!({"method": "HEAD", "intervalMs": 5000, "maxBodyBytes": 1_048_576}),
            json!({"expectStatus": "2xx", "expectHeaders": {"server": null}}),
        ] {
            assert_eq!(violation("shop", &fine), None, "{fine}");
        }
    }

    #[test]
    fn the_service_of_another_namespace_is_refused_under_each_of_its_names() {
        let rules = TenantRules::default();
        for host in [
            "db.bank.svc",
            "db.bank.svc.cluster.local",
            "db.bank.svc.cluster.local.",
            "db-0.db.bank.svc.cluster.local",
        ] {
            assert!(rules.foreign_service("shop", host).is_some(), "{host}");
            assert_eq!(rules.foreign_service("bank", host), None, "{host}");
        }
        assert_eq!(rules.foreign_service("shop", "shop.example.test"), None);
    }
}
