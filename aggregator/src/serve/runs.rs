//! Runs over HTTP: start, read, follow.

use std::convert::Infallible;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use parallax_api::runs::RunRequest;
pub(super) use parallax_runs::{LogReader, RunRefusedError};
use serde_json::json;

use super::ServerState;
use crate::{access::Permission, api_error::ApiError};

impl From<RunRefusedError> for ApiError {
    fn from(refused: RunRefusedError) -> Self {
        let status = match &refused {
            RunRefusedError::Target(_)
            | RunRefusedError::OutOfRange { .. }
            | RunRefusedError::Challenge(_)
            | RunRefusedError::Names(_)
            | RunRefusedError::TooLarge(_) => StatusCode::BAD_REQUEST,
            RunRefusedError::OutOfScope(_) => StatusCode::FORBIDDEN,
            RunRefusedError::NoReportingVantage(_)
            | RunRefusedError::MeshTooSmall(_)
            | RunRefusedError::Unreachable { .. } => StatusCode::CONFLICT,
            RunRefusedError::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            RunRefusedError::NotLeader => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, refused)
    }
}

/// Requires a JSON body for writes: a form of another site cannot send one without a CORS preflight request.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let media = headers
        .get(header::CONTENT_TYPE)
        .and_then(|media| media.to_str().ok());
    if media.is_some_and(|media| {
        media
            .split(';')
            .next()
            .is_some_and(|m| m.trim() == "application/json")
    }) {
        Ok(())
    } else {
        Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "expected content-type application/json",
        ))
    }
}

/// `POST /v1/runs`.
pub(crate) async fn start(
    State(shared): State<ServerState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    require_json(&headers)?;
    let person = shared.access.allow(&headers, Permission::Run).await?;
    let request: RunRequest = serde_json::from_slice(&body).map_err(|error| {
        ApiError::bad_request(format!(
            "expected a run like {{\"url\": \"https://shop.example.com/\"}}: {error}"
        ))
    })?;
    let topology = shared.topology.borrow().topology.clone();
    let view = shared.view().await;
    let run = shared.runs.start(&request, &person.name, &topology, &view);
    let run = run.inspect_err(|_| shared.runs.count_rejected())?;
    tracing::info!(run = %run.id, target = %run.target, by = %run.requested_by, probes = run.expected, "started a run");
    let place = format!("/v1/runs/{}", run.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(run)).into_response())
}

/// `GET /v1/runs`: the runs in memory, newest first.
pub(crate) async fn list(State(shared): State<ServerState>) -> Response {
    Json(json!({"runs": shared.runs.list()})).into_response()
}

/// `GET /v1/runs/{id}`: the current state; with `accept: application/x-ndjson` a stream of results until the run ends.
pub(crate) async fn get(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let unknown = || {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "run not found: without a store only the latest runs are kept, and a restart of the aggregator aborts runs in progress; start a new run",
        )
    };
    let follows = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("application/x-ndjson"));
    if !follows {
        if let Some(run) = shared.runs.get(&id) {
            return Ok(Json(run).into_response());
        }
        return Ok(Json(shared.runs.stored_run(&id).await.ok_or_else(unknown)?).into_response());
    }
    let follow = shared.runs.follow(&id).ok_or_else(unknown)?;
    let stopping = shared.stopping.clone();
    let lines = stream::unfold((follow, stopping), |(mut follow, stopping)| async move {
        let lines = tokio::select! {
            () = stopping.cancelled() => return None,
            lines = next_events(&mut follow) => lines?,
        };
        Some((Ok::<_, Infallible>(lines), (follow, stopping)))
    });
    Ok((
        [(header::CONTENT_TYPE, "application/x-ndjson")],
        Body::from_stream(lines),
    )
        .into_response())
}

async fn next_events(follow: &mut LogReader) -> Option<Bytes> {
    let events = follow.next().await?;
    let mut text = Vec::new();
    for event in events {
        let before = text.len();
        match serde_json::to_writer(&mut text, &*event) {
            Ok(()) => text.push(b'\n'),
            // Cannot happen: events consist of strings and numbers.
            Err(_) => text.truncate(before),
        }
    }
    Some(text.into())
}
