//! The API server: how to reach it, and kinds of objects followed there: listed, watched, and how each watch fares.
//! What is made of the objects is up to who follows them.

mod access;
mod backoff;
mod health;
mod key;
mod reflector;
mod settings;

use std::{fmt, time::Duration};

use serde_json::Value;

pub use access::{ApiServerAccess, connect};
pub(crate) use backoff::WatchBackoff;
pub use health::{WatchCondition, WatchFailureReason, WatchHealth, WatchState};
pub use key::Key;
pub use reflector::{Reflector, WatchUpdate};
pub use settings::{CertManagerMode, KubernetesSettings, PROBERS, TargetDefaults};

/// Things told that may wait; beyond it the reflectors wait, and with them the API server's connections.
pub const QUEUE: usize = 1_024;

/// What one watch reads: a kind of object, in the whole cluster or in a part of it.
pub trait WatchedResource: Clone + Ord + fmt::Display + Send + Sync + 'static {
    /// An object, as far as it is of use.
    type Object: Send + Sync + 'static;

    /// The kind's plural in the API, as in RBAC rules; the value of the metrics' label.
    fn plural(&self) -> &'static str;

    /// The API group; empty for the core. Every group that is watched is at v1.
    fn group(&self) -> &'static str;

    /// The path of the collection.
    fn path(&self) -> String;

    /// A cluster may do without it: its definition is not built in.
    fn is_optional(&self) -> bool;

    /// Nothing but metadata is of use, so nothing else is asked for.
    fn metadata_only(&self) -> bool {
        false
    }

    /// Reads an object and drops what is of no use.
    ///
    /// # Errors
    /// What is wrong with it; it is left out then, and the others stay.
    fn read(&self, value: Value) -> Result<Self::Object, String>;
}

/// Times of the watch. Settable so that tests need not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchTiming {
    /// Quiet that ends a burst of changes.
    pub quiet: Duration,
    /// Longest time a change waits for that.
    pub longest_burst: Duration,
    /// Wait after the first failure.
    pub first_retry: Duration,
    /// Longest wait between two tries. When the control plane is back, it marks nodes as not ready and removes endpoints from
    /// Services for some seconds; a topology that is updated later than kube-proxy leads to wrong verdicts.
    pub longest_retry: Duration,
    /// How often to look for objects that the API server does not know.
    pub recheck: Duration,
    /// Longest time for an answer to begin and for one page of a list.
    pub patience: Duration,
    /// A watch that told nothing for so long is taken for broken; the server sends a bookmark about once a minute.
    pub silence: Duration,
}

impl Default for WatchTiming {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(50),
            longest_burst: Duration::from_millis(300),
            first_retry: Duration::from_millis(200),
            longest_retry: Duration::from_secs(5),
            recheck: Duration::from_secs(30),
            patience: Duration::from_mins(1),
            silence: Duration::from_secs(150),
        }
    }
}
