//! Log messages about reports that are not accepted.

use reqwest::StatusCode;

use crate::{logged_reason::LoggedReason, replica_key::ReplicaKey};

/// Logs changes only, instead of every request. A new reason of a failure is a change.
#[derive(Debug)]
pub(crate) struct ReportLog {
    aggregator: String,
    failure_reason: LoggedReason,
    logged_rejection: bool,
}

impl ReportLog {
    pub(crate) fn new(key: &ReplicaKey) -> Self {
        Self {
            aggregator: key.to_string(),
            failure_reason: LoggedReason::default(),
            logged_rejection: false,
        }
    }

    pub(crate) fn delivered(&mut self) {
        if self.failure_reason.clear() {
            tracing::info!(
                aggregator = self.aggregator,
                "the aggregator accepts reports again"
            );
        }
    }

    pub(crate) fn failed(&mut self, reason: &str) {
        if self.failure_reason.is_new(reason) {
            tracing::warn!(aggregator = self.aggregator, %reason, "cannot deliver observations to the aggregator; keeping them and retrying");
        }
    }

    pub(crate) fn rejected(&mut self, status: StatusCode, observations: usize) {
        if !std::mem::replace(&mut self.logged_rejection, true) {
            tracing::error!(
                aggregator = self.aggregator,
                %status,
                observations,
                "the aggregator permanently rejected a report; dropping it (further rejected reports are only counted)"
            );
        }
    }
}
