//! The operations of the API.

use parallax_api::{
    challenges::ChallengeList,
    forecasts::RenewalForecastList,
    incident_actions::{
        AcknowledgeRequest, IncidentActions, MaintenanceWindow, SilenceRequest, WindowRequest,
    },
    installation::InstallationFacts,
    notifications::ReceiverStatusList,
    runs::{PreflightRun, RunEvent, RunRequest},
};
use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::{OpenApiOperation, list, object, schema_of};
use crate::{
    access::Permission,
    serve::baseline::{BaselineResetAnswer, BaselineResetRequest},
};

#[expect(
    clippy::too_many_lines,
    reason = "a table of all paths, read from top to bottom"
)]
pub(super) fn operations(generator: &mut SchemaGenerator) -> Vec<OpenApiOperation> {
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
            "/v1/installation",
            "What the aggregator knows about its installation; `parallax verify-install` derives its checks from it",
            schema_of::<InstallationFacts>(generator),
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
