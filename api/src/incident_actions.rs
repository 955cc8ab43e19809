//! Actions of users on incidents, in the API.

use crate::runs::RunOutcome;
use parallax_model::{EventTime, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The user and time of an action, with an optional note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// The account, or how the user authenticated.
    pub by: String,
    /// Time of the action.
    #[schemars(with = "i64")]
    pub at: EventTime,
    /// The user's note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A silence: no notifications until it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentSilence {
    /// The user who requested it.
    #[serde(flatten)]
    pub author: Acknowledgement,
    /// When it ends.
    #[schemars(with = "i64")]
    pub until: EventTime,
}

/// The latest verification of a fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FixVerification {
    /// The user who requested it.
    #[serde(flatten)]
    pub author: Acknowledgement,
    /// The run that verifies the fix.
    #[schemars(with = "String")]
    pub run: RunId,
    /// The run's outcome, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
}

/// What users did about an incident.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct IncidentActions {
    /// The incident is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
    /// Notifications are silenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced: Option<IncidentSilence>,
    /// A fix was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<FixVerification>,
    /// Whether the latest action is persisted: in the ConfigMap of `incidentActions`, or without one in the store.
    /// False if neither is configured or writing fails.
    #[serde(default)]
    pub persisted: bool,
}

/// Body of `POST /v1/incidents/{id}/acknowledge`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// The reason, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Body of `POST /v1/incidents/{id}/silence`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SilenceRequest {
    /// Duration in seconds: a minute to thirty days; 0 ends a silence.
    pub duration_s: u64,
    /// The reason, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Body of `POST /v1/maintenance`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowRequest {
    /// Start in microseconds of event time; now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub from: Option<EventTime>,
    /// Duration in seconds: a minute to thirty days.
    pub duration_s: u64,
    /// Text that the affected targets' URLs contain; all targets if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<String>,
    /// The reason, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A maintenance window: no notifications about its targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MaintenanceWindow {
    /// The window's id.
    pub id: String,
    /// Start.
    #[schemars(with = "i64")]
    pub from: EventTime,
    /// End.
    #[schemars(with = "i64")]
    pub until: EventTime,
    /// Text that the affected targets' URLs contain; all targets if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<String>,
    /// The user who announced it.
    #[serde(flatten)]
    pub author: Acknowledgement,
    /// Whether the window is persisted.
    #[serde(default)]
    pub persisted: bool,
}
