//! Renewal forecasts over HTTP.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};

use super::ServerState;

/// `GET /v1/forecasts`: the renewal forecast of every name that would be validated by HTTP-01.
pub(crate) async fn list(State(shared): State<ServerState>) -> Response {
    let forecasts = shared.forecasts.borrow().clone();
    Json(&*forecasts).into_response()
}
