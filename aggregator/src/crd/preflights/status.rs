//! What a Preflight came to. Bounded: an object has room for about a megabyte, and is read by everybody who lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::Condition;

/// What became of a Preflight. Absent fields are written as nulls: a merge would leave those of the last time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightStatus {
    /// The generation that this speaks of.
    pub observed_generation: Option<i64>,
    /// When it was begun (RFC 3339).
    pub start_time: Option<String>,
    /// When it ended (RFC 3339).
    pub completion_time: Option<String>,
    /// Attempts that ended without an answer.
    pub attempts: Option<u32>,
    /// `Ready`, `SelfCheckPassed`, `CAPassed`, `Complete`, `Stalled`.
    pub conditions: Vec<Condition>,
    /// What is known of where cert-manager's pod sits.
    pub cert_manager: Option<String>,
    /// At most ten names, those first that do not pass.
    pub hosts: Vec<HostStatus>,
    /// Names that are not listed.
    pub more: Option<u32>,
    /// What nobody looked at.
    pub not_checked: Vec<String>,
}

/// Both verdicts on one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostStatus {
    /// The name.
    pub host: String,
    /// What cert-manager would make for it, and which solver that is.
    pub solver: String,
    /// cert-manager's self check.
    pub self_check: VerdictStatus,
    /// The CA's validation.
    pub ca: VerdictStatus,
    /// The runs that asked, by their ids in the API.
    pub runs: Vec<String>,
}

/// One verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VerdictStatus {
    /// `passed`, `at_risk`, `failed` or `unknown`.
    pub standing: String,
    /// In a sentence.
    pub sentence: String,
    /// Vantages where it passes.
    pub passed: u32,
    /// Vantages where it fails.
    pub failed: u32,
    /// Vantages that did not answer.
    pub silent: u32,
    /// Failures that are alike, the largest groups first, at most three.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<GroupStatus>,
    /// What makes it uncertain, and what to know besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Vantages that fail alike.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    /// Six of them at most.
    pub vantages: Vec<String>,
    /// How many there are.
    pub count: u32,
    /// In our words.
    pub words: String,
    /// In the words of whose check it is.
    pub theirs: String,
    /// Likeliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseStatus>,
    /// Ways out, each with its price.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
}

/// A cause that fits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CauseStatus {
    /// Its id in docs/reference/causes.md.
    pub id: String,
    /// A few words.
    pub title: String,
    /// Whether the diagnosis named it by its evidence; otherwise it is what usually does this.
    pub diagnosed: bool,
}
