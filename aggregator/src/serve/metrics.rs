//! `GET /metrics`.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use prometheus_client::encoding::{prometheus_protobuf, text};

use super::{ServerState, accept};
use crate::api_error::ApiError;

/// `GET /metrics`, as protobuf if the scraper prefers it: only protobuf carries native histograms.
pub(crate) async fn exposition(
    State(shared): State<ServerState>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // The metrics name targets and nodes, and scrapes are not authenticated.
    shared.access.reject_foreign_host(&headers)?;
    // A scrape before the open incidents are restored would resolve their alerts.
    shared.expect_restored()?;
    shared.scrapes.record(&headers, shared.clock.now());
    // Refreshes the snapshot that the registry exports.
    shared.view().await;
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "cannot encode the metrics");
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "cannot encode the metrics; the aggregator's log gives the reason",
        )
    };
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    if accept::prefers_protobuf(accept) {
        let body = prometheus_protobuf::encode_to_vec(&shared.registry).map_err(|error| failed(&error))?;
        Ok(([(header::CONTENT_TYPE, accept::PROTOBUF_TYPE)], body).into_response())
    } else {
        let mut body = String::new();
        text::encode(&mut body, &shared.registry).map_err(|error| failed(&error))?;
        Ok(([(header::CONTENT_TYPE, accept::TEXT_TYPE)], body).into_response())
    }
}
