//! The state of this replica in API and page.

use parallax_model::{EventTime, Micros};
use serde::Serialize;

use super::{ReplicaRole, ReplicaState};

/// Rounds after a start until judgements rest on the full amount of evidence: as many as needed for a fault
/// that most probes do not notice.
const WARM_UP_ROUNDS: u64 = 24;

/// Snapshot of this replica's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplicaView {
    /// Its name; absent if it is the only replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `starting`, `alone`, `leads` or `stands_by`.
    pub role: &'static str,
    /// The leader, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The epoch of the plans it makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<u64>,
    /// Until this time, it has not seen enough rounds for faults that few probes notice.
    #[serde(rename = "warming_until_us", skip_serializing_if = "Option::is_none")]
    pub warming_until: Option<EventTime>,
}

impl ReplicaState {
    /// Returns the current state, given the start time and the length of a round.
    #[must_use]
    pub fn view(&self, now: EventTime, start: EventTime, interval: Micros) -> ReplicaView {
        let part = self.role();
        let own = (!self.name().is_empty()).then(|| self.name().to_owned());
        let warm = start.plus(Micros(interval.0.saturating_mul(WARM_UP_ROUNDS)));
        ReplicaView {
            role: part.label(),
            leader: match &part {
                ReplicaRole::Starting | ReplicaRole::Standalone { .. } => None,
                ReplicaRole::Leader { .. } => own.clone(),
                ReplicaRole::Standby { leader } => leader.as_ref().map(|leader| leader.name.clone()),
            },
            epoch: part.plan_identity().map(|(epoch, _)| epoch),
            name: own,
            warming_until: (now < warm).then_some(warm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_just_started_is_warming_for_two_dozen_rounds() {
        let (replica, interval) = (ReplicaState::standalone(7, "n"), Micros::from_secs(5));
        let start = EventTime(1_000_000);
        let at = |seconds| start.plus(Micros::from_secs(seconds));
        let early = replica.view(at(119), start, interval);
        assert_eq!(
            (early.role, early.epoch, early.warming_until),
            ("alone", Some(7), Some(at(120)))
        );
        assert_eq!(replica.view(at(120), start, interval).warming_until, None);
    }
}
