//! `OpenAPI` 3.1 document of the API. The schemas of requests and responses come from the Rust types; the paths are
//! written here. `docs/reference/openapi.json` is the committed copy, checked by a test.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use parallax_api::{
    challenges::ChallengeList,
    forecasts::RenewalForecastList,
    incident_actions::{
        AcknowledgeRequest, IncidentActions, MaintenanceWindow, SilenceRequest, WindowRequest,
    },
    notifications::ReceiverStatusList,
    runs::{PreflightRun, RunEvent, RunRequest},
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

pub(crate) use super::baseline::{BaselineResetAnswer, BaselineResetRequest};
use crate::access::Permission;

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
        if let Some(deed) = self.permission {
            let (verb, resource) = deed.rbac_rule();
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

#[expect(
    clippy::too_many_lines,
    reason = "a table of all paths, read from top to bottom"
)]
fn operations(generator: &mut SchemaGenerator) -> Vec<OpenApiOperation> {
    let (run, handling, window) = (
        schema_of::<PreflightRun>(generator),
        schema_of::<IncidentActions>(generator),
        schema_of::<MaintenanceWindow>(generator),
    );
    let incident = json!({"type": "object", "description": "A verdict over time, with its evidence; see docs/reference/concepts.md.",
        "required": ["id", "state", "headline", "sentence"],
        "properties": {"id": {"type": "string"}, "state": {"enum": ["open", "recovering", "closed"]},
            "since": {"type": "integer"}, "opened": {"type": "integer"}, "closed": {"type": "integer"},
            "headline": {"type": "string", "description": "The cause and the place, in at most 20 words."},
            "sentence": {"type": "string", "description": "Who fails, how and why."}, "probability": {"type": "number"},
            "targets": {"type": "array", "items": {"type": "string"}}, "actions": handling.clone(),
            "suppressed_because": {"type": "string", "description": "Why it triggers no notifications at present."}}});
    let ndjson = |schema: Value| ("200", "application/x-ndjson", schema);
    vec![
        OpenApiOperation::read(
            "/v1/state",
            "Everything that the page shows: matrix, incidents, findings, hazards, vantages, store",
            object(
                "The view of the diagnosis, with `targets`, `summary` (overall status: `status` is ok, failing or unknown, for which `parallax status` exits 0, 1 or 3; `tone`, `text` and `detail` are the headline of the page), `probers`, `topology_error`, `store`, `notifications`, and `replica` (the replica that responds).",
            ),
        ),
        OpenApiOperation {
            query: &[
                (
                    "before",
                    "The `next` of an earlier response, or a time in microseconds.",
                ),
                ("limit", "Maximum number of closed incidents, 1 to 500."),
            ],
            ..OpenApiOperation::read(
                "/v1/incidents",
                "Open incidents, then closed ones, latest first",
                list("incidents", &incident),
            )
        },
        OpenApiOperation::read("/v1/incidents/{id}", "One incident", incident),
        OpenApiOperation::read(
            "/v1/incidents/{id}/verdicts",
            "Changes of an incident's verdict, oldest first",
            list(
                "verdicts",
                &object("A verdict and the time from which it was valid."),
            ),
        ),
        OpenApiOperation::write(
            "/v1/incidents/{id}/acknowledge",
            "Acknowledge an incident: it stays open and triggers no more notifications",
            Permission::Act,
            schema_of::<AcknowledgeRequest>(generator),
            handling.clone(),
        ),
        OpenApiOperation::write(
            "/v1/incidents/{id}/silence",
            "Silence an incident's notifications for a duration; 0 ends the silence",
            Permission::Act,
            schema_of::<SilenceRequest>(generator),
            handling,
        ),
        OpenApiOperation {
            response: ("201", "application/json", run.clone()),
            errors: &[
                (
                    "409",
                    "None of its targets is probed any more, or no vantage reports.",
                ),
                ("429", "Too many runs."),
            ],
            ..OpenApiOperation::write(
                "/v1/incidents/{id}/verify",
                "Start a run that repeats the deciding probes",
                Permission::Run,
                json!({"type": "object", "additionalProperties": false}),
                Value::Null,
            )
        },
        OpenApiOperation {
            response: ("201", "application/json", run.clone()),
            errors: &[
                (
                    "409",
                    "None of the requested vantages reports, or none of them can probe the target.",
                ),
                ("413", "The body is too large."),
                ("415", "Not application/json."),
                ("429", "Too many runs; the error says when to retry."),
            ],
            ..OpenApiOperation::write(
                "/v1/runs",
                "Start a run that probes a target at once; the `location` header is the path of the run",
                Permission::Run,
                schema_of::<RunRequest>(generator),
                Value::Null,
            )
        },
        OpenApiOperation::read("/v1/runs", "Runs in memory, newest first", list("runs", &run)),
        OpenApiOperation {
            response: (
                "200",
                "application/json",
                json!({"anyOf": [run, schema_of::<RunEvent>(generator)]}),
            ),
            ..OpenApiOperation::read(
                "/v1/runs/{id}",
                "One run; with `accept: application/x-ndjson` a stream of one line per result, the judged run last",
                Value::Null,
            )
        },
        OpenApiOperation::read(
            "/v1/challenges",
            "Pending Challenges of cert-manager with their causes, oldest first",
            schema_of::<ChallengeList>(generator),
        ),
        OpenApiOperation::read(
            "/v1/notifications",
            "Receivers of notifications, whether deliveries succeed, and pending notifications",
            schema_of::<ReceiverStatusList>(generator),
        ),
        OpenApiOperation::read(
            "/v1/forecasts",
            "Renewal forecast for every name that would be validated by HTTP-01, as far as can be checked without a token",
            schema_of::<RenewalForecastList>(generator),
        ),
        OpenApiOperation::read(
            "/v1/maintenance",
            "Current and future maintenance windows",
            list("windows", &window),
        ),
        OpenApiOperation {
            response: ("201", "application/json", window.clone()),
            ..OpenApiOperation::write(
                "/v1/maintenance",
                "Announce a maintenance window: failures within it trigger no notifications",
                Permission::Act,
                schema_of::<WindowRequest>(generator),
                Value::Null,
            )
        },
        OpenApiOperation {
            errors: &[
                ("404", "No target has this id."),
                ("415", "Not application/json."),
            ],
            ..OpenApiOperation::write(
                "/v1/baselines/reset",
                "Reset a target's baseline: its responses from now on define the new baseline",
                Permission::Act,
                schema_of::<BaselineResetRequest>(generator),
                schema_of::<BaselineResetAnswer>(generator),
            )
        },
        OpenApiOperation::write(
            "/v1/maintenance/{id}/end",
            "End a maintenance window now",
            Permission::Act,
            json!({"type": "object", "additionalProperties": false}),
            window,
        ),
        OpenApiOperation {
            query: &[
                ("target", "The target's id; required."),
                ("step", "`5m` or `1h`."),
                ("from", "Microseconds since 1970."),
                ("to", "Microseconds since 1970."),
            ],
            ..OpenApiOperation::read(
                "/v1/history/rollups",
                "Counts and latency percentiles of a target by channel and placement",
                list("rollups", &object("Counts of one step.")),
            )
        },
        OpenApiOperation {
            query: &[
                ("target", "The target's id; required."),
                ("before", "Microseconds since 1970."),
                ("limit", "1 to 500."),
            ],
            ..OpenApiOperation::read(
                "/v1/history/failures",
                "Raw failures of a target, newest first",
                list("failures", &object("An observation as on the wire.")),
            )
        },
        OpenApiOperation::read("/v1/openapi.json", "This document", object("OpenAPI 3.1.")),
        OpenApiOperation {
            permission: None,
            query: &[
                ("vantage", "The prober's vantage; required."),
                ("incarnation", "The prober's incarnation (process lifetime)."),
                ("role", "`responder` for a prober that only serves the echo."),
            ],
            response: ndjson(object(
                "A line of the plan: snapshot, upsert, remove, run, facts, heartbeat.",
            )),
            ..OpenApiOperation::read(
                "/v1/plan",
                "Stream of a prober's plan, until the client disconnects",
                Value::Null,
            )
        },
        OpenApiOperation {
            permission: None,
            ..OpenApiOperation::write(
                "/v1/observations",
                "A prober's report: NDJSON with a header line and one observation per line, optionally gzipped",
                Permission::Read,
                object("A line."),
                object("Number of accepted, duplicate and malformed lines."),
            )
        },
    ]
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
        let said: BTreeSet<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(said, served);
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
