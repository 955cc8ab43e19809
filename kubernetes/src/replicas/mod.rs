//! Leader election between two aggregators. Only the leader creates plans, writes to the cluster, and serves
//! runs and pages. The standby receives and judges the same observations.
//!
//! ```text
//! Lease ◀─ LeaderElection ─▶ ReplicaState (role) ─▶ plan streams · writes · forwarding · page · metrics
//! ```
//!
//! A Lease is not a lock: a write that was started by the leader can arrive after it has lost the Lease.
//! Therefore all replicas would write the same content, and each plan carries its epoch.

mod candidate;
mod election;
mod metrics;
mod view;

#[cfg(test)]
mod tests;

use data_encoding::HEXLOWER;
use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use ring::digest;
use tokio::{sync::watch, time::Instant};

use crate::object_key::ObjectKey;

pub use election::LeaderElection;
pub use metrics::ReplicaMetrics;
pub use view::ReplicaView;

use candidate::LeaseTiming;

/// Options of a replica (`replicas` in the configuration).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// The Lease; its holder is the leader.
    pub lease: ObjectKey,
    /// Lease duration: how long other replicas wait for a silent holder.
    pub duration: Duration,
}

/// The current role of this aggregator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaRole {
    /// The mesh nonce has not been read yet.
    Starting,
    /// There is no other replica.
    Standalone {
        /// Its start time in seconds.
        epoch: u64,
        /// The nonce that echoes respond to.
        nonce: Arc<str>,
    },
    /// It holds the Lease.
    Leader {
        /// The epoch of the Lease; unique to this term.
        epoch: u64,
        /// The nonce that echoes respond to; the same for all holders, because the mesh must not fall silent
        /// when the leader changes.
        nonce: Arc<str>,
    },
    /// Another replica leads, or none does.
    Standby {
        /// The leader, if known.
        leader: Option<LeaderAddress>,
    },
}

/// The replica that leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderAddress {
    /// Its name, which is that of its Pod.
    pub name: String,
    /// `ADDRESS:PORT` of its page, if published.
    pub page: Option<String>,
}

impl ReplicaRole {
    /// The label in API and page.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standalone { .. } => "alone",
            Self::Leader { .. } => "leads",
            Self::Standby { .. } => "stands_by",
        }
    }

    /// The epoch and nonce of its plans; `None` if it creates none.
    #[must_use]
    pub fn plan_identity(&self) -> Option<(u64, Arc<str>)> {
        match self {
            Self::Standalone { epoch, nonce } | Self::Leader { epoch, nonce } => {
                Some((*epoch, nonce.clone()))
            }
            Self::Starting | Self::Standby { .. } => None,
        }
    }
}

/// Handle to the role of this replica.
#[derive(Debug, Clone)]
pub struct ReplicaState {
    name: Arc<str>,
    role: watch::Receiver<ReplicaRole>,
    /// When its leadership ends unless the Lease is renewed; absent if it does not lead.
    leads_until: Arc<Mutex<Option<Instant>>>,
}

impl ReplicaState {
    /// Creates the only replica, with its epoch and nonce.
    #[must_use]
    pub fn standalone(epoch: u64, nonce: &str) -> Self {
        let nonce = Arc::from(nonce);
        // The value stays readable after the sender is gone.
        let (_, part) = watch::channel(ReplicaRole::Standalone { epoch, nonce });
        Self {
            name: Arc::from(""),
            role: part,
            leads_until: Arc::default(),
        }
    }

    /// Creates the only replica, which starts when the sender sets its role.
    #[must_use]
    pub fn starting() -> (Self, watch::Sender<ReplicaRole>) {
        let (role_sender, part) = watch::channel(ReplicaRole::Starting);
        let replica = Self {
            name: Arc::from(""),
            role: part,
            leads_until: Arc::default(),
        };
        (replica, role_sender)
    }

    /// Creates a replica for tests, whose role the caller sets and whose Lease does not expire for an hour.
    #[must_use]
    pub fn for_test(part: watch::Receiver<ReplicaRole>) -> Self {
        Self {
            name: Arc::from("test"),
            role: part,
            leads_until: Arc::new(Mutex::new(Some(Instant::now() + Duration::from_hours(1)))),
        }
    }

    /// Its name; empty if it is the only replica.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current role. An expired term has ended, even if the election has not published that yet.
    #[must_use]
    pub fn role(&self) -> ReplicaRole {
        let part = self.role.borrow().clone();
        if matches!(part, ReplicaRole::Leader { .. }) && self.is_expired() {
            return ReplicaRole::Standby { leader: None };
        }
        part
    }

    fn is_expired(&self) -> bool {
        self.leads_until
            .lock()
            .is_none_or(|until| Instant::now() >= until)
    }

    /// Whether it may perform writes that are reserved for the leader. Checked before each write.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.role().plan_identity().is_some()
    }

    /// Returns a handle that waits for role changes.
    #[must_use]
    pub fn changes(&self) -> RoleChanges {
        RoleChanges(Some(self.role.clone()))
    }
}

/// Waits for role changes; never completes if the role cannot change.
#[derive(Debug, Clone)]
pub struct RoleChanges(Option<watch::Receiver<ReplicaRole>>);

impl RoleChanges {
    /// Waits for the next change.
    pub async fn next(&mut self) {
        if let Some(part) = &mut self.0 {
            if part.changed().await.is_ok() {
                return;
            }
            // The sender was dropped: this is the only replica, or its election has ended.
            self.0 = None;
        }
        std::future::pending::<()>().await;
    }
}

/// A mesh nonce that survives restarts of the aggregator: a hash of the UID of the Lease or `ConfigMap`. The
/// API server generates the UID, and only accounts that may read the object know it.
#[must_use]
pub fn mesh_nonce(uid: &str) -> Arc<str> {
    let tag = digest::digest(&digest::SHA256, format!("parallax echo {uid}").as_bytes());
    Arc::from(HEXLOWER.encode(&tag.as_ref()[..16]))
}

impl ReplicaOptions {
    fn timing(&self) -> LeaseTiming {
        LeaseTiming::from_duration(self.duration)
    }
}
