//! Two aggregators, one of which leads: it alone makes plans, writes into the cluster, and serves runs and pages. The
//! other sees and judges the same, and stands by.
//!
//! ```text
//! Lease ◀─ Election (read, decide, write) ─▶ Replica (who leads) ─▶ plan streams · writes · forwarding · page · metrics
//! ```
//!
//! A Lease is no lock: a write that was begun while we led may arrive after we do not. So everything written is the
//! same whoever writes it, and each plan carries its epoch.

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

/// `replicas`: what makes this one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// The Lease whose holder leads.
    pub lease: ObjectKey,
    /// How long the others wait for a holder that is silent.
    pub duration: Duration,
}

/// What this aggregator is at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaRole {
    /// What it answers echoes to is still being read.
    Starting,
    /// There is no other one.
    Alone {
        /// Its start, in seconds.
        epoch: u64,
        /// What echoes answer to.
        nonce: Arc<str>,
    },
    /// It holds the Lease.
    Leads {
        /// Of the Lease; no other holder had or gets the same.
        epoch: u64,
        /// What echoes answer to, the same for all holders: a mesh must not fall silent because the leader changes.
        nonce: Arc<str>,
    },
    /// Another one does, or nobody yet.
    StandsBy {
        /// Who, if anybody is known to.
        leader: Option<LeaderAddress>,
    },
}

/// Another replica, which leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderAddress {
    /// Its name: that of its Pod.
    pub name: String,
    /// `ADDRESS:PORT` of its page, where it says so.
    pub page: Option<String>,
}

impl ReplicaRole {
    /// The word for it, in API and page.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Alone { .. } => "alone",
            Self::Leads { .. } => "leads",
            Self::StandsBy { .. } => "stands_by",
        }
    }

    /// The epoch of its plans and the nonce in them; nothing where it makes none.
    #[must_use]
    pub fn planning(&self) -> Option<(u64, Arc<str>)> {
        match self {
            Self::Alone { epoch, nonce } | Self::Leads { epoch, nonce } => Some((*epoch, nonce.clone())),
            Self::Starting | Self::StandsBy { .. } => None,
        }
    }
}

/// This replica, as everything else in the process asks for it.
#[derive(Debug, Clone)]
pub struct ReplicaState {
    name: Arc<str>,
    part: watch::Receiver<ReplicaRole>,
    /// Until when it leads unless it renews the Lease; absent where there is none.
    until: Arc<Mutex<Option<Instant>>>,
}

impl ReplicaState {
    /// The only replica, with its epoch and nonce.
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

    /// The only one, from when on the sender says so.
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

    /// A replica whose role the caller decides and whose Lease does not expire for an hour: for tests.
    #[must_use]
    pub fn following(part: watch::Receiver<ReplicaRole>) -> Self {
        Self {
            name: Arc::from("test"),
            part,
            until: Arc::new(Mutex::new(Some(Instant::now() + Duration::from_hours(1)))),
        }
    }

    /// Its name; empty where it is the only one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is at present. A term that is over is over, also where the election has not come to say so.
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

    /// Whether it may write what only one may write. Asked before each write.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.part().planning().is_some()
    }

    /// Tells when that changes.
    #[must_use]
    pub fn changes(&self) -> RoleChanges {
        RoleChanges(Some(self.part.clone()))
    }
}

/// Waits for another part; for ever where there is but one.
#[derive(Debug, Clone)]
pub struct RoleChanges(Option<watch::Receiver<ReplicaRole>>);

impl RoleChanges {
    /// Ends with the next change.
    pub async fn next(&mut self) {
        if let Some(part) = &mut self.0 {
            if part.changed().await.is_ok() {
                return;
            }
            // Nobody is left to say anything: this one is alone, or its election has ended with everything else.
            self.0 = None;
        }
        std::future::pending::<()>().await;
    }
}

/// The nonce of a mesh that outlives an aggregator: a hash of the uid of the Lease or the `ConfigMap`. The API server chose
/// the uid, and only those who may read that object know it.
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
