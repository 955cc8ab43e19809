//! Resets the baseline of a target: its responses from now on define the new baseline.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
};
pub(crate) use parallax_api::baselines::{BaselineResetAnswer, BaselineResetRequest};
use parallax_model::TargetId;
use tokio::sync::oneshot;

use super::{ServerState, actions::authorize_and_parse};
use crate::{access::Permission, api_error::ApiError, engine_task::BaselineReset};

/// `POST /v1/baselines/reset`.
pub(crate) async fn reset(
    State(shared): State<ServerState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<BaselineResetAnswer>, ApiError> {
    let (person, request): (_, BaselineResetRequest) =
        authorize_and_parse(&shared, &headers, &body, Permission::Act).await?;
    let target = TargetId::new(request.target).map_err(ApiError::bad_request)?;
    let found = shared.topology.borrow().topology.targets().contains_key(&target);
    if !found {
        return Err(ApiError::new(
            StatusCode::NOT_FOUND,
            format!("target {target} not found; `parallax targets` lists the ids"),
        ));
    }
    let stopping = || ApiError::unavailable("the aggregator is stopping; retry the request");
    let (known, answer) = oneshot::channel();
    let reset = BaselineReset {
        target: target.clone(),
        had_baseline: known,
    };
    shared.resets.send(reset).await.map_err(|_| stopping())?;
    let known = answer.await.map_err(|_| stopping())?;
    tracing::info!(%target, by = %person.name, "reset the baseline of a target");
    Ok(Json(BaselineResetAnswer {
        target: target.to_string(),
        had_baseline: known,
    }))
}
