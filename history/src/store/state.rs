//! State of the store, for page, API and metrics.

use std::sync::Arc;

use parallax_model::EventTime;
use serde::Serialize;

use super::stored::IncidentSummary;

/// Maximum number of notices on the page; all are logged.
const MAX_NOTICES: usize = 5;

/// Whether the store works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Status {
    /// No store is configured: history is in memory only.
    Off,
    /// Not opened yet.
    Opening,
    /// The store accepts writes.
    Up,
    /// The store does not work; it is retried automatically.
    Down {
        /// Time of the first failure.
        #[serde(rename = "since_us")]
        since: EventTime,
        /// The error, and what to do.
        reason: String,
    },
}

/// Snapshot of the store's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreState {
    /// Whether the store works.
    pub status: Status,
    /// The location; empty without a store.
    pub location: String,
    /// Size on disk in bytes, as last measured.
    pub bytes: u64,
    /// Notices for the operator, oldest first.
    pub notices: Vec<(EventTime, String)>,
    /// The latest incidents that have ended, and those that a restart interrupted.
    pub history: Arc<Vec<IncidentSummary>>,
}

impl StoreState {
    /// The state without a store.
    #[must_use]
    pub fn off() -> Self {
        Self::with_status(Status::Off, String::new())
    }

    pub(super) fn opening(place: String) -> Self {
        Self::with_status(Status::Opening, place)
    }

    fn with_status(status: Status, place: String) -> Self {
        Self {
            status,
            location: place,
            bytes: 0,
            notices: Vec::new(),
            history: Arc::default(),
        }
    }

    pub(super) fn add_notice(&mut self, at: EventTime, text: String) {
        if self.notices.len() == MAX_NOTICES {
            self.notices.remove(0);
        }
        self.notices.push((at, text));
    }
}
