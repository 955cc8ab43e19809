//! Requests according to the API server's audit log.

use serde::Deserialize;

/// A request in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditedRequest {
    /// The user, as `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// The RBAC verb: `list`, `watch`, `create`, …
    pub verb: String,
    /// The API group; empty for the core.
    pub group: String,
    /// The plural with its subresource after a slash; empty for a non-resource request.
    pub resource: String,
    /// The namespace; empty for cluster-scoped resources and for requests across all namespaces.
    pub namespace: String,
    /// The object's name; empty for a collection.
    pub name: String,
    /// Whether the authorizer allowed it.
    pub allowed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    user: AuditUser,
    verb: String,
    object_ref: Option<AuditObject>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct AuditUser {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuditObject {
    resource: String,
    namespace: String,
    name: String,
    api_group: String,
    subresource: String,
}

/// Parses the log; skips an incomplete last line.
pub(crate) fn read(log: &str) -> Vec<AuditedRequest> {
    log.lines()
        .filter_map(|line| serde_json::from_str::<Event>(line).ok())
        .map(|event| {
            let object = event.object_ref.unwrap_or_default();
            let resource = match object.subresource.as_str() {
                "" => object.resource,
                subresource => format!("{}/{subresource}", object.resource),
            };
            AuditedRequest {
                user: event.user.username,
                verb: event.verb,
                group: object.api_group,
                resource,
                namespace: object.namespace,
                name: object.name,
                allowed: event
                    .annotations
                    .get("authorization.k8s.io/decision")
                    .is_some_and(|decision| decision == "allow"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_a_request_and_half_a_line_is_none() {
        let line = r#"{"user":{"username":"a"},"verb":"create","objectRef":{"resource":"serviceaccounts","namespace":"n","name":"x","apiVersion":"v1","subresource":"token"},"annotations":{"authorization.k8s.io/decision":"forbid"}}"#;
        let read = read(&format!("{line}\n{}", &line[..40]));
        assert_eq!(
            read,
            [AuditedRequest {
                user: "a".to_owned(),
                verb: "create".to_owned(),
                group: String::new(),
                resource: "serviceaccounts/token".to_owned(),
                namespace: "n".to_owned(),
                name: "x".to_owned(),
                allowed: false,
            }]
        );
    }
}
