//! How the store is, for the page, the API and the metrics.

use std::sync::Arc;

use parallax_model::EventTime;
use serde::Serialize;

use super::stored::IncidentSummary;

/// Notices kept for the page; all are logged.
const NOTICES: usize = 5;

/// Whether things are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Status {
    /// None is configured: history is in memory only.
    Off,
    /// Not tried yet.
    Opening,
    /// It takes what it is given.
    Up,
    /// It does not; tried again by itself.
    Down {
        /// Since when.
        #[serde(rename = "since_us")]
        since: EventTime,
        /// Why, and what to do.
        reason: String,
    },
}

/// The store at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreState {
    /// Whether the store works.
    pub status: Status,
    /// Where it is; empty without one.
    pub place: String,
    /// Bytes on the disk when last looked.
    pub bytes: u64,
    /// What was done that somebody should know, oldest first.
    pub notices: Vec<(EventTime, String)>,
    /// The latest incidents that are over, and those whose end a restart left open.
    pub history: Arc<Vec<IncidentSummary>>,
}

impl StoreState {
    /// No store.
    #[must_use]
    pub fn off() -> Self {
        Self::at(Status::Off, String::new())
    }

    pub(super) fn opening(place: String) -> Self {
        Self::at(Status::Opening, place)
    }

    fn at(status: Status, place: String) -> Self {
        Self {
            status,
            place,
            bytes: 0,
            notices: Vec::new(),
            history: Arc::default(),
        }
    }

    pub(super) fn notice(&mut self, at: EventTime, text: String) {
        if self.notices.len() == NOTICES {
            self.notices.remove(0);
        }
        self.notices.push((at, text));
    }
}
