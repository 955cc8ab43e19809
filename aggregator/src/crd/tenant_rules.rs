//! What a `Target` of a namespace may ask for. A Target must not become a tool: it sends nothing of its author's choice,
//! reveals nothing of a response beyond its status, and costs little.

use parallax_model::{CredentialName, HostName, Method, TargetSpec};

use super::tenant_options::TenantOptions;

/// Minimum interval in milliseconds.
const MIN_INTERVAL_MS: u64 = 5_000;

/// Maximum size of a response in bytes.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// Returns why a namespace may not ask for a probe, and what to do.
pub(super) fn refused_probe(spec: &TargetSpec, options: &TenantOptions, namespace: &str) -> Option<String> {
    if let Some(message) = refused_credential(spec, options, namespace) {
        return Some(message);
    }
    if options.permits_any_probe(namespace) {
        return None;
    }
    let connects = !spec.url.to_ascii_lowercase().starts_with("dns:");
    let rules = [
        (
            "method",
            "only GET and HEAD are permitted",
            spec.method.is_some_and(|method| method == Method::Post),
        ),
        ("body", "a request body is not permitted", spec.body.is_some()),
        (
            "contentType",
            "a request body is not permitted",
            spec.content_type.is_some(),
        ),
        (
            "requestHeaders",
            "request headers are not permitted",
            !spec.request_headers.is_empty(),
        ),
        (
            "httpProxy",
            "a proxy, which connects to addresses that no rule checks, is not permitted",
            spec.http_proxy.is_some(),
        ),
        (
            "resolver",
            "a resolver is permitted for dns:// targets only",
            connects && spec.resolver.is_some(),
        ),
        ("send", "raw bytes are not permitted", spec.send.is_some()),
        (
            "expect",
            "an expectation on the content is not permitted",
            spec.expect.is_some(),
        ),
        (
            "expectBodyContains",
            "an expectation on the content is not permitted",
            spec.expect_body_contains.is_some(),
        ),
        (
            "expectBodyEquals",
            "an expectation on the content is not permitted",
            spec.expect_body_equals.is_some(),
        ),
        (
            "expectBodyMatches",
            "an expectation on the content is not permitted",
            spec.expect_body_matches.is_some(),
        ),
        (
            "intervalMs",
            "at least 5000 is required",
            spec.interval_ms
                .is_some_and(|interval| interval < MIN_INTERVAL_MS),
        ),
        (
            "maxBodyBytes",
            "at most 1048576 (1 MiB) is permitted",
            spec.max_body_bytes.is_some_and(|bytes| bytes > MAX_BODY_BYTES),
        ),
    ];
    let (field, rule, _) = rules.into_iter().find(|(_, _, broken)| *broken)?;
    Some(format!(
        "spec.{field}: {rule} in a Target; remove the field, or ask the operator to set \
         tenants.namespaces.{namespace}.anyProbe: true or to list the target in the aggregator's configuration"
    ))
}

/// Returns why a namespace may not use a credential. `anyProbe` does not include credentials: they act for the operator, so
/// each one is listed for the namespaces that may use it. Nor may a Target that uses one choose the path to the host: a
/// credential that is sent in plain text could be read there.
fn refused_credential(spec: &TargetSpec, options: &TenantOptions, namespace: &str) -> Option<String> {
    let uses: [(&str, Option<&CredentialName>); 3] = [
        ("credential", spec.credential.as_ref()),
        ("clientCertificate", spec.client_certificate.as_ref()),
        ("proxyCredential", spec.proxy_credential.as_ref()),
    ];
    for (field, name) in uses {
        let Some(name) = name else { continue };
        if !options.permits_credential(namespace, name) {
            return Some(format!(
                "spec.{field}: the credential {name} is not permitted in a Target of this namespace; remove the field, or ask \
                 the operator to list it in tenants.namespaces.{namespace}.credentials"
            ));
        }
    }
    spec.credential.as_ref()?;
    let leads = [
        ("resolver", spec.resolver.is_some()),
        ("httpProxy", spec.http_proxy.is_some()),
    ];
    let (field, _) = leads.into_iter().find(|(_, given)| *given)?;
    Some(format!(
        "spec.{field}: not permitted with credential in a Target, because the secret could be read elsewhere; remove one of the \
         two, or ask the operator to list the target in the aggregator's configuration"
    ))
}

/// Returns the namespace of a Service that a host name denotes (`NAME.NAMESPACE.svc`, with any suffix).
pub(super) fn service_namespace(host: &HostName) -> Option<String> {
    let host = host.as_str().trim_end_matches('.').to_ascii_lowercase();
    let labels: Vec<&str> = host.split('.').collect();
    // The last one: a Service may itself be called svc.
    let svc = labels.iter().rposition(|label| *label == "svc")?;
    // POD.SERVICE.NAMESPACE.svc denotes a Pod of a headless Service.
    (svc >= 2).then(|| labels[svc - 1].to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crd::NamespaceException;

    /// Namespaces that may use every field and, if one is given, a credential.
    fn with_any_probe<const N: usize>(namespaces: [(&str, Option<&str>); N]) -> TenantOptions {
        let exception = |(namespace, credential): (&str, Option<&str>)| {
            let exception = NamespaceException {
                any_probe: true,
                credentials: credential.iter().map(|name| name.parse().unwrap()).collect(),
                ..NamespaceException::default()
            };
            (namespace.to_owned(), exception)
        };
        TenantOptions {
            namespaces: namespaces.map(exception).into(),
            ..TenantOptions::default()
        }
    }

    #[test]
    fn each_field_that_makes_a_target_a_tool_is_refused_unless_the_operator_permits_it() {
        let options = with_any_probe([("trusted", None)]);
        for (field, value) in [
            ("method", json!("POST")),
            ("body", json!("x=1")),
            ("requestHeaders", json!({"X-Team": "shop"})),
            ("httpProxy", json!("http://proxy.example.test:3128")),
            ("resolver", json!("192.0.2.53:53")),
            ("send", json!("FLUSHALL\\r\\n")),
            ("expect", json!("+OK")),
            ("expectBodyContains", json!("secret")),
            ("expectBodyEquals", json!("secret")),
            ("expectBodyMatches", json!("secret")),
            ("intervalMs", json!(4_999)),
            ("maxBodyBytes", json!(1_048_577)),
        ] {
            let spec: TargetSpec =
                serde_json::from_value(json!({"url": "http://a.example.test/", field: value})).unwrap();
            let refused = refused_probe(&spec, &options, "shop").unwrap_or_default();
            assert!(
                refused.starts_with(&format!("spec.{field}: "))
                    && refused.contains("tenants.namespaces.shop.anyProbe"),
                "{field}: {refused}"
            );
            assert_eq!(refused_probe(&spec, &options, "trusted"), None, "{field}");
        }
        let modest = json!({"url": "http://a.example.test/", "method": "HEAD", "intervalMs": 5_000,
            "maxBodyBytes": 1_048_576, "expectStatus": "2xx"});
        let spec: TargetSpec = serde_json::from_value(modest).unwrap();
        assert_eq!(refused_probe(&spec, &options, "shop"), None);
    }

    #[test]
    fn a_credential_is_permitted_by_name_and_never_led_elsewhere() {
        let options = with_any_probe([("trusted", None), ("shop", Some("shop"))]);
        let refused = |namespace: &str, fields: serde_json::Value| {
            let mut spec = json!({"url": "https://a.example.test/"});
            spec.as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            let spec: TargetSpec = serde_json::from_value(spec).unwrap();
            refused_probe(&spec, &options, namespace).unwrap_or_default()
        };
        for field in ["credential", "clientCertificate", "proxyCredential"] {
            for (namespace, name) in [("trusted", "shop"), ("shop", "other"), ("blog", "shop")] {
                let message = refused(namespace, json!({field: name}));
                assert!(
                    message.starts_with(&format!("spec.{field}: "))
                        && message.contains(&format!("tenants.namespaces.{namespace}.credentials")),
                    "{message}"
                );
            }
            assert_eq!(refused("shop", json!({field: "shop"})), "", "{field}");
        }
        for (field, value) in [
            ("resolver", "192.0.2.53:53"),
            ("httpProxy", "http://proxy.example.test:3128"),
        ] {
            let message = refused("shop", json!({"credential": "shop", field: value}));
            assert!(message.starts_with(&format!("spec.{field}: ")), "{message}");
            assert_eq!(refused("shop", json!({field: value})), "", "{field}");
        }
    }

    #[test]
    fn the_name_of_a_service_tells_its_namespace() {
        for (host, namespace) in [
            ("vault.bank.svc", Some("bank")),
            ("vault.Bank.svc.cluster.local.", Some("bank")),
            ("vault-0.vault.bank.svc", Some("bank")),
            ("svc.bank.svc.cluster.local", Some("bank")),
            ("db-0.svc.bank.svc", Some("bank")),
            ("shop.example.test", None),
            ("svc.example.test", None),
        ] {
            let host = HostName::new(host).unwrap();
            assert_eq!(service_namespace(&host).as_deref(), namespace, "{host}");
        }
    }
}
