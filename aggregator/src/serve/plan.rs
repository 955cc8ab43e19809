//! `GET /v1/plan`: streams the assignments of a vantage.

use axum::{
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use parallax_kubernetes::replicas::ReplicaRole;
use parallax_model::{Incarnation, Vantage};
use serde::Deserialize;

use super::ServerState;
use crate::{
    api_error::ApiError,
    plan::{PlanEpoch, PlanStream},
};

/// Query parameters.
#[derive(Debug, Deserialize)]
pub(crate) struct PlanQuery {
    vantage: String,
    incarnation: Option<String>,
    /// `responder` for a prober that only serves the echo: it needs the nonce and no assignments.
    role: Option<String>,
}

/// Streams the plan of one vantage until the client disconnects.
pub(crate) async fn stream_plan(
    State(shared): State<ServerState>,
    query: Result<Query<PlanQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let admitted = shared.gate.authenticate(&headers).await?;
    // Strangers do not learn which parameters there are.
    let Query(asks) = query.map_err(ApiError::bad_request)?;
    let vantage: Vantage = asks.vantage.parse().map_err(ApiError::bad_request)?;
    shared.gate.check_vantage(&admitted, &vantage)?;
    let incarnation = asks
        .incarnation
        .map(Incarnation::new)
        .transpose()
        .map_err(ApiError::bad_request)?;
    shared.expect_vantage(&vantage)?;
    let Some(epoch) = PlanEpoch::current(&shared.replica) else {
        return Ok(not_planning(&shared.replica.role()));
    };
    tracing::debug!(%vantage, incarnation = incarnation.as_ref().map(tracing::field::display), "plan requested");
    let only_answers = admitted.is_responder() || asks.role.as_deref() == Some("responder");
    let place = shared.plan_streams.open(&vantage);
    let feed = PlanStream::new(
        (shared.planner.clone(), epoch),
        (vantage, only_answers, place),
        shared.topology.clone(),
        shared.engine_snapshot.plan_requests.clone(),
        (shared.runs.orders(), shared.clock),
        shared.stopping.clone(),
    )
    .with_expiry(admitted.expires());
    let body = Body::from_stream(feed.into_stream());
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Rejects a plan request on a replica that makes no plans. The prober tries the next replica; `connection: close`
/// keeps it from reusing a connection to this one.
fn not_planning(part: &ReplicaRole) -> Response {
    let (error, leader) = match part {
        ReplicaRole::Starting => ("this aggregator is starting; retry the request", ""),
        ReplicaRole::Standby { leader } => (
            "this aggregator is on standby and makes no plans; request the plan from the leader",
            leader.as_ref().map_or("", |leader| leader.name.as_str()),
        ),
        // It has become the leader in the meantime.
        ReplicaRole::Standalone { .. } | ReplicaRole::Leader { .. } => (
            "this aggregator has just become the leader; retry the request",
            "",
        ),
    };
    let body = serde_json::json!({
        "error": error,
        "leader": leader,
    });
    let mut response = ApiError::with_body(StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
