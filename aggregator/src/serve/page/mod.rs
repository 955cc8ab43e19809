//! The web page, rendered on the server. It is complete without JavaScript; with it, the content refreshes every
//! second.

mod actions;
mod challenges;
mod history_page;
mod incident;
pub(super) mod maintenance;
mod matrix;
mod model;
mod notice;
mod renewals;
mod truncated_list;
pub(super) mod wording;

#[cfg(test)]
mod tests;

use askama::Template;
use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware,
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};

use super::{ServerState, forms, history};
use crate::api_error::ApiError;
use model::{OverviewPage, PageFrame};
use parallax_diagnosis::verdict::Incident;

/// Allows no foreign and no inline content, so that text that escapes the escaping still cannot run.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Routes of the page.
pub(super) fn router() -> Router<ServerState> {
    Router::new()
        .route("/", get(overview_page))
        .route("/fragment", get(overview_fragment))
        .route("/incident/{id}", get(incident_page))
        .route("/incident/{id}/fragment", get(incident_fragment))
        .route("/incident/{id}/handle", post(forms::incident_form))
        .route("/maintenance/handle", post(forms::maintenance_form))
        .layer(middleware::map_response(add_security_headers))
}

/// Static assets. They contain no data and need no authorization.
pub(super) fn assets() -> Router<ServerState> {
    let asset = |media: &'static str, body: &'static str| {
        get(move || async move {
            let headers = [
                (header::CONTENT_TYPE, media),
                (header::CACHE_CONTROL, "max-age=60"),
            ];
            (headers, body)
        })
    };
    Router::new()
        .route(
            "/assets/app.js",
            asset(
                "text/javascript; charset=utf-8",
                include_str!("../../../assets/app.js"),
            ),
        )
        .route(
            "/assets/style.css",
            asset(
                "text/css; charset=utf-8",
                include_str!("../../../assets/style.css"),
            ),
        )
        .route(
            "/assets/mark.svg",
            asset("image/svg+xml", include_str!("../../../assets/mark.svg")),
        )
        .layer(middleware::map_response(add_security_headers))
}

async fn add_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", CONTENT_SECURITY_POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

impl ServerState {
    async fn overview(&self) -> OverviewPage {
        let view = self.view().await;
        let probers = self.engine_snapshot.probers.borrow().clone();
        let topology = self.topology.borrow().clone();
        let overview = OverviewPage::new(
            &view,
            &topology,
            &probers,
            &self.store.current_state(),
            self.clock.now(),
        );
        let overview = overview.with_notifications(&self.notifications.status(), self.clock.now());
        let now = self.clock.now();
        let proof = forms::forms_enabled(&self.access).then(|| self.form_key.sign(maintenance::CSRF_SUBJECT));
        overview
            .with_links(&view, &self.links)
            .with_headline(self.summary(&view))
            .with_challenges(&self.challenges.borrow(), now)
            .with_replica(&self.replica_view(view.interval), now)
            .with_renewals(renewals::RenewalsSection::new(&self.forecasts.borrow(), now))
            .with_maintenance(maintenance::MaintenanceSection::new(
                &self.actions.windows(),
                proof,
                now,
            ))
    }
}

fn render_html(rendered: Result<String, askama::Error>) -> Result<Html<String>, ApiError> {
    rendered.map(Html).map_err(|error| {
        tracing::error!(%error, "cannot render the page");
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "cannot render the page; the aggregator's log gives the reason",
        )
    })
}

async fn overview_page(State(shared): State<ServerState>) -> Result<Html<String>, ApiError> {
    render_html(PageFrame::overview(&shared.overview().await).and_then(|page| page.render()))
}

async fn overview_fragment(State(shared): State<ServerState>) -> Result<Html<String>, ApiError> {
    render_html(shared.overview().await.render())
}

/// Returns the page of one incident, with the user actions on it.
async fn incident_with_actions(shared: &ServerState, id: &str) -> model::IncidentPage {
    let mut one = find_incident_page(shared, id).await;
    if let Some(card) = &one.card {
        let forms = forms::forms_enabled(&shared.access);
        let proof = forms.then(|| shared.form_key.sign(id));
        let open = card.class != "closed";
        let announced = shared.actions.maintenance_reason(&one.targets);
        let handling = history::incident_actions(shared, id);
        let mut handled = actions::ActionsSection::new(id, handling, open, proof, shared.clock.now());
        handled.entries.extend(
            announced
                .filter(|_| open)
                .map(|by| format!("notifications suppressed: {by}")),
        );
        one.actions = Some(handled);
    }
    one
}

/// Finds one incident in memory or in the store.
async fn find_incident_page(shared: &ServerState, id: &str) -> model::IncidentPage {
    let view = shared.view().await;
    let shown =
        |incident: &Incident| model::IncidentPage::of(incident, &view).with_links(incident, &shared.links);
    match history::find(shared, id).await {
        Ok(Some(history::DisplayedIncident::Live(incident))) => shown(&incident),
        Ok(Some(history::DisplayedIncident::Stored(kept))) => match serde_json::from_value(kept) {
            Ok(incident) => shown(&incident),
            Err(_) => model::IncidentPage::missing(
                id,
                format!(
                    "It was stored by another version in a format that this version cannot show; see /v1/incidents/{id}."
                ),
            ),
        },
        Ok(None) => model::IncidentPage::missing(
            id,
            "It is neither in memory nor in the store; the oldest incidents are deleted.".to_owned(),
        ),
        Err(error) => model::IncidentPage::missing(id, format!("{error}.")),
    }
}

async fn incident_page(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let found = incident_with_actions(&shared, &id).await;
    let status = if found.card.is_some() {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    };
    let page = render_html(PageFrame::incident(&found).and_then(|page| page.render()))?;
    Ok((status, page).into_response())
}

async fn incident_fragment(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    Ok(render_html(incident_with_actions(&shared, &id).await.render())?.into_response())
}
