//! Errors of the API: an HTTP status and `{"error": "…"}`.

use std::fmt;

use axum::{
    Json,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use parallax_model::Vantage;
use serde_json::json;

/// An error response. The text says what was expected.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: serde_json::Value,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl fmt::Display) -> Self {
        Self {
            status,
            body: json!({"error": message.to_string()}),
        }
    }

    pub(crate) const fn with_body(status: StatusCode, body: serde_json::Value) -> Self {
        Self { status, body }
    }

    /// The HTTP status.
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn bad_request(message: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "authentication failed; expected the header authorization: Bearer TOKEN with the token of tokenFile",
        )
    }

    pub(crate) fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// The vantage is not in the topology.
    pub(crate) fn unknown_vantage(vantage: &Vantage, expected: &[Vantage]) -> Self {
        /// A large mesh has thousands of vantages; a few of them show what is wrong.
        const MAX_LISTED_VANTAGES: usize = 20;
        let message = if expected.is_empty() {
            format!(
                "vantage {vantage} is not in the topology: add a prober to its node, or list it under vantages"
            )
        } else {
            format!("vantage {vantage} is not in the topology")
        };
        let shown: Vec<_> = expected
            .iter()
            .take(MAX_LISTED_VANTAGES)
            .map(ToString::to_string)
            .collect();
        Self {
            status: StatusCode::NOT_FOUND,
            body: json!({"error": message, "expected": shown, "expected_count": expected.len()}),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                header::HeaderValue::from_static("Bearer"),
            );
        }
        response
    }
}

/// Converts plain-text errors of the framework (405, 408, 415, a malformed query) to the JSON form.
pub(crate) async fn convert_to_json(response: Response) -> Response {
    let status = response.status();
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|media| media.as_bytes().starts_with(b"application/json"));
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let text = axum::body::to_bytes(body, 1_024).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let message = match text.trim() {
        "" => status.canonical_reason().unwrap_or("error").to_lowercase(),
        text => text.to_owned(),
    };
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    Response::from_parts(head, Body::from(json!({"error": message}).to_string()))
}
