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
    Alone {
        /// Its start time in seconds.
        epoch: u64,
        /// The nonce that echoes respond to.
        nonce: Arc<str>,
    },
    /// It holds the Lease.
    Leads {
        /// The epoch of the Lease; unique to this term.
        epoch: u64,
        /// The nonce that echoes respond to; the same for all holders, because the mesh must not fall silent
        /// when the leader changes.
        nonce: Arc<str>,
    },
    /// Another replica leads, or none does.
    StandsBy {
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
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Alone { .. } => "alone",
            Self::Leads { .. } => "leads",
            Self::StandsBy { .. } => "stands_by",
        }
    }

    /// The epoch and nonce of its plans; `None` if it creates none.
    #[must_use]
    pub fn planning(&self) -> Option<(u64, Arc<str>)> {
        match self {
            Self::Alone { epoch, nonce } | Self::Leads { epoch, nonce } => Some((*epoch, nonce.clone())),
            Self::Starting | Self::StandsBy { .. } => None,
        }
    }
}

/// Handle to the role of this replica.
#[derive(Debug, Clone)]
pub struct ReplicaState {
    name: Arc<str>,
    part: watch::Receiver<ReplicaRole>,
    /// When its leadership ends unless the Lease is renewed; absent if it does not lead.
    until: Arc<Mutex<Option<Instant>>>,
}

impl ReplicaState {
    /// Creates the only replica, with its epoch and nonce.
    #[must_use]
    pub fn alone(epoch: u64, nonce: &str) -> Self {
        let nonce = Arc::from(nonce);
        // The value stays readable after the sender is gone.
        let (_, part) = watch::channel(ReplicaRole::Alone { epoch, nonce });
        Self {
            name: Arc::from(""),
            part,
            until: Arc::default(),
        }
    }

    /// Creates the only replica, which starts when the sender sets its role.
    #[must_use]
    pub fn starting() -> (Self, watch::Sender<ReplicaRole>) {
        let (told, part) = watch::channel(ReplicaRole::Starting);
        let replica = Self {
            name: Arc::from(""),
            part,
            until: Arc::default(),
        };
        (replica, told)
    }

    /// Creates a replica for tests, whose role the caller sets and whose Lease does not expire for an hour.
    #[must_use]
    pub fn following(part: watch::Receiver<ReplicaRole>) -> Self {
        Self {
            name: Arc::from("test"),
            part,
            until: Arc::new(Mutex::new(Some(Instant::now() + Duration::from_hours(1)))),
        }
    }

    /// Its name; empty if it is the only replica.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current role. An expired term has ended, even if the election has not published that yet.
    #[must_use]
    pub fn part(&self) -> ReplicaRole {
        let part = self.part.borrow().clone();
        if matches!(part, ReplicaRole::Leads { .. }) && self.is_over() {
            return ReplicaRole::StandsBy { leader: None };
        }
        part
    }

    fn is_over(&self) -> bool {
        self.until.lock().is_none_or(|until| Instant::now() >= until)
    }

    /// Whether it may perform writes that are reserved for the leader. Checked before each write.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.part().planning().is_some()
    }

    /// Returns a handle that waits for role changes.
    #[must_use]
    pub fn changes(&self) -> RoleChanges {
        RoleChanges(Some(self.part.clone()))
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
pub fn nonce_of(uid: &str) -> Arc<str> {
    let tag = digest::digest(&digest::SHA256, format!("parallax echo {uid}").as_bytes());
    Arc::from(HEXLOWER.encode(&tag.as_ref()[..16]))
}

impl ReplicaOptions {
    fn terms(&self) -> LeaseTiming {
        LeaseTiming::of(self.duration)
    }
}
