//! Types of the custom resources.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Status of a Target.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TargetStatus {
    /// The generation that this status refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// Its id on the page, in the API and in metrics, if it is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// `Accepted`.
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

/// A run: probes a target once, immediately.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "parallax.dev",
    version = "v1alpha1",
    kind = "Run",
    namespaced,
    status = "RunStatus",
    category = "parallax",
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.url"}"#,
    printcolumn = r#"{"name":"Passed","type":"string","jsonPath":".status.conditions[?(@.type==\"Passed\")].status"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Passed\")].message"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RunBody {
    /// What to probe: the URL of a known target, or `mesh` for the network between the nodes.
    pub(crate) url: String,
    /// Vantages: `all` (the default), `nodes`, `zones` or `outside`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// Number of rounds, 1 to 20; default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rounds: Option<u32>,
    /// Timeout of a probe in milliseconds, 50 to 60000. Default: the target's timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    /// Seconds after completion until the object is deleted. Default: it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_seconds_after_finished: Option<u32>,
}

/// Status of a Run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunStatus {
    /// Id of the run in the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    /// End (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) completion_time: Option<String>,
    /// `Accepted`, `Complete`, `Passed`.
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
    /// At most fifty vantages, failing ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) results: Vec<RunResult>,
    /// Number of vantages that are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) omitted_vantages: Option<u32>,
}

/// Result of one vantage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunResult {
    /// The vantage.
    pub(crate) vantage: String,
    /// Number of probes requested.
    pub(crate) probes: u32,
    /// Number of failed probes.
    pub(crate) failures: u32,
    /// Description of the latest failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

/// A condition, as in `metav1.Condition` of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason as one CamelCase word.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// When `status` last changed (RFC 3339).
    pub last_transition_time: String,
    /// The generation that this condition refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
