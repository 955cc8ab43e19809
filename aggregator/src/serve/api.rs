//! State, notifications and health over HTTP.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use parallax_api::notifications::ReceiverStatusList;
use parallax_diagnosis::view::View;
use parallax_history::store::{Status, StoreState};
use parallax_kubernetes::{replicas::ReplicaView, topology_state::SourceNote};
use parallax_model::{EventTime, Micros, TargetId};
use serde::Serialize;

use super::{ServerState, summary::StatusSummary};
use crate::{api_error::ApiError, engine_task, ingest::ProberView};

#[derive(Serialize)]
struct StateAnswer<'a> {
    #[serde(flatten)]
    view: &'a View,
    /// Overall status.
    summary: StatusSummary,
    /// All targets of the topology, including those not probed yet.
    targets: Vec<&'a TargetId>,
    /// Why the topology's source cannot be read; null if it can.
    topology_error: Option<&'a str>,
    /// Time since the topology was last known to be current.
    topology_age_us: Micros,
    topology_revision: u64,
    /// Warnings about cluster objects.
    notes: &'a [SourceNote],
    probers: &'a [ProberView],
    /// The replica that responds.
    replica: ReplicaView,
    store: StoreAnswer<'a>,
    /// Receivers of notifications and whether deliveries succeed.
    notifications: ReceiverStatusList,
}

#[derive(Serialize)]
struct StoreAnswer<'a> {
    #[serde(flatten)]
    status: &'a Status,
    /// Path of the store; empty without one.
    path: &'a str,
    bytes: u64,
    notices: Vec<StoreNotice<'a>>,
}

/// An event of the store that the operator should know about.
#[derive(Serialize)]
struct StoreNotice<'a> {
    at: EventTime,
    text: &'a str,
}

impl<'a> StoreAnswer<'a> {
    fn new(state: &'a StoreState) -> Self {
        let notice = |(at, text): &'a (EventTime, String)| StoreNotice { at: *at, text };
        Self {
            status: &state.status,
            path: &state.location,
            bytes: state.bytes,
            notices: state.notices.iter().map(notice).collect(),
        }
    }
}

/// `GET /v1/state`: everything that the page shows.
pub(crate) async fn state(State(shared): State<ServerState>) -> Response {
    let view = shared.view().await;
    let topology = shared.topology.borrow().clone();
    let probers = shared.engine_snapshot.probers.borrow().clone();
    let store = shared.store.current_state();
    Json(StateAnswer {
        view: &view,
        summary: shared.summary(&view),
        targets: topology.topology.targets().keys().collect(),
        topology_error: topology.error.as_ref().map(|error| error.message.as_str()),
        topology_age_us: topology.age(shared.clock.now()),
        topology_revision: topology.revision,
        notes: &topology.notes,
        probers: &probers,
        replica: shared.replica_view(view.interval),
        store: StoreAnswer::new(&store),
        notifications: shared.notifications.status(),
    })
    .into_response()
}

/// `GET /v1/notifications`: receivers and whether deliveries succeed.
pub(crate) async fn notifications(State(shared): State<ServerState>) -> Json<ReceiverStatusList> {
    Json(shared.notifications.status())
}

/// `GET /healthz`: the process is alive, and its engine closes rounds. A restart ends a deadlock; nothing else would.
pub(crate) async fn healthz(State(shared): State<ServerState>) -> Result<&'static str, ApiError> {
    // A restart would not speed up the restoration of a checkpoint.
    if shared.expect_restored().is_err() {
        return Ok("ok\n");
    }
    if let Some(age) = shared.stalled_for() {
        return Err(ApiError::unavailable(format!(
            "the diagnosis has closed no round for {age}; restart the aggregator"
        )));
    }
    Ok("ok\n")
}

/// `GET /readyz`: the engine advances. A stuck engine would present an old view as the current state.
pub(crate) async fn readyz(State(shared): State<ServerState>) -> Result<&'static str, ApiError> {
    shared.expect_restored()?;
    let age = shared.clock.now() - shared.view().await.at;
    if age > Micros::from(engine_task::TICK_INTERVAL * 20) {
        return Err(ApiError::unavailable(format!(
            "the diagnosis has not advanced for {age}"
        )));
    }
    Ok("ok\n")
}
