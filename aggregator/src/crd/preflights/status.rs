//! Status of a Preflight. It is bounded: an object may have about a megabyte, and every list returns it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::Condition;

/// Status of a Preflight. Absent fields are serialized as null: a merge patch would otherwise keep earlier values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightStatus {
    /// The generation that this status refers to.
    pub observed_generation: Option<i64>,
    /// Start (RFC 3339).
    pub start_time: Option<String>,
    /// End (RFC 3339).
    pub completion_time: Option<String>,
    /// Number of attempts without a result.
    pub attempts: Option<u32>,
    /// `Ready`, `SelfCheckPassed`, `CAPassed`, `Complete`, `Stalled`.
    pub conditions: Vec<Condition>,
    /// What is known about the node of cert-manager's Pod.
    pub cert_manager: Option<String>,
    /// At most ten names, failing ones first.
    pub hosts: Vec<HostStatus>,
    /// Number of names that are not listed.
    pub omitted_hosts: Option<u32>,
    /// Aspects that were not checked.
    pub not_checked: Vec<String>,
}

/// Both verdicts for one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostStatus {
    /// The name.
    pub host: String,
    /// The objects that cert-manager would create for it, and their solver.
    pub solver: String,
    /// cert-manager's self check.
    pub self_check: VerdictStatus,
    /// The CA's validation.
    pub ca: VerdictStatus,
    /// Ids of the runs that probed it.
    pub runs: Vec<String>,
}

/// One verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VerdictStatus {
    /// `passed`, `at_risk`, `failed` or `unknown`.
    pub state: String,
    /// Summary in one sentence.
    pub sentence: String,
    /// Number of vantages where it passes.
    pub passed: u32,
    /// Number of vantages where it fails.
    pub failed: u32,
    /// Number of vantages without a result.
    pub silent: u32,
    /// Groups of equal failures, largest first, at most three.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_groups: Vec<GroupStatus>,
    /// Uncertainties and other notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Vantages with equal failures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    /// At most six of the vantages.
    pub vantages: Vec<String>,
    /// Number of vantages.
    pub count: u32,
    /// The failure as Parallax describes it.
    pub reason: String,
    /// The failure as cert-manager or the CA would report it.
    pub client_message: String,
    /// Possible causes, likeliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseStatus>,
    /// Remedies, each with its trade-off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
}

/// A possible cause.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CauseStatus {
    /// Id in docs/reference/causes.md.
    pub id: String,
    /// Short title.
    pub title: String,
    /// Whether the diagnosis derived it from evidence; otherwise it is the typical cause of such a failure.
    pub diagnosed: bool,
}
