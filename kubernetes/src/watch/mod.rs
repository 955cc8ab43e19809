//! Access to the API server, and watches of its objects: list, watch, and the health of each watch. Consumers
//! decide what to do with the objects.

mod access;
mod backoff;
mod health;
mod key;
mod reflector;
mod settings;
mod update_stream;

use std::{fmt, time::Duration};

use serde_json::Value;

pub use access::{ApiServerAccess, connect};
pub(crate) use backoff::WatchBackoff;
pub use health::{WatchCondition, WatchFailureReason, WatchHealth, WatchState};
pub use key::Key;
pub use reflector::{Reflector, WatchUpdate};
pub use settings::{CertManagerMode, KubernetesSettings, PROBER_SELECTOR, TargetDefaults};
pub use update_stream::watch_updates;

/// Capacity of the update channel. If it is full, the reflectors wait, which applies backpressure to the
/// connections of the API server.
pub const QUEUE_CAPACITY: usize = 1_024;

/// A resource that one watch covers, cluster-wide or in part of the cluster.
pub trait WatchedResource: Clone + Ord + fmt::Display + Send + Sync + 'static {
    /// The parsed object, reduced to the relevant fields.
    type Object: Send + Sync + 'static;

    /// The plural of the resource in the API, as in RBAC rules; also the value of the metrics' label.
    fn plural(&self) -> &'static str;

    /// The API group; empty for the core group.
    fn group(&self) -> &'static str;

    /// The version of the API group.
    fn version(&self) -> &'static str {
        "v1"
    }

    /// The account that needs permission to watch, for messages.
    fn account(&self) -> &'static str {
        "the aggregator's ServiceAccount"
    }

    /// The path of the collection.
    fn path(&self) -> String;

    /// Whether a cluster may lack the resource because it is not built in.
    fn is_optional(&self) -> bool;

    /// Whether only metadata is relevant, so that only metadata is requested.
    fn metadata_only(&self) -> bool {
        false
    }

    /// Parses an object and drops irrelevant fields.
    ///
    /// # Errors
    /// Returns why the object is invalid. The object is then skipped, without an effect on the others.
    fn read(&self, value: Value) -> Result<Self::Object, String>;
}

/// Timing of watches. Configurable so that tests need not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchTiming {
    /// Quiet period that ends a burst of changes (debounce).
    pub debounce: Duration,
    /// Maximum time that a change waits for the quiet period.
    pub max_debounce: Duration,
    /// Delay after the first failure.
    pub first_retry_delay: Duration,
    /// Maximum delay between two attempts. When the control plane returns, it marks nodes as not ready and
    /// removes endpoints from Services for some seconds. A topology that is updated later than kube-proxy
    /// leads to wrong verdicts.
    pub max_retry_delay: Duration,
    /// Interval at which an absent resource is checked again.
    pub recheck_interval: Duration,
    /// Timeout for a response to begin, and for one page of a list.
    pub request_timeout: Duration,
    /// Maximum time without an event, after which a watch is considered broken. The server sends a bookmark
    /// about once a minute.
    pub idle_timeout: Duration,
}

impl Default for WatchTiming {
    fn default() -> Self {
        Self {
            debounce: Duration::from_millis(50),
            max_debounce: Duration::from_millis(300),
            first_retry_delay: Duration::from_millis(200),
            max_retry_delay: Duration::from_secs(5),
            recheck_interval: Duration::from_secs(30),
            request_timeout: Duration::from_mins(1),
            idle_timeout: Duration::from_secs(150),
        }
    }
}
