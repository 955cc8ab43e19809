//! Who leads, and looks at the Lease that failed.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

/// Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct ReplicaMetrics {
    /// 1 while this replica leads.
    pub leader: Gauge,
    /// Calls for the Lease that failed.
    pub lease_failures: Counter,
}

impl ReplicaMetrics {
    /// Whether this aggregator leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Counts a look at the Lease that failed.
    pub(crate) fn lease_failed(&self) {
        self.lease_failures.inc();
    }
}
