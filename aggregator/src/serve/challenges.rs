//! Pending Challenges over HTTP.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use parallax_api::challenges::ChallengeList;

use super::ServerState;

/// `GET /v1/challenges`: pending Challenges, oldest first.
pub(crate) async fn list(State(shared): State<ServerState>) -> Response {
    let unknown = shared
        .cert_manager
        .borrow()
        .challenges
        .missing_reason()
        .map(ToString::to_string);
    Json(ChallengeList {
        challenges: shared.challenges.borrow().to_vec(),
        unknown_because: unknown,
    })
    .into_response()
}
