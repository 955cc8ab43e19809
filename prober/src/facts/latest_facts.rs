//! Decides when facts are reported: with the next report after a change, and periodically for new aggregators.

use std::time::{Duration, Instant};

use parallax_model::HostFacts;
use parking_lot::Mutex;

/// Interval at which unchanged facts are repeated.
const REPEAT_INTERVAL: Duration = Duration::from_mins(1);

/// The latest collected facts.
#[derive(Debug, Default)]
pub(crate) struct LatestFacts(Mutex<Option<HostFacts>>);

impl LatestFacts {
    /// Stores newly collected facts.
    pub(crate) fn set(&self, facts: HostFacts) {
        *self.0.lock() = Some(facts);
    }
}

/// The facts that were delivered to one aggregator.
#[derive(Debug, Default)]
pub(crate) struct FactDelivery {
    /// Facts in a report that is not acknowledged yet.
    sent: Option<HostFacts>,
    delivered: Option<(HostFacts, Instant)>,
}

impl FactDelivery {
    /// Returns the facts for the next report, if any. Empty facts are sent only to revoke delivered ones.
    pub(crate) fn next(&mut self, latest_facts: &LatestFacts, now: Instant) -> Option<HostFacts> {
        let latest = latest_facts.0.lock().clone();
        let due = latest.filter(|latest| match &self.delivered {
            Some((before, at)) => before != latest || now.duration_since(*at) >= REPEAT_INTERVAL,
            None => *latest != HostFacts::default(),
        });
        self.sent.clone_from(&due);
        due
    }

    /// Records that the report was acknowledged.
    pub(crate) fn acknowledge(&mut self, now: Instant) {
        if let Some(sent) = self.sent.take() {
            self.delivered = Some((sent, now));
        }
    }
}
