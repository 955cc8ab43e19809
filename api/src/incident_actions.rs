//! Handling of incidents as the API says it.

use crate::runs::RunOutcome;
use parallax_model::{EventTime, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who, when, and why if they said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// The account, or how they were known.
    pub by: String,
    /// When.
    #[schemars(with = "i64")]
    pub at: EventTime,
    /// What they said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Nobody is called until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentSilence {
    /// Who asked for it.
    #[serde(flatten)]
    pub mark: Acknowledgement,
    /// When it ends.
    #[schemars(with = "i64")]
    pub until: EventTime,
}

/// The last time somebody asked whether a fix works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FixVerification {
    /// Who asked.
    #[serde(flatten)]
    pub mark: Acknowledgement,
    /// The run that says.
    #[schemars(with = "String")]
    pub run: RunId,
    /// What it said, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
}

/// What people did about an incident.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct IncidentActions {
    /// Somebody has seen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
    /// Nobody is called for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced: Option<IncidentSilence>,
    /// Somebody asked whether a fix works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<FixVerification>,
    /// Whether what was done last outlives this aggregator: in the ConfigMap of `handling`, or without one in the store.
    /// False where there is neither, or while it cannot be written.
    #[serde(default)]
    pub persisted: bool,
}

/// Body of `POST /v1/incidents/{id}/acknowledge`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// Why, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Body of `POST /v1/incidents/{id}/silence`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SilenceRequest {
    /// For how long, in seconds: a minute to thirty days; 0 ends a silence.
    pub for_s: u64,
    /// Why, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Body of `POST /v1/maintenance`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowRequest {
    /// When it begins, in microseconds of event time; now where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub from: Option<EventTime>,
    /// For how long, in seconds: a minute to thirty days.
    pub for_s: u64,
    /// A part of the URLs that are meant; all targets where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<String>,
    /// Why, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A time in which nobody is called for what was announced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MaintenanceWindow {
    /// Its id.
    pub id: String,
    /// When it begins.
    #[schemars(with = "i64")]
    pub from: EventTime,
    /// When it ends.
    #[schemars(with = "i64")]
    pub until: EventTime,
    /// A part of the URLs that are meant; all targets where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<String>,
    /// Who announced it.
    #[serde(flatten)]
    pub mark: Acknowledgement,
    /// Whether it outlives this aggregator.
    #[serde(default)]
    pub persisted: bool,
}
