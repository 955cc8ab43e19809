//! `OpenAPI` 3.1 document of the API. The schemas of requests and responses come from the Rust types; the paths are
//! written here. `docs/reference/openapi.json` is the committed copy, checked by a test.

mod operations;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::access::Permission;
use operations::operations;

/// One operation: a path with a method.
struct OpenApiOperation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// Required permission; `None` for probers, which authenticate separately.
    permission: Option<Permission>,
    query: &'static [(&'static str, &'static str)],
    body: Option<Value>,
    response: (&'static str, &'static str, Value),
    /// Error responses in addition to those of every operation.
    errors: &'static [(&'static str, &'static str)],
}

impl OpenApiOperation {
    fn read(path: &'static str, summary: &'static str, answer: Value) -> Self {
        Self {
            method: "get",
            path,
            summary,
            permission: Some(Permission::Read),
            query: &[],
            body: None,
            response: ("200", "application/json", answer),
            errors: &[],
        }
    }

    fn write(
        path: &'static str,
        summary: &'static str,
        permission: Permission,
        body: Value,
        answer: Value,
    ) -> Self {
        Self {
            method: "post",
            path,
            summary,
            permission: Some(permission),
            query: &[],
            body: Some(body),
            response: ("200", "application/json", answer),
            errors: &[("415", "Not application/json.")],
        }
    }

    fn document(self) -> Value {
        let mut parameters: Vec<Value> = self
            .path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
            .collect();
        parameters.extend(self.query.iter().map(
            |(name, text)| json!({"name": name, "in": "query", "description": text, "schema": {"type": "string"}}),
        ));
        let (status, media, schema) = self.response;
        let mut responses = Map::new();
        responses.insert(
            status.to_owned(),
            json!({"description": "Success.", "content": {media: {"schema": schema}}}),
        );
        let error = |text: &str| json!({"description": text, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}});
        let mut refusals = vec![
            (
                "400",
                "The request is malformed; the error says what was expected.",
            ),
            ("503", "Temporarily unavailable; retry after `retry-after`."),
        ];
        if self.permission.is_some() {
            refusals.extend([
                ("401", "The credentials are missing or invalid."),
                ("403", "The user lacks the required permission."),
            ]);
        }
        if self.path.contains('{') {
            refusals.push(("404", "No object has this id."));
        }
        for (status, text) in refusals.iter().chain(self.errors) {
            responses.insert((*status).to_owned(), error(text));
        }
        let mut operation = json!({"summary": self.summary, "responses": responses});
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(schema) = self.body {
            let media = if self.permission.is_some() {
                "application/json"
            } else {
                "application/x-ndjson"
            };
            operation["requestBody"] = json!({"required": true, "content": {media: {"schema": schema}}});
        }
        if let Some(permission) = self.permission {
            let (verb, resource) = permission.rbac_rule();
            operation["x-parallax-right"] = format!("{verb} {resource}.parallax.dev").into();
            operation["security"] = json!([{"bearer": []}, {}]);
        }
        operation
    }
}

/// Returns the document.
pub(crate) fn document() -> Value {
    // OpenAPI 3.1 uses JSON Schema 2020-12.
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = Map::new();
    for operation in operations(&mut generator) {
        let (method, path) = (operation.method, operation.path);
        let known = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        known[method] = operation.document();
    }
    let mut schemas: Map<String, Value> = generator.take_definitions(true);
    schemas.insert(
        "Error".to_owned(),
        json!({"type": "object", "required": ["error"], "description": "What went wrong or was expected, in one sentence.",
               "properties": {"error": {"type": "string"}, "reason": {"type": "string"}}}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Parallax",
            "version": "v1",
            "description": "The aggregator's API. Times are microseconds since 1970 (durations end in `_us`). Clients must ignore unknown fields of a response: later versions may add fields. docs/reference/api.md documents permissions.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// Schema of an object of the diagnosis, which `docs/reference/diagnosis.md` documents.
fn object(text: &str) -> Value {
    json!({"type": "object", "description": text})
}

fn list(field: &str, items: &Value) -> Value {
    json!({"type": "object", "required": [field], "properties": {field: {"type": "array", "items": items}}})
}

/// `GET /v1/openapi.json`.
pub(super) async fn serve_document() -> Response {
    Json(document()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/openapi.json");

    /// `PARALLAX_BLESS=1` regenerates the committed document.
    #[test]
    fn the_committed_document_is_what_the_types_and_paths_say() {
        let written = format!("{}\n", serde_json::to_string_pretty(&document()).unwrap());
        if std::env::var_os("PARALLAX_BLESS").is_some() {
            std::fs::write(COMMITTED, &written).unwrap();
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
        assert!(
            committed == written,
            "docs/reference/openapi.json is out of date; regenerate it with PARALLAX_BLESS=1 and review the diff"
        );
    }

    #[test]
    fn every_path_of_v1_that_is_served_is_in_it_and_no_other() {
        let source = include_str!("mod.rs");
        let served: BTreeSet<String> = source
            .split(".route(")
            .skip(1)
            .filter_map(|rest| rest.split('"').nth(1))
            .filter(|path| path.starts_with("/v1/"))
            .map(ToOwned::to_owned)
            .collect();
        let document = document();
        let documented: BTreeSet<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(documented, served);
        assert!(served.len() > 10, "the source was read");
    }

    #[test]
    fn every_reference_in_it_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(ToOwned::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
