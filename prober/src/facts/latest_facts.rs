//! When facts go out: with the next report after they changed, and now and then for an aggregator that is new.

use std::time::{Duration, Instant};

use parallax_model::HostFacts;
use parking_lot::Mutex;

/// Facts that did not change are said again.
const AGAIN: Duration = Duration::from_mins(1);

/// The latest look.
#[derive(Debug, Default)]
pub(crate) struct LatestFacts(Mutex<Option<HostFacts>>);

impl LatestFacts {
    /// Takes a look's facts.
    pub(crate) fn put(&self, facts: HostFacts) {
        *self.0.lock() = Some(facts);
    }
}

/// What one aggregator was told of them.
#[derive(Debug, Default)]
pub(crate) struct FactDelivery {
    /// Handed to a report that is not acknowledged yet.
    sent: Option<HostFacts>,
    delivered: Option<(HostFacts, Instant)>,
}

impl FactDelivery {
    /// What the next report carries, if anything. Nothing known is nothing to say, but for taking back what was said.
    pub(crate) fn due(&mut self, desk: &LatestFacts, now: Instant) -> Option<HostFacts> {
        let latest = desk.0.lock().clone();
        let due = latest.filter(|latest| match &self.delivered {
            Some((before, at)) => before != latest || now.duration_since(*at) >= AGAIN,
            None => *latest != HostFacts::default(),
        });
        self.sent.clone_from(&due);
        due
    }

    /// The report was taken.
    pub(crate) fn delivered(&mut self, now: Instant) {
        if let Some(sent) = self.sent.take() {
            self.delivered = Some((sent, now));
        }
    }
}
