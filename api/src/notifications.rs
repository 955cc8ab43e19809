//! Delivery status of notifications, in the API.

use parallax_model::EventTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Response to `GET /v1/notifications`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverStatusList {
    /// All receivers; empty if `notify` is not configured.
    pub receivers: Vec<ReceiverView>,
    /// Whether pending notifications are persisted.
    pub persisted: bool,
    /// Why they are not persisted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_persisted_because: Option<String>,
}

/// One receiver. The counts are those of the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverView {
    /// The receiver's name.
    pub name: String,
    /// `webhook`, `alertmanager` or `events`.
    pub kind: String,
    /// Whether deliveries succeed.
    #[serde(flatten)]
    pub state: ReceiverState,
    /// Number of incidents with a pending notification for this receiver.
    pub pending: usize,
    /// When the oldest pending notification was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub oldest_pending: Option<EventTime>,
    /// Time of the latest delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub last_delivered: Option<EventTime>,
    /// When the receiver last rejected a notification permanently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub last_rejected: Option<EventTime>,
    /// Why it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_because: Option<String>,
}

/// Whether deliveries to a receiver succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ReceiverState {
    /// The latest attempt succeeded, or there was none yet.
    Healthy,
    /// The latest attempt failed; it is retried automatically.
    Failing {
        /// Time of the first failure.
        #[schemars(with = "i64")]
        since: EventTime,
        /// The latest error.
        reason: String,
    },
}
