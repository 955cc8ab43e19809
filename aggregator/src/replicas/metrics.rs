//! Who leads, and looks at the Lease that failed.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

/// Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplicaMetrics {
    pub(crate) leader: Gauge,
    pub(crate) lease_failures: Counter,
}

impl ReplicaMetrics {
    /// Whether this aggregator leads.
    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Counts a look at the Lease that failed.
    pub(crate) fn lease_failed(&self) {
        self.lease_failures.inc();
    }
}
