//! The CRD of Preflight: the schema of its types, with validation rules and limits that the API server enforces.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::Preflight;

/// Maximum number of host names: a certificate of Let's Encrypt has at most a hundred.
const MAX_HOSTS: i64 = 100;

/// Maximum length of the name of an object or host.
const MAX_NAME_LENGTH: i64 = 253;

/// Fields that determine who would issue, as a CEL list; at most one may be set.
const ISSUER_FIELDS: &str = "[has(self.issuerRef), has(self.class), has(self.gatewayRef), has(self.certificateRef), has(self.ingressRef)]";

/// Returns the CRD of Preflight.
pub(in crate::crd) fn crd() -> CustomResourceDefinition {
    let mut definition = Preflight::crd();
    for version in &mut definition.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(spec) = schema.and_then(|schema| property(schema, "spec")) {
            spec.x_kubernetes_validations = serde_json::from_value(validation_rules()).ok();
            limit_lengths(spec);
        }
    }
    definition
}

/// Rules against contradictory fields. Errors that depend on the cluster are reported by the object's conditions.
fn validation_rules() -> Value {
    let rule = |rule: &str, message: &str| json!({"rule": rule, "message": message});
    let named = format!("{ISSUER_FIELDS}.exists(named, named)");
    json!([
        rule(
            &format!("{ISSUER_FIELDS}.filter(named, named).size() <= 1"),
            "expected one of issuerRef, class, gatewayRef, certificateRef and ingressRef",
        ),
        rule(
            &format!("{named} || (has(self.noCreate) && self.noCreate)"),
            "no issuer: expected issuerRef, certificateRef or ingressRef; or class or gatewayRef to test without an issuer; or noCreate: true",
        ),
        rule(
            "has(self.certificateRef) || has(self.ingressRef) || (has(self.hosts) && self.hosts.size() > 0)",
            "hosts: expected a name, because there is no certificateRef or ingressRef to take names from",
        ),
        rule(
            "!(has(self.noCreate) && self.noCreate && has(self.allowBillable) && self.allowBillable)",
            "allowBillable: with noCreate, no objects are created that could cost money",
        ),
        rule(
            "!(has(self.noCreate) && self.noCreate && has(self.readySeconds))",
            "readySeconds: with noCreate, there are no objects to wait for",
        ),
        rule(
            "!has(self.issuerRef) || !has(self.issuerRef.kind) || self.issuerRef.kind in ['Issuer', 'ClusterIssuer']",
            "issuerRef.kind: expected Issuer or ClusterIssuer",
        ),
        rule(
            "!has(self.profile) || self.profile in ['boulder', 'pebble']",
            "profile: expected boulder or pebble",
        ),
        rule(
            "!has(self.readySeconds) || (self.readySeconds >= 1 && self.readySeconds <= 3600)",
            "readySeconds: expected 1 to 3600",
        ),
    ])
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

/// Limits lengths, which also bounds the cost of the rules.
fn limit_lengths(spec: &mut JSONSchemaProps) {
    if let Some(hosts) = property(spec, "hosts") {
        hosts.max_items = Some(MAX_HOSTS);
        if let Some(JSONSchemaPropsOrArray::Schema(host)) = &mut hosts.items {
            (host.min_length, host.max_length) = (Some(1), Some(MAX_NAME_LENGTH));
        }
    }
    for (field, longest) in [
        ("class", MAX_NAME_LENGTH),
        ("profile", 16),
        ("caaIdentity", MAX_NAME_LENGTH),
        ("rerun", 64),
    ] {
        if let Some(field) = property(spec, field) {
            (field.min_length, field.max_length) = (Some(1), Some(longest));
        }
    }
    for reference in ["issuerRef", "gatewayRef", "certificateRef", "ingressRef"] {
        let Some(reference) = property(spec, reference) else {
            continue;
        };
        for (field, longest) in [("name", MAX_NAME_LENGTH), ("kind", 32), ("namespace", 63)] {
            if let Some(field) = property(reference, field) {
                (field.min_length, field.max_length) = (Some(1), Some(longest));
            }
        }
    }
}
