//! `GET /metrics`.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use prometheus_client::encoding::{prometheus_protobuf, text};

use super::{ServerState, accept};
use crate::api_error::ApiError;

/// `GET /metrics`, as protobuf where the scraper prefers it: only there do native histograms travel.
pub(crate) async fn exposition(
    State(shared): State<ServerState>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Without the incidents that were open before, a scrape would end their alerts.
    shared.expect_restored()?;
    // What is exported is the latest snapshot.
    shared.view().await;
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "the metrics cannot be written");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written")
    };
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    if accept::prefers_protobuf(accept) {
        let body = prometheus_protobuf::encode_to_vec(&shared.registry).map_err(|error| failed(&error))?;
        Ok(([(header::CONTENT_TYPE, accept::PROTOBUF)], body).into_response())
    } else {
        let mut body = String::new();
        text::encode(&mut body, &shared.registry).map_err(|error| failed(&error))?;
        Ok(([(header::CONTENT_TYPE, accept::TEXT)], body).into_response())
    }
}
