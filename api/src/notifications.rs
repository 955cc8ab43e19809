//! How notifications fare, as the API says it.

use parallax_model::EventTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer of `GET /v1/notifications`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverStatusList {
    /// Everybody who is told; nobody where `notify` is not configured.
    pub receivers: Vec<ReceiverView>,
    /// Whether what is owed outlives this aggregator.
    pub kept: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept_because: Option<String>,
}

/// One receiver. Counts are those of the aggregator that leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverView {
    /// Its name.
    pub name: String,
    /// `webhook`, `alertmanager` or `events`.
    pub way: String,
    /// Whether it takes what it is told.
    #[serde(flatten)]
    pub standing: ReceiverState,
    /// Incidents of which it is owed something.
    pub pending: usize,
    /// Since when the oldest of these is owed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub oldest: Option<EventTime>,
    /// When something was delivered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub delivered: Option<EventTime>,
    /// When it last refused something for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub refused: Option<EventTime>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_because: Option<String>,
}

/// Whether a receiver takes what it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ReceiverState {
    /// The last attempt succeeded, or there was none.
    Well,
    /// It does not; tried again by itself.
    Failing {
        /// Since when.
        #[schemars(with = "i64")]
        since: EventTime,
        /// Why.
        reason: String,
    },
}
