//! Reading the state by machine.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use parallax_diagnosis::{verdict::Incident, view::View};
use parallax_model::{Micros, TargetId};
use serde::Serialize;

use super::{ApiError, Shared};
use crate::{hub, ingest::ProberView, watch::Note};

#[derive(Serialize)]
struct StateAnswer<'a> {
    #[serde(flatten)]
    view: &'a View,
    /// Everything that is to be reachable, whether it has been asked for yet or not.
    targets: Vec<&'a TargetId>,
    /// Why the topology's source cannot be read; null while it can.
    topology_error: Option<&'a str>,
    /// How long ago the topology was last known to be current.
    topology_age_us: Micros,
    topology_revision: u64,
    /// What was found odd in the cluster's objects.
    notes: &'a [Note],
    probers: &'a [ProberView],
}

/// `GET /v1/state`: everything the page shows.
pub(crate) async fn state(State(shared): State<Shared>) -> Response {
    let view = shared.outlook.views.borrow().clone();
    let topology = shared.topology.borrow().clone();
    let probers = shared.outlook.probers.borrow().clone();
    Json(StateAnswer {
        view: &view,
        targets: topology.topology.targets().keys().collect(),
        topology_error: topology.trouble.as_ref().map(|trouble| trouble.message.as_str()),
        topology_age_us: topology.age(shared.clock.now()),
        topology_revision: topology.number,
        notes: &topology.notes,
        probers: &probers,
    })
    .into_response()
}

#[derive(Serialize)]
struct IncidentsAnswer<'a> {
    at: parallax_model::EventTime,
    incidents: &'a [Incident],
}

/// `GET /v1/incidents`: open ones first, then closed ones, newest first.
pub(crate) async fn incidents(State(shared): State<Shared>) -> Response {
    let view = shared.outlook.views.borrow().clone();
    Json(IncidentsAnswer {
        at: view.at,
        incidents: &view.incidents,
    })
    .into_response()
}

/// `GET /v1/incidents/{id}`.
pub(crate) async fn incident(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let view = shared.outlook.views.borrow().clone();
    view.incidents
        .iter()
        .find(|incident| incident.id == id)
        .map(|incident| Json(incident).into_response())
        .ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "no incident of that id is kept"))
}

/// `GET /healthz`: the process answers.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: the engine moves on. A stuck one would show an old view as the present state.
pub(crate) async fn readyz(State(shared): State<Shared>) -> Result<&'static str, ApiError> {
    let age = shared.clock.now() - shared.outlook.views.borrow().at;
    if age > Micros::from(hub::TICK * 20) {
        return Err(ApiError::unavailable(format!(
            "the diagnosis has not moved for {age}"
        )));
    }
    Ok("ok\n")
}
