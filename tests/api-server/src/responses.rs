//! JSON responses.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// `reason` of a failure that a test configured.
const CONFIGURED: &str = "Test";

/// Returns an object or a list.
pub(crate) fn object(body: &Value) -> Response {
    with_status(StatusCode::OK, body)
}

/// Returns a new object.
pub(crate) fn created(body: &Value) -> Response {
    with_status(StatusCode::CREATED, body)
}

/// Returns a failure that a test configured.
pub(crate) fn configured_failure(code: u16, message: &str) -> Response {
    failure(code, CONFIGURED, message)
}

/// Returns 404 for an object.
pub(crate) fn object_not_found() -> Response {
    failure(404, "NotFound", "not found")
}

/// Returns 404 for a resource.
pub(crate) fn resource_not_found() -> Response {
    failure(
        404,
        "NotFound",
        "the server could not find the requested resource",
    )
}

pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": reason});
    with_status(StatusCode::from_u16(code).unwrap(), &body)
}

fn with_status(status: StatusCode, body: &Value) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, body.to_string()).into_response()
}
