//! Renewals foreseen, over HTTP.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};

use super::ServerState;

/// `GET /v1/forecasts`: what is foreseen for every name that would be validated over HTTP.
pub(crate) async fn all(State(shared): State<ServerState>) -> Response {
    let forecasts = shared.forecasts.borrow().clone();
    Json(&*forecasts).into_response()
}
