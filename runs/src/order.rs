//! Orders of runs to the vantages.

use std::{collections::BTreeMap, sync::Arc};

use parallax_model::{Assignment, EventTime, RunId, RunOrder, Vantage};

/// An order to the vantages, delivered by the plan streams.
#[derive(Debug, Clone)]
pub struct ProbeOrder {
    /// Increases with each run, so that a stream delivers each order once.
    pub number: u64,
    pub(super) id: RunId,
    pub(super) rounds: u32,
    /// The order is not delivered after this time.
    pub(super) expires: EventTime,
    pub(super) assignments: Arc<BTreeMap<Vantage, Vec<Assignment>>>,
}

impl ProbeOrder {
    /// Returns the assignments of one vantage, or `None` after the order's deadline.
    #[must_use]
    pub fn for_vantage(&self, vantage: &Vantage, now: EventTime) -> Option<RunOrder> {
        let assignments = self.assignments.get(vantage).filter(|_| now < self.expires)?;
        Some(RunOrder {
            id: self.id.clone(),
            rounds: self.rounds,
            assignments: assignments.clone(),
        })
    }
}
