//! Reading the state by machine.

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
    /// Whether all is well.
    summary: StatusSummary,
    /// Everything that is to be reachable, whether it has been asked for yet or not.
    targets: Vec<&'a TargetId>,
    /// Why the topology's source cannot be read; null while it can.
    topology_error: Option<&'a str>,
    /// How long ago the topology was last known to be current.
    topology_age_us: Micros,
    topology_revision: u64,
    /// What was found odd in the cluster's objects.
    notes: &'a [SourceNote],
    probers: &'a [ProberView],
    /// Which of several aggregators says this.
    replica: ReplicaView,
    store: StoreAnswer<'a>,
    /// Who is told of incidents, and whether they take it.
    notifications: ReceiverStatusList,
}

#[derive(Serialize)]
struct StoreAnswer<'a> {
    #[serde(flatten)]
    status: &'a Status,
    /// Where it is; empty without one.
    place: &'a str,
    bytes: u64,
    notices: Vec<StoreNotice<'a>>,
}

/// Something that was done to the store and that somebody should know.
#[derive(Serialize)]
struct StoreNotice<'a> {
    at: EventTime,
    text: &'a str,
}

impl<'a> StoreAnswer<'a> {
    fn of(state: &'a StoreState) -> Self {
        let notice = |(at, text): &'a (EventTime, String)| StoreNotice { at: *at, text };
        Self {
            status: &state.status,
            place: &state.place,
            bytes: state.bytes,
            notices: state.notices.iter().map(notice).collect(),
        }
    }
}

/// `GET /v1/state`: everything the page shows.
pub(crate) async fn state(State(shared): State<ServerState>) -> Response {
    let view = shared.view().await;
    let topology = shared.topology.borrow().clone();
    let probers = shared.outlook.probers.borrow().clone();
    let store = shared.store.now();
    Json(StateAnswer {
        view: &view,
        summary: shared.summary(&view),
        targets: topology.topology.targets().keys().collect(),
        topology_error: topology.trouble.as_ref().map(|trouble| trouble.message.as_str()),
        topology_age_us: topology.age(shared.clock.now()),
        topology_revision: topology.revision,
        notes: &topology.notes,
        probers: &probers,
        replica: shared.replica_view(view.interval),
        store: StoreAnswer::of(&store),
        notifications: shared.notifications.shown(),
    })
    .into_response()
}

/// `GET /v1/notifications`: who is told of incidents, and whether they take it.
pub(crate) async fn notifications(State(shared): State<ServerState>) -> Json<ReceiverStatusList> {
    Json(shared.notifications.shown())
}

/// `GET /healthz`: the process answers.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: the engine moves on. A stuck one would show an old view as the present state.
pub(crate) async fn readyz(State(shared): State<ServerState>) -> Result<&'static str, ApiError> {
    shared.expect_restored()?;
    let age = shared.clock.now() - shared.view().await.at;
    if age > Micros::from(engine_task::TICK * 20) {
        return Err(ApiError::unavailable(format!(
            "the diagnosis has not moved for {age}"
        )));
    }
    Ok("ok\n")
}
