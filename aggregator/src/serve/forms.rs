//! The page's buttons. A page of elsewhere can neither read the proof that a form carries nor pretend to be of the same
//! origin.

use axum::{
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use parallax_api::incident_actions::WindowRequest;
use ring::hmac;
use serde::Deserialize;
use serde_json::Value;

use super::{
    ServerState,
    actions::{known, verified},
    page::maintenance::FORMS,
};
use crate::{
    access::{AccessControl, Permission, UserAuthentication},
    api_error::ApiError,
};

/// The key of the page's forms, of this life of the aggregator.
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

    /// What a form of one incident carries.
    pub(super) fn sign(&self, incident: &str) -> String {
        let tag = hmac::sign(&self.0, incident.as_bytes());
        HEXLOWER.encode(tag.as_ref())
    }

    fn accepts(&self, incident: &str, shown: &str) -> bool {
        let bytes: Option<Vec<u8>> = (shown.len() == 64 && shown.is_ascii())
            .then(|| {
                (0..64)
                    .step_by(2)
                    .map(|i| u8::from_str_radix(&shown[i..i + 2], 16).ok())
                    .collect()
            })
            .flatten();
        bytes.is_some_and(|bytes| hmac::verify(&self.0, incident.as_bytes(), &bytes).is_ok())
    }
}

/// Whether a browser can show who it is: a token in a header it cannot.
pub(super) const fn has_forms(access: &AccessControl) -> bool {
    matches!(
        access.known,
        UserAuthentication::Nobody { local: true } | UserAuthentication::Proxy(_)
    )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FormBody {
    /// From the page that was served to this person.
    proof: String,
    deed: String,
}

/// `POST /incident/{id}/handle`: a button of the page. A page of elsewhere can neither read the proof nor pretend to be
/// of the same origin.
pub(crate) async fn form(
    State(shared): State<ServerState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let form = pressed(&shared, &headers, &body, &id)?;
    let deed = if form.deed == "verify" {
        Permission::Run
    } else {
        Permission::Handle
    };
    let person = shared.access.allow(&headers, deed).await?;
    match form.deed.as_str() {
        "verify" => drop(verified(&shared, &id, &person).await?),
        deed => {
            known(&shared, &id).await?;
            let handling = &shared.handling;
            match deed {
                "acknowledge" => drop(handling.acknowledge(&id, &person.name, None).await?),
                "unsilence" => drop(handling.unsilence(&id, &person.name).await?),
                deed => {
                    let seconds = deed
                        .strip_prefix("silence-")
                        .and_then(|seconds| seconds.parse().ok());
                    let seconds =
                        seconds.ok_or_else(|| ApiError::bad_request("expected a button of the page"))?;
                    drop(handling.silence(&id, &person.name, seconds, None).await?);
                }
            }
        }
    }
    let back = url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>();
    Ok((
        StatusCode::SEE_OTHER,
        [(header::LOCATION, format!("/incident/{back}"))],
    )
        .into_response())
}

/// What a button of our own page sent, whose proof is about this.
fn pressed(
    shared: &ServerState,
    headers: &HeaderMap,
    body: &Bytes,
    about: &str,
) -> Result<FormBody, ApiError> {
    let forbidden = |said| ApiError::new(StatusCode::FORBIDDEN, said);
    if !has_forms(&shared.access) {
        return Err(forbidden(
            "the page has no forms here; use the API or the command line",
        ));
    }
    if !same_origin(headers) {
        return Err(forbidden(
            "expected the form to be sent from the aggregator's own page",
        ));
    }
    let form: FormBody = form_of(body)?;
    if shared.form_key.accepts(about, &form.proof) {
        Ok(form)
    } else {
        Err(forbidden(
            "the page is of a former life of the aggregator; load it again and press the button again",
        ))
    }
}

/// `POST /maintenance/handle`: a button of the page.
pub(crate) async fn maintenance_form(
    State(shared): State<ServerState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let form = pressed(&shared, &headers, &body, FORMS)?;
    let person = shared.access.allow(&headers, Permission::Handle).await?;
    if let Some(id) = form.deed.strip_prefix("end-") {
        shared.handling.end(id, &person.name).await?;
    } else {
        let seconds = form
            .deed
            .strip_prefix("open-")
            .and_then(|seconds| seconds.parse().ok());
        let request = WindowRequest {
            from: None,
            for_s: seconds.ok_or_else(|| ApiError::bad_request("expected a button of the page"))?,
            targets: None,
            note: None,
        };
        shared.handling.open(&person.name, request).await?;
    }
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response())
}

fn form_of(body: &Bytes) -> Result<FormBody, ApiError> {
    let pairs: serde_json::Map<String, Value> = url::form_urlencoded::parse(body)
        .take(8)
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect();
    serde_json::from_value(Value::Object(pairs)).map_err(ApiError::bad_request)
}

/// As the browser itself says (Fetch Metadata), and where it says nothing of that, by `Origin`.
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
