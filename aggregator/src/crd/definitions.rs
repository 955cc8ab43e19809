//! The CRDs: the schemas of the types, with validation rules that the API server enforces. A test generates
//! `deploy/crds.yaml` from them; the binary needs none of it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt};
use parallax_model::TargetSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    preflights,
    types::{Run, TargetStatus},
};

// The aggregator decodes objects of this kind field by field, so only the schema is derived from the type.
/// Something that must be reachable and that the cluster does not publish.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "parallax.dev",
    version = "v1alpha1",
    kind = "Target",
    namespaced,
    status = "TargetStatus",
    category = "parallax",
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.url"}"#,
    printcolumn = r#"{"name":"Accepted","type":"string","jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Accepted\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
struct TargetBody {
    /// The fields of the configuration's `targets`.
    #[serde(flatten)]
    target: TargetSpec,
}

/// CEL rules that the API server enforces, so that errors are rejected on write. The condition `Accepted` reports what
/// they cannot check.
fn validation_rules(kind: &str) -> Value {
    let rule = |rule: &str, message: &str| json!({"rule": rule, "message": message});
    let url = if kind == "Target" {
        rule(
            "self.url.matches('^(https?|tcp|tls|dns)://[^/]')",
            "url: expected http://…, https://…, tcp://host:port, tls://host:port or dns://name",
        )
    } else {
        rule(
            "self.url == 'mesh' || self.url.matches('^(https?|tcp|tls|dns)://[^/]')",
            "url: expected http://…, https://…, tcp://host:port, tls://host:port, dns://name or mesh",
        )
    };
    let shared = [
        url,
        rule(
            "!has(self.timeoutMs) || (self.timeoutMs >= 50 && self.timeoutMs <= 60000)",
            "timeoutMs: expected 50 to 60000",
        ),
    ];
    let own = match kind {
        "Target" => vec![
            rule(
                "!has(self.intervalMs) || (self.intervalMs >= 200 && self.intervalMs <= 3600000)",
                "intervalMs: expected 200 to 3600000",
            ),
            rule(
                "!has(self.body) || (has(self.method) && self.method == 'POST')",
                "body: only a POST has one",
            ),
            rule(
                "!has(self.expectTls) || self.url.startsWith('https://') || self.url.startsWith('tls://')",
                "expectTls: only for https and tls targets",
            ),
        ],
        _ => vec![
            rule(
                "!has(self.from) || self.from in ['all', 'nodes', 'zones', 'outside']",
                "from: expected all, nodes, zones or outside",
            ),
            rule(
                "!has(self.rounds) || (self.rounds >= 1 && self.rounds <= 20)",
                "rounds: expected 1 to 20",
            ),
            rule(
                "self == oldSelf",
                "spec is immutable because a run is made once; create another Run",
            ),
        ],
    };
    shared.into_iter().chain(own).collect()
}

/// Returns the CRDs of Target and Run, which the aggregator watches, with their validation rules.
pub(super) fn crds() -> Vec<CustomResourceDefinition> {
    [Target::crd(), Run::crd()].into_iter().map(with_rules).collect()
}

fn with_rules(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let rules = validation_rules(&definition.spec.names.kind);
    for version in &mut definition.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        let spec = schema
            .and_then(|schema| schema.properties.as_mut())
            .and_then(|properties| properties.get_mut("spec"));
        if let Some(spec) = spec {
            spec.x_kubernetes_validations = serde_json::from_value(rules.clone()).ok();
            // The API server also needs maximum lengths to bound the cost of the rules.
            for (field, longest) in [("url", 2_048), ("from", 16)] {
                let field = spec
                    .properties
                    .as_mut()
                    .and_then(|properties| properties.get_mut(field));
                if let Some(field) = field {
                    field.max_length = Some(longest);
                }
            }
        }
    }
    definition
}

/// Returns all CRDs, including Preflight, as YAML: the content of `deploy/crds.yaml`.
pub(super) fn crds_yaml() -> Result<String, serde_saphyr::ser::Error> {
    let mut text = String::from(
        "# Generated from the types in aggregator/src/crd; do not edit. A test compares the two.\n",
    );
    for definition in crds().into_iter().chain([preflights::crd()]) {
        // YAML 1.1 parsers do not read a bare `on` or `0o7` as text.
        let options = serde_saphyr::ser_options! { yaml_12: false };
        text.push_str("---\n");
        text.push_str(serde_saphyr::to_string_with_options(&definition, options)?.trim_start());
    }
    Ok(text)
}
