//! Plan epochs: the period for which one aggregator is leader.

use std::sync::Arc;

use parallax_kubernetes::replicas::{ReplicaState, RoleChanges};

/// The epoch of a plan stream, which ends with it.
pub(crate) struct PlanEpoch {
    pub(super) number: u64,
    pub(super) nonce: Arc<str>,
    replica: ReplicaState,
    changes: RoleChanges,
}

impl PlanEpoch {
    pub(crate) fn current(replica: &ReplicaState) -> Option<Self> {
        let changes = replica.changes();
        let (number, nonce) = replica.role().plan_identity()?;
        Some(Self {
            number,
            nonce,
            replica: replica.clone(),
            changes,
        })
    }

    fn is_over(&self) -> bool {
        let now = self.replica.role().plan_identity();
        now.is_none_or(|(number, _)| number != self.number)
    }

    /// Waits for the end of the epoch.
    pub(super) async fn ended(&mut self) {
        while !self.is_over() {
            self.changes.next().await;
        }
    }
}
