//! When facts go out: with the next report after they changed, and now and then for an aggregator that is new.

use std::time::{Duration, Instant};

use parallax_model::HostFacts;
use parking_lot::Mutex;

/// Facts that did not change are said again.
const AGAIN: Duration = Duration::from_mins(1);

/// The latest look, and what was delivered of it.
#[derive(Debug, Default)]
pub(crate) struct Desk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    latest: Option<HostFacts>,
    /// Handed to a report that is not acknowledged yet.
    sent: Option<HostFacts>,
    delivered: Option<(HostFacts, Instant)>,
}

impl Desk {
    /// Takes a look's facts.
    pub(crate) fn put(&self, facts: HostFacts) {
        self.0.lock().latest = Some(facts);
    }

    /// What the next report carries, if anything. Nothing known is nothing to say, but for taking back what was said.
    pub(crate) fn due(&self, now: Instant) -> Option<HostFacts> {
        let mut state = self.0.lock();
        let due = state.latest.clone().filter(|latest| match &state.delivered {
            Some((before, at)) => before != latest || now.duration_since(*at) >= AGAIN,
            None => *latest != HostFacts::default(),
        });
        state.sent.clone_from(&due);
        due
    }

    /// The report was taken.
    pub(crate) fn delivered(&self, now: Instant) {
        let mut state = self.0.lock();
        if let Some(sent) = state.sent.take() {
            state.delivered = Some((sent, now));
        }
    }
}
