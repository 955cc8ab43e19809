//! What the API is, as an `OpenAPI` 3.1 document: what is sent and answered by people's tools comes from the Rust types,
//! each path is written here. `docs/reference/openapi.json` holds it, and a test holds that.

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

/// One path with one method.
struct OpenApiOperation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// What somebody must be allowed to do; none for probers, who have an identity of their own.
    deed: Option<Permission>,
    query: &'static [(&'static str, &'static str)],
    body: Option<Value>,
    answer: (&'static str, &'static str, Value),
    /// Refusals besides those that every path has.
    refusals: &'static [(&'static str, &'static str)],
}

impl OpenApiOperation {
    fn read(path: &'static str, summary: &'static str, answer: Value) -> Self {
        Self {
            method: "get",
            path,
            summary,
            deed: Some(Permission::Read),
            query: &[],
            body: None,
            answer: ("200", "application/json", answer),
            refusals: &[],
        }
    }

    fn write(
        path: &'static str,
        summary: &'static str,
        deed: Permission,
        body: Value,
        answer: Value,
    ) -> Self {
        Self {
            method: "post",
            path,
            summary,
            deed: Some(deed),
            query: &[],
            body: Some(body),
            answer: ("200", "application/json", answer),
            refusals: &[("415", "Not application/json.")],
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
        let (status, media, schema) = self.answer;
        let mut responses = Map::new();
        responses.insert(
            status.to_owned(),
            json!({"description": "As asked for.", "content": {media: {"schema": schema}}}),
        );
        let error = |text: &str| json!({"description": text, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}});
        let mut refusals = vec![
            (
                "400",
                "What was sent cannot be read; the error says what was expected.",
            ),
            ("503", "Not at present; come again after `retry-after`."),
        ];
        if self.deed.is_some() {
            refusals.extend([
                ("401", "Nobody was named, or a token that is not accepted."),
                ("403", "Somebody who may not."),
            ]);
        }
        if self.path.contains('{') {
            refusals.push(("404", "Nothing of that id is known."));
        }
        for (status, text) in refusals.iter().chain(self.refusals) {
            responses.insert((*status).to_owned(), error(text));
        }
        let mut operation = json!({"summary": self.summary, "responses": responses});
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(schema) = self.body {
            let media = if self.deed.is_some() {
                "application/json"
            } else {
                "application/x-ndjson"
            };
            operation["requestBody"] = json!({"required": true, "content": {media: {"schema": schema}}});
        }
        if let Some(deed) = self.deed {
            let (verb, resource) = deed.rule();
            operation["x-parallax-right"] = format!("{verb} {resource}.parallax.dev").into();
            operation["security"] = json!([{"bearer": []}, {}]);
        }
        operation
    }
}

/// The document.
pub(crate) fn document() -> Value {
    // OpenAPI 3.1 takes JSON Schema as it is.
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
        json!({"type": "object", "required": ["error"], "description": "What was expected, in one sentence.",
               "properties": {"error": {"type": "string"}, "reason": {"type": "string"}}}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Parallax",
            "version": "v1",
            "description": "The aggregator's API. Times are microseconds since 1970 (`…_us` for spans). Unknown fields of an answer are to be passed over: more may come. Who may do what is said in docs/reference/api.md.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// Documents of the diagnosis: what they hold is said in `docs/reference/diagnosis.md`.
fn object(text: &str) -> Value {
    json!({"type": "object", "description": text})
}

fn list(field: &str, items: &Value) -> Value {
    json!({"type": "object", "required": [field], "properties": {field: {"type": "array", "items": items}}})
}

#[expect(
    clippy::too_many_lines,
    reason = "a table of all paths, which is read from top to bottom"
)]
fn operations(generator: &mut SchemaGenerator) -> Vec<OpenApiOperation> {
    let (run, handling, window) = (
        of::<PreflightRun>(generator),
        of::<IncidentActions>(generator),
        of::<MaintenanceWindow>(generator),
    );
    let incident = json!({"type": "object", "description": "A verdict over time, with its evidence; see docs/reference/diagnosis.md.",
        "required": ["id", "state", "sentence"],
        "properties": {"id": {"type": "string"}, "state": {"enum": ["open", "recovering", "closed"]},
            "since": {"type": "integer"}, "opened": {"type": "integer"}, "closed": {"type": "integer"},
            "sentence": {"type": "string"}, "probability": {"type": "number"},
            "targets": {"type": "array", "items": {"type": "string"}}, "handling": handling.clone(),
            "quiet": {"type": "string", "description": "Why nobody is called for it at present."}}});
    let ndjson = |schema: Value| ("200", "application/x-ndjson", schema);
    vec![
        OpenApiOperation::read(
            "/v1/state",
            "Everything the page shows: matrix, incidents, findings, hazards, vantages, store",
            object(
                "The view of the diagnosis, with `targets`, `summary` (whether all is well: `status` is ok, failing or unknown, as `parallax status` exits 0, 1 or 3; `tone`, `text` and `detail` are the headline of the page), `probers`, `topology_error`, `store`, `notifications`, and `replica`: which of several aggregators says this.",
            ),
        ),
        OpenApiOperation {
            query: &[
                (
                    "before",
                    "The `next` of an earlier answer, or a time in microseconds.",
                ),
                ("limit", "Most of those that are over, 1 to 500."),
            ],
            ..OpenApiOperation::read(
                "/v1/incidents",
                "Open incidents, then those that are over, latest first",
                list("incidents", &incident),
            )
        },
        OpenApiOperation::read("/v1/incidents/{id}", "One incident", incident),
        OpenApiOperation::read(
            "/v1/incidents/{id}/verdicts",
            "How its verdict changed, oldest first",
            list("verdicts", &object("A verdict from a time on.")),
        ),
        OpenApiOperation::write(
            "/v1/incidents/{id}/acknowledge",
            "Somebody has seen it: it stays open and calls nobody",
            Permission::Handle,
            of::<AcknowledgeRequest>(generator),
            handling.clone(),
        ),
        OpenApiOperation::write(
            "/v1/incidents/{id}/silence",
            "Nobody is called for so long; 0 ends it",
            Permission::Handle,
            of::<SilenceRequest>(generator),
            handling,
        ),
        OpenApiOperation {
            answer: ("201", "application/json", run.clone()),
            refusals: &[
                (
                    "409",
                    "Nothing that it is about is probed any more, or no vantage reports.",
                ),
                ("429", "Too many runs."),
            ],
            ..OpenApiOperation::write(
                "/v1/incidents/{id}/verify",
                "Repeat the probes that decided, at once: a run",
                Permission::Run,
                json!({"type": "object", "additionalProperties": false}),
                Value::Null,
            )
        },
        OpenApiOperation {
            answer: ("201", "application/json", run.clone()),
            refusals: &[
                (
                    "409",
                    "No vantage that is meant reports, or none can ask for the target.",
                ),
                ("413", "The body is too large."),
                ("415", "Not application/json."),
                ("429", "Too many runs; the error says when to come again."),
            ],
            ..OpenApiOperation::write(
                "/v1/runs",
                "Ask for a target at once; `location` says where the run is",
                Permission::Run,
                of::<RunRequest>(generator),
                Value::Null,
            )
        },
        OpenApiOperation::read("/v1/runs", "Runs in memory, newest first", list("runs", &run)),
        OpenApiOperation {
            answer: (
                "200",
                "application/json",
                json!({"anyOf": [run, of::<RunEvent>(generator)]}),
            ),
            ..OpenApiOperation::read(
                "/v1/runs/{id}",
                "One run; with `accept: application/x-ndjson` a line a result as it comes, the judged run last",
                Value::Null,
            )
        },
        OpenApiOperation::read(
            "/v1/challenges",
            "Challenges of cert-manager that wait, longest first, with what does it",
            of::<ChallengeList>(generator),
        ),
        OpenApiOperation::read(
            "/v1/notifications",
            "Who is told of incidents, whether they take it, and what they are owed",
            of::<ReceiverStatusList>(generator),
        ),
        OpenApiOperation::read(
            "/v1/forecasts",
            "Renewals foreseen: every name that would be validated over HTTP, as far as it can be known without a token",
            of::<RenewalForecastList>(generator),
        ),
        OpenApiOperation::read(
            "/v1/maintenance",
            "Windows that are not over",
            list("windows", &window),
        ),
        OpenApiOperation {
            answer: ("201", "application/json", window.clone()),
            ..OpenApiOperation::write(
                "/v1/maintenance",
                "Announce maintenance: nobody is called for what fails within it",
                Permission::Handle,
                of::<WindowRequest>(generator),
                Value::Null,
            )
        },
        OpenApiOperation {
            refusals: &[
                ("404", "No target has this id."),
                ("415", "Not application/json."),
            ],
            ..OpenApiOperation::write(
                "/v1/baselines/reset",
                "Forget what a target answers while it works: what it answers from now on is what counts as working",
                Permission::Handle,
                of::<BaselineResetRequest>(generator),
                of::<BaselineResetAnswer>(generator),
            )
        },
        OpenApiOperation::write(
            "/v1/maintenance/{id}/end",
            "End a window now",
            Permission::Handle,
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
                "Counts and latency of a target by channel and placement",
                list("rollups", &object("One step.")),
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
            deed: None,
            query: &[
                ("vantage", "Where the prober is; required."),
                ("incarnation", "Its life."),
                ("role", "`responder` for one that only answers."),
            ],
            answer: ndjson(object(
                "A line of the plan: snapshot, upsert, remove, run, facts, heartbeat.",
            )),
            ..OpenApiOperation::read("/v1/plan", "A prober's plan, as long as it listens", Value::Null)
        },
        OpenApiOperation {
            deed: None,
            ..OpenApiOperation::write(
                "/v1/observations",
                "A prober's report: NDJSON, a header line and then one observation a line, gzipped or not",
                Permission::Read,
                object("A line."),
                object("How many lines were accepted, were duplicates, were malformed."),
            )
        },
    ]
}

/// `GET /v1/openapi.json`.
pub(super) async fn answer() -> Response {
    Json(document()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/openapi.json");

    /// `PARALLAX_BLESS=1` writes it anew; what changed is then in the diff for whoever reviews it.
    #[test]
    fn the_committed_document_is_what_the_types_and_paths_say() {
        let written = format!("{}\n", serde_json::to_string_pretty(&document()).unwrap());
        if std::env::var_os("PARALLAX_BLESS").is_some() {
            std::fs::write(COMMITTED, &written).unwrap();
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
        assert!(
            committed == written,
            "docs/reference/openapi.json is another; write it anew with PARALLAX_BLESS=1 and look at the diff"
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
