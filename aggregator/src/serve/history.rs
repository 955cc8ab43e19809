//! Queries of the history: stored incidents, changes of verdicts, rollups and raw failures of a target.
//!
//! Incidents in memory are served without the store, so a failing disk does not hide them.

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use parallax_api::incident_actions::IncidentActions;
use parallax_diagnosis::{
    verdict::{Incident, IncidentState, Verdict},
    view::View,
};
pub(super) use parallax_history::store::{HistoryCursor, QueryError, RollupStep};
use parallax_model::{EventTime, Micros};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ServerState;
use crate::api_error::ApiError;

/// Default and maximum number of entries in one response.
const DEFAULT_AND_MAX_ENTRIES: (usize, usize) = (100, 500);

/// Maximum number of rollups in one response.
const MAX_ROLLUPS: usize = 5_000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    before: Option<String>,
    limit: Option<usize>,
}

impl HistoryQuery {
    fn before(&self) -> Result<Option<HistoryCursor>, ApiError> {
        self.before
            .as_deref()
            .map(|text| text.parse().map_err(ApiError::bad_request))
            .transpose()
    }

    fn limit(&self) -> Result<usize, ApiError> {
        let limit = self.limit.unwrap_or(DEFAULT_AND_MAX_ENTRIES.0);
        if (1..=DEFAULT_AND_MAX_ENTRIES.1).contains(&limit) {
            Ok(limit)
        } else {
            Err(ApiError::bad_request(format_args!(
                "expected a limit from 1 to {}, found {limit}",
                DEFAULT_AND_MAX_ENTRIES.1
            )))
        }
    }
}

/// An incident of the engine, or a stored one as JSON.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum DisplayedIncident {
    Live(Box<Incident>),
    Stored(Value),
}

impl DisplayedIncident {
    fn live(incident: &Incident) -> Self {
        Self::Live(Box::new(incident.clone()))
    }

    /// Returns the headline, or `None` if the stored document is not an incident.
    fn headline(&self) -> Option<String> {
        match self {
            Self::Live(incident) => Some(incident.verdict.headline()),
            Self::Stored(document) => Verdict::deserialize(document)
                .ok()
                .map(|verdict| verdict.headline()),
        }
    }
}

/// An incident with the user actions on it.
#[derive(Serialize)]
struct IncidentWithActions {
    #[serde(flatten)]
    incident: DisplayedIncident,
    /// The cause and the place, in at most 20 words.
    #[serde(skip_serializing_if = "Option::is_none")]
    headline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actions: Option<IncidentActions>,
    /// Why it triggers no notifications at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed_because: Option<String>,
}

impl IncidentWithActions {
    fn new(shown: DisplayedIncident, shared: &ServerState) -> Self {
        let (id, targets) = match &shown {
            DisplayedIncident::Live(incident) => (incident.id.as_str(), incident.verdict.targets.as_slice()),
            DisplayedIncident::Stored(kept) => (kept["id"].as_str().unwrap_or_default(), [].as_slice()),
        };
        Self {
            headline: shown.headline(),
            actions: incident_actions(shared, id),
            suppressed_because: shared.actions.quiet_reason(id, targets),
            incident: shown,
        }
    }
}

/// Returns the user actions on an incident, with the outcome of a verification.
pub(super) fn incident_actions(shared: &ServerState, id: &str) -> Option<IncidentActions> {
    let mut handling = shared.actions.actions_on(id)?;
    if let Some(verified) = &mut handling.verified {
        verified.outcome = shared.runs.get(verified.run.as_str()).and_then(|run| run.outcome);
    }
    Some(handling)
}

#[derive(Serialize)]
struct IncidentsAnswer {
    at: EventTime,
    incidents: Vec<IncidentWithActions>,
    /// Value of `before` for the next page; null at the end.
    next: Option<String>,
    /// Why only incidents in memory are listed; null if the store was queried.
    incomplete_because: Option<String>,
}

/// `GET /v1/incidents`: open incidents, then closed ones, latest first. `before` (the `next` of an earlier response, or
/// a time) omits the open ones and continues there; `limit` bounds the number of closed ones.
pub(crate) async fn incidents(
    State(shared): State<ServerState>,
    Query(page): Query<HistoryQuery>,
) -> Result<Response, ApiError> {
    let (before, limit) = (page.before()?, page.limit()?);
    let view = shared.view().await;
    let (kept, incomplete) = {
        let before = before.clone();
        // One entry beyond the limit shows whether there is a next page.
        match shared
            .store
            .query(move |store| store.ended_incidents(before.as_ref(), limit + 1))
            .await
        {
            Ok(kept) => (kept, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        }
    };
    let mut over: Vec<(HistoryCursor, DisplayedIncident)> = closed_incidents(&view)
        .filter(|(at, incident)| before.as_ref().is_none_or(|b| b.precedes(*at, &incident.id)))
        .map(|(at, incident)| {
            let place = HistoryCursor {
                ended_at: at,
                id: Some(incident.id.clone()),
            };
            (place, DisplayedIncident::live(incident))
        })
        .collect();
    for one in kept {
        // The engine's copy is newer than the stored one.
        let is_current = view
            .incidents
            .iter()
            .any(|incident| incident.id == one.summary.id);
        if let Some(place) = one.summary.cursor().filter(|_| !is_current) {
            over.push((place, DisplayedIncident::Stored(one.into_json())));
        }
    }
    over.sort_by(|(a, _), (b, _)| b.ended_at.cmp(&a.ended_at).then_with(|| a.id.cmp(&b.id)));
    let more = over.len() > limit;
    over.truncate(limit);
    let next = over.last().filter(|_| more).map(|(place, _)| place.to_string());
    let mut incidents: Vec<IncidentWithActions> = Vec::new();
    let handled = |shown| IncidentWithActions::new(shown, &shared);
    if before.is_none() {
        incidents.extend(
            view.incidents
                .iter()
                .filter(|i| is_open(i))
                .map(DisplayedIncident::live)
                .map(handled),
        );
    }
    incidents.extend(over.into_iter().map(|(_, incident)| handled(incident)));
    Ok(Json(IncidentsAnswer {
        at: view.at,
        incidents,
        next,
        incomplete_because: incomplete,
    })
    .into_response())
}

fn closed_incidents(view: &View) -> impl Iterator<Item = (EventTime, &Incident)> {
    view.incidents.iter().filter_map(|incident| match incident.state {
        IncidentState::Closed { closed } => Some((closed, incident)),
        IncidentState::Open | IncidentState::Recovering => None,
    })
}

fn is_open(incident: &Incident) -> bool {
    !matches!(incident.state, IncidentState::Closed { .. })
}

/// Finds an incident in memory or in the store.
pub(super) async fn find(shared: &ServerState, id: &str) -> Result<Option<DisplayedIncident>, QueryError> {
    let view = shared.view().await;
    if let Some(incident) = view.incidents.iter().find(|incident| incident.id == id) {
        return Ok(Some(DisplayedIncident::live(incident)));
    }
    let id = id.to_owned();
    let kept = shared.store.query(move |store| store.incident(&id)).await?;
    Ok(kept.map(|kept| DisplayedIncident::Stored(kept.into_json())))
}

/// `GET /v1/incidents/{id}`.
pub(crate) async fn incident(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    match find(&shared, &id).await {
        Ok(Some(incident)) => Ok(Json(IncidentWithActions::new(incident, &shared)).into_response()),
        Ok(None) | Err(QueryError::NotConfigured) => Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "incident not found; `parallax incidents --all` lists the ids",
        )),
        Err(error) => Err(ApiError::unavailable(error)),
    }
}

/// `GET /v1/incidents/{id}/verdicts`: the changes of its verdict, oldest first.
pub(crate) async fn verdicts(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let changes = shared
        .store
        .query(move |store| store.verdict_changes(&id))
        .await
        .map_err(query_error)?;
    Ok(Json(json!({"verdicts": changes})).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetHistoryQuery {
    target: String,
    step: Option<String>,
    from: Option<i64>,
    to: Option<i64>,
    before: Option<i64>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct RollupRow {
    start: EventTime,
    channel: String,
    placement: String,
    probes: u64,
    failures: u64,
    results: std::collections::BTreeMap<std::borrow::Cow<'static, str>, u64>,
    /// Percentiles of the total time of successful probes, with an error of at most 5 %.
    p50_us: Option<Micros>,
    p90_us: Option<Micros>,
    p99_us: Option<Micros>,
}

/// `GET /v1/history/rollups?target=URL`: counts by channel and placement. `step=5m` (default) covers the last day and
/// `step=1h` the last week, unless `from` and `to` (microseconds) are given.
pub(crate) async fn rollups(
    State(shared): State<ServerState>,
    Query(query): Query<TargetHistoryQuery>,
) -> Result<Response, ApiError> {
    let (step, span) = match query.step.as_deref() {
        None | Some("5m") => (RollupStep::FiveMinutes, Micros::from_secs(24 * 3_600)),
        Some("1h") => (RollupStep::Hour, Micros::from_secs(7 * 24 * 3_600)),
        Some(other) => {
            return Err(ApiError::bad_request(format_args!(
                "expected step=5m or step=1h, found {other:?}"
            )));
        }
    };
    let to = query.to.map_or_else(|| shared.clock.now(), EventTime);
    let from = query.from.map_or_else(|| to.minus(span), EventTime);
    let target = query.target.clone();
    let mut rows = shared
        .store
        .query(move |store| store.rollups(step, &target, from..to, MAX_ROLLUPS + 1))
        .await
        .map_err(query_error)?;
    // The client continues from `next_from`.
    let more = rows.len() > MAX_ROLLUPS;
    rows.truncate(MAX_ROLLUPS);
    let next = rows.last().filter(|_| more).map(|(key, _)| key.start);
    if let Some(next) = next {
        // All rows of one start time are returned in the same response.
        rows.retain(|(key, _)| key.start < next);
    }
    let rows: Vec<RollupRow> = rows
        .into_iter()
        .map(|(key, rollup)| {
            let (probes, failures) = rollup.totals();
            RollupRow {
                start: key.start,
                channel: key.channel.into_owned(),
                placement: key.placement.into_owned(),
                probes,
                failures,
                p50_us: rollup.latency.quantile(0.5),
                p90_us: rollup.latency.quantile(0.9),
                p99_us: rollup.latency.quantile(0.99),
                results: rollup.results,
            }
        })
        .collect();
    Ok(Json(json!({
        "target": query.target, "step_s": step.seconds(), "from": from, "to": to, "rollups": rows, "next_from": next,
    }))
    .into_response())
}

/// `GET /v1/history/failures?target=URL`: raw failures before the time `before` (microseconds), newest first.
pub(crate) async fn failures(
    State(shared): State<ServerState>,
    Query(query): Query<TargetHistoryQuery>,
) -> Result<Response, ApiError> {
    let limit = HistoryQuery {
        before: None,
        limit: query.limit,
    }
    .limit()?;
    let before = EventTime(query.before.unwrap_or(i64::MAX));
    let target = query.target.clone();
    let rows = shared
        .store
        .query(move |store| store.failures(&target, before, limit))
        .await
        .map_err(query_error)?;
    Ok(Json(json!({"target": query.target, "failures": rows})).into_response())
}

fn query_error(error: QueryError) -> ApiError {
    match error {
        QueryError::NotConfigured => ApiError::new(StatusCode::NOT_FOUND, error),
        QueryError::Unavailable(_) | QueryError::Busy => ApiError::unavailable(error),
    }
}
