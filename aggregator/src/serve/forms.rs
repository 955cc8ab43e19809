//! Forms of the page. A CSRF token and the browser's origin headers protect them: another site can neither read the
//! token nor fake the origin.

use axum::{
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use parallax_api::incident_actions::WindowRequest;
use ring::hmac;

use super::{
    ServerState,
    actions::{find_incident, start_verification},
    form_body::{FormBody, IncidentAction, MaintenanceAction},
    page::maintenance::CSRF_SUBJECT,
};
use crate::{
    access::{AccessControl, Permission, UserAuthentication},
    api_error::ApiError,
};

/// Key of the CSRF tokens, valid for one process lifetime.
#[derive(Clone)]
pub(crate) struct FormKey(hmac::Key);

impl std::fmt::Debug for FormKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FormKey")
    }
}

impl FormKey {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::new();
        for _ in 0..4 {
            bytes.extend_from_slice(&parallax_runtime::random().to_be_bytes());
        }
        Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }

    /// Returns the CSRF token for the forms of one incident.
    pub(super) fn sign(&self, incident: &str) -> String {
        let tag = hmac::sign(&self.0, incident.as_bytes());
        HEXLOWER.encode(tag.as_ref())
    }

    fn verify(&self, incident: &str, tag: &[u8]) -> bool {
        hmac::verify(&self.0, incident.as_bytes(), tag).is_ok()
    }
}

/// Reports whether the page has forms: a browser cannot send a bearer token, so authentication by token leaves them
/// out.
pub(super) const fn forms_enabled(access: &AccessControl) -> bool {
    matches!(
        access.authentication,
        UserAuthentication::Unauthenticated { local: true } | UserAuthentication::Proxy(_)
    )
}

/// `POST /incident/{id}/handle`: an action on an incident.
pub(crate) async fn incident_form(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let form = check_form(&shared, &headers, &body, &id)?;
    let action = form.incident_action();
    let permission = match action {
        Some(IncidentAction::Verify) => Permission::Run,
        _ => Permission::Act,
    };
    let person = shared.access.allow(&headers, permission).await?;
    let action = action.ok_or_else(unknown_action)?;
    // Starting a run looks up the incident itself.
    if action != IncidentAction::Verify {
        find_incident(&shared, &id).await?;
    }
    let actions = &shared.actions;
    match action {
        IncidentAction::Verify => drop(start_verification(&shared, &id, &person).await?),
        IncidentAction::Acknowledge => drop(actions.acknowledge(&id, &person.name, None).await?),
        IncidentAction::Unsilence => drop(actions.unsilence(&id, &person.name).await?),
        IncidentAction::Silence { seconds } => {
            drop(actions.silence(&id, &person.name, seconds, None).await?);
        }
    }
    let back = url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>();
    Ok((
        StatusCode::SEE_OTHER,
        [(header::LOCATION, format!("/incident/{back}"))],
    )
        .into_response())
}

/// Checks origin and CSRF token of a submitted form and parses it. `about` is the subject of the token.
fn check_form(
    shared: &ServerState,
    headers: &HeaderMap,
    body: &Bytes,
    about: &str,
) -> Result<FormBody, ApiError> {
    let forbidden = |message| ApiError::new(StatusCode::FORBIDDEN, message);
    if !forms_enabled(&shared.access) {
        return Err(forbidden(
            "forms are disabled because the aggregator authenticates by token; use the API or the command line",
        ));
    }
    if !same_origin(headers) {
        return Err(forbidden(
            "the form was not submitted from the aggregator's own page (cross-origin request)",
        ));
    }
    let form = FormBody::parse(body).map_err(ApiError::bad_request)?;
    if form
        .csrf_tag()
        .is_some_and(|tag| shared.form_key.verify(about, &tag))
    {
        Ok(form)
    } else {
        Err(forbidden(
            "the page was loaded before the aggregator restarted; reload it and try again",
        ))
    }
}

/// `POST /maintenance/handle`: opens or ends a maintenance window.
pub(crate) async fn maintenance_form(
    State(shared): State<ServerState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let form = check_form(&shared, &headers, &body, CSRF_SUBJECT)?;
    let person = shared.access.allow(&headers, Permission::Act).await?;
    match form.maintenance_action().ok_or_else(unknown_action)? {
        MaintenanceAction::End { window } => {
            shared.actions.end_window(window, &person.name).await?;
        }
        MaintenanceAction::Open { seconds } => {
            let request = WindowRequest {
                from: None,
                duration_s: seconds,
                targets: None,
                note: None,
            };
            shared.actions.open_window(&person.name, request).await?;
        }
    }
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response())
}

fn unknown_action() -> ApiError {
    ApiError::bad_request("unknown action; reload the page and try again")
}

/// Checks `Sec-Fetch-Site` (Fetch Metadata), or `Origin` if the browser does not send it.
fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    let host = text("host").unwrap_or_default();
    text("origin")
        .and_then(|origin| origin.split_once("://"))
        .is_some_and(|(_, origin)| !host.is_empty() && origin.eq_ignore_ascii_case(host))
}
