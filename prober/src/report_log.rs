//! What is said of reports that are not taken.

use reqwest::StatusCode;

use crate::{logged_reason::LoggedReason, replica_key::ReplicaKey};

/// Says once that something changed, instead of once a request; a failure that has another reason has changed.
#[derive(Debug)]
pub(crate) struct ReportLog {
    aggregator: String,
    failing: LoggedReason,
    refused: bool,
}

impl ReportLog {
    pub(crate) fn of(key: &ReplicaKey) -> Self {
        Self {
            aggregator: key.to_string(),
            failing: LoggedReason::default(),
            refused: false,
        }
    }

    pub(crate) fn delivered(&mut self) {
        if self.failing.clear() {
            tracing::info!(aggregator = self.aggregator, "the aggregator takes reports again");
        }
    }

    pub(crate) fn failed(&mut self, reason: &str) {
        if self.failing.is_new(reason) {
            tracing::warn!(aggregator = self.aggregator, %reason, "cannot deliver observations to the aggregator; keeping them and trying again");
        }
    }

    pub(crate) fn refused(&mut self, status: StatusCode, observations: usize) {
        if !std::mem::replace(&mut self.refused, true) {
            tracing::error!(
                aggregator = self.aggregator,
                %status,
                observations,
                "the aggregator refuses a report for good; dropping it (further ones are only counted)"
            );
        }
    }
}
