//! The epoch that a plan belongs to: the time for which one aggregator leads.

use std::sync::Arc;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{
    replicas::{Changes, Part, Replica},
    serve::ApiError,
};

/// A plan is asked of a replica that makes none. The prober asks the next one; a connection kept would lead here again.
pub(super) fn elsewhere(part: &Part) -> Response {
    let (error, leader) = match part {
        Part::Starting => ("this aggregator is starting; come again", ""),
        Part::StandsBy { leader } => (
            "this aggregator stands by and makes no plans; ask the one that leads",
            leader.as_ref().map_or("", |leader| leader.name.as_str()),
        ),
        // It came to lead since.
        Part::Alone { .. } | Part::Leads { .. } => ("this aggregator has just come to lead; come again", ""),
    };
    let body = serde_json::json!({
        "error": error,
        "leader": leader,
    });
    let mut response = ApiError::with_body(StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The epoch that a plan belongs to. It ends with it.
pub(super) struct Epoch {
    pub(super) number: u64,
    pub(super) nonce: Arc<str>,
    replica: Replica,
    changes: Changes,
}

impl Epoch {
    pub(super) fn of(replica: &Replica) -> Option<Self> {
        let changes = replica.changes();
        let (number, nonce) = replica.part().planning()?;
        Some(Self {
            number,
            nonce,
            replica: replica.clone(),
            changes,
        })
    }

    fn is_over(&self) -> bool {
        let now = self.replica.part().planning();
        now.is_none_or(|(number, _)| number != self.number)
    }

    /// Ends with the epoch.
    pub(super) async fn end(&mut self) {
        while !self.is_over() {
            self.changes.next().await;
        }
    }
}
