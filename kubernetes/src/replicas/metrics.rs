//! Metrics of leader election.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

/// Metrics of leader election. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct ReplicaMetrics {
    /// 1 while this replica leads.
    pub leader: Gauge,
    /// Failed calls to the API server for the Lease.
    pub lease_failures: Counter,
}

impl ReplicaMetrics {
    /// Records whether this replica leads.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Counts a failed call for the Lease.
    pub(crate) fn lease_failed(&self) {
        self.lease_failures.inc();
    }
}
