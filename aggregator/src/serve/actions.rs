//! User actions on incidents over HTTP. The page's forms use the same functions.

use std::net::IpAddr;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use parallax_api::{
    incident_actions::{AcknowledgeRequest, IncidentActions, SilenceRequest, WindowRequest},
    runs::{PreflightRun, RunRequest},
};
use parallax_diagnosis::{
    topology::{PlacedTarget, Topology},
    verdict::{Incident, Subject, Verdict},
};
use parallax_history::store::QueryError;
use parallax_model::HostName;
use parallax_notify::incident_actions::ActionError;
use parallax_runs::MESH_SUBJECT;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{ServerState, history, runs::require_json};
use crate::{
    access::{AuthorizedUser, Permission},
    api_error::ApiError,
};

/// Maximum size in bytes of the body of a run, an action or a form. The router enforces it before authorization.
pub(super) const MAX_BODY_BYTES: usize = 16 * 1024;

impl From<ActionError> for ApiError {
    fn from(error: ActionError) -> Self {
        let status = match &error {
            ActionError::InvalidDuration { .. }
            | ActionError::NoteTooLong(_)
            | ActionError::EmptyTargetFilter => StatusCode::BAD_REQUEST,
            ActionError::UnknownWindow(_) => StatusCode::NOT_FOUND,
            ActionError::TooManyWindows => StatusCode::INSUFFICIENT_STORAGE,
        };
        Self::new(status, error)
    }
}

/// Authorizes a request and parses its body.
pub(super) async fn authorize_and_parse<T: DeserializeOwned>(
    shared: &ServerState,
    headers: &HeaderMap,
    body: &Bytes,
    permission: Permission,
) -> Result<(AuthorizedUser, T), ApiError> {
    require_json(headers)?;
    let person = shared.access.allow(headers, permission).await?;
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let request = serde_json::from_slice(body).map_err(ApiError::bad_request)?;
    Ok((person, request))
}

/// Looks up an incident, so that actions on unknown ids are rejected. `None` if only the store has it.
pub(super) async fn find_incident(shared: &ServerState, id: &str) -> Result<Option<Incident>, ApiError> {
    match history::find(shared, id).await {
        Ok(Some(history::DisplayedIncident::Live(incident))) => Ok(Some(*incident)),
        Ok(Some(history::DisplayedIncident::Stored(_))) => Ok(None),
        Ok(None) | Err(QueryError::NotConfigured) => Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "incident not found; `parallax incidents --all` lists the ids",
        )),
        Err(error) => Err(ApiError::unavailable(error)),
    }
}

/// `POST /v1/incidents/{id}/acknowledge`.
pub(crate) async fn acknowledge(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<IncidentActions>, ApiError> {
    let (person, request): (_, AcknowledgeRequest) =
        authorize_and_parse(&shared, &headers, &body, Permission::Act).await?;
    find_incident(&shared, &id).await?;
    Ok(Json(
        shared
            .actions
            .acknowledge(&id, &person.name, request.note)
            .await?,
    ))
}

/// `POST /v1/incidents/{id}/silence`.
pub(crate) async fn silence(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<IncidentActions>, ApiError> {
    let (person, request): (_, SilenceRequest) =
        authorize_and_parse(&shared, &headers, &body, Permission::Act).await?;
    find_incident(&shared, &id).await?;
    let handling = match request.duration_s {
        0 => shared.actions.unsilence(&id, &person.name).await?,
        seconds => {
            shared
                .actions
                .silence(&id, &person.name, seconds, request.note)
                .await?
        }
    };
    Ok(Json(handling))
}

/// `POST /v1/incidents/{id}/verify`: starts a run that probes the target from every vantage.
pub(crate) async fn verify(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let (person, _): (_, EmptyBody) = authorize_and_parse(&shared, &headers, &body, Permission::Run).await?;
    let run = start_verification(&shared, &id, &person).await?;
    let place = format!("/v1/runs/{}", run.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(run)).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyBody {}

pub(super) async fn start_verification(
    shared: &ServerState,
    id: &str,
    person: &AuthorizedUser,
) -> Result<PreflightRun, ApiError> {
    let Some(incident) = find_incident(shared, id).await? else {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "the incident is closed and no longer in memory; probe its target with `parallax run` instead",
        ));
    };
    let topology = shared.topology.borrow().topology.clone();
    let view = shared.view().await;
    let url = verification_url(&incident.verdict, &topology).ok_or_else(|| {
        ApiError::new(
            StatusCode::CONFLICT,
            "no target of the incident is probed any more, so a run cannot repeat the deciding probes",
        )
    })?;
    let request = RunRequest {
        url,
        ..RunRequest::default()
    };
    // The run uses the planned target, whose id may contain more than a URL.
    let run = shared.runs.start(&request, &person.name, &topology, &view);
    let run = run.inspect_err(|_| shared.runs.count_rejected())?;
    shared.actions.verify(id, &person.name, run.id.clone()).await?;
    Ok(run)
}

/// Returns the URL of the run that repeats the deciding probes.
fn verification_url(verdict: &Verdict, topology: &Topology) -> Option<String> {
    // All targets fail for the same cause, so probing one of them shows whether it is fixed.
    let of_targets = verdict
        .targets
        .iter()
        .find(|target| topology.targets().contains_key(*target));
    if let Some(target) = of_targets {
        return Some(target.to_string());
    }
    match &verdict.subject {
        Subject::Node(_) | Subject::Network => Some(MESH_SUBJECT.to_owned()),
        // A target with this host name; if all names fail, any target with a name will do.
        Subject::Name(name) => {
            let asks = |placed: &&PlacedTarget, name: Option<&str>| {
                let Some(host) = placed.target.probe.resolved_host().map(HostName::as_str) else {
                    return false;
                };
                name.map_or_else(|| host.parse::<IpAddr>().is_err(), |name| host == name)
            };
            let mut all = topology.targets().values();
            let own = all.clone().find(|placed| asks(placed, Some(name)));
            let any = own.or_else(|| all.find(|placed| asks(placed, None)));
            any.map(|placed| placed.target.id.to_string())
        }
        Subject::Front(_) | Subject::Service(_) | Subject::Target(_) => None,
    }
}

/// `GET /v1/maintenance`.
pub(crate) async fn list_windows(State(shared): State<ServerState>) -> Json<Value> {
    Json(json!({"windows": shared.actions.windows()}))
}

/// `POST /v1/maintenance`.
pub(crate) async fn open_window(
    State(shared): State<ServerState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let (person, request): (_, WindowRequest) =
        authorize_and_parse(&shared, &headers, &body, Permission::Act).await?;
    let window = shared.actions.open_window(&person.name, request).await?;
    Ok((StatusCode::CREATED, Json(window)).into_response())
}

/// `POST /v1/maintenance/{id}/end`.
pub(crate) async fn end_window(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let (person, _): (_, EmptyBody) = authorize_and_parse(&shared, &headers, &body, Permission::Act).await?;
    Ok(Json(shared.actions.end_window(&id, &person.name).await?).into_response())
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::TopologySpec;

    use super::*;
    use parallax_fixtures as fixtures;

    /// Returns what a run probes to verify an incident whose subject covers no target.
    fn asked(subject: Subject) -> Option<String> {
        let spec: TopologySpec = serde_json::from_value(json!({"targets": [
            {"url": "http://192.0.2.1/"}, {"url": "http://b.example.test/"}, {"url": "tcp://a.example.test:5432"}]}))
        .unwrap();
        let mut verdict = fixtures::outage().incidents[0].verdict.clone();
        verdict.targets = Vec::new();
        verdict.subject = subject;
        verification_url(&verdict, &Topology::try_from(spec).unwrap())
    }

    #[test]
    fn a_verification_probes_the_subject_if_no_target_is_affected() {
        assert_eq!(asked(Subject::Network).as_deref(), Some(MESH_SUBJECT));
        assert_eq!(
            asked(Subject::Node("n1".parse().unwrap())).as_deref(),
            Some(MESH_SUBJECT)
        );
        let name = |name: &str| asked(Subject::Name(name.to_owned()));
        assert_eq!(
            name("a.example.test").as_deref(),
            Some("tcp://a.example.test:5432")
        );
        // Any name shows whether resolution works; an address does not.
        assert_eq!(name("every name").as_deref(), Some("http://b.example.test/"));
        assert_eq!(asked(Subject::Front("203.0.113.10:80".parse().unwrap())), None);
    }
}
