//! Waiting ACME challenges in the API. They contain neither token nor key.

use parallax_diagnosis::verdict::Remedy;
use parallax_model::{EventTime, RunId, Vantage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preflight::CheckState;

/// Response to `GET /v1/challenges`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChallengeList {
    /// The waiting challenges, longest wait first.
    pub challenges: Vec<WaitingChallenge>,
    /// Why challenges are unknown: cert-manager is not installed, or the permission is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_because: Option<String>,
}

/// A Challenge that has not been completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingChallenge {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name to be certified.
    pub host: String,
    /// When it began to wait, as far as is known.
    #[schemars(with = "i64")]
    pub since: EventTime,
    /// The reason that cert-manager gives; empty if it gives none.
    pub reason: String,
    /// What the reason means.
    pub meaning: String,
    /// Possible causes, likeliest first: from the replay if there is one, otherwise the usual causes of such
    /// a reason.
    pub causes: Vec<ChallengeCause>,
    /// Result of replaying its self check from every node, if it was replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<ChallengeExplanation>,
    /// Why the self check was not replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_replayed: Option<String>,
}

/// A cause of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChallengeCause {
    /// Its id: `F1` and so on.
    pub id: String,
    /// A short title; empty if only the reason points to this cause.
    #[serde(default)]
    pub title: String,
    /// Whether evidence confirms the cause; otherwise it is a usual cause of the reason.
    pub diagnosed: bool,
}

/// Result of replaying a self check from every node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChallengeExplanation {
    /// Time of the replay.
    #[schemars(with = "i64")]
    pub replayed_at: EventTime,
    /// The runs that replayed the check.
    #[schemars(with = "Vec<String>")]
    pub runs: Vec<RunId>,
    /// cert-manager's self check.
    pub self_check: SelfCheckReplay,
    /// The CA's validation, by Let's Encrypt's rules.
    pub ca: SelfCheckReplay,
    /// The node and network of cert-manager's Pod, and what is unknown about them.
    pub placement: Vec<String>,
    /// Suggested fixes; empty if an incident contains them.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub remedies: Vec<Remedy>,
    /// Whether skipping the self check would help, if that is in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_instead_of_self_check: Option<String>,
    /// The open incident that already explains failures behind the same front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
}

/// The result of one replayed check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelfCheckReplay {
    /// State of the check.
    pub state: CheckState,
    /// The result in one sentence.
    pub sentence: String,
    /// Vantages where it passes.
    #[schemars(with = "Vec<String>")]
    pub passing: Vec<Vantage>,
    /// Vantages where it fails, largest group first.
    pub failing: Vec<FailingVantages>,
    /// Vantages that did not answer.
    #[schemars(with = "Vec<String>")]
    pub silent: Vec<Vantage>,
    /// Limits of the result.
    pub caveats: Vec<String>,
}

/// Vantages with the same failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailingVantages {
    /// The vantages.
    #[schemars(with = "Vec<String>")]
    pub vantages: Vec<Vantage>,
    /// Description of the failure.
    pub description: String,
    /// The error that cert-manager or the CA reports for it.
    pub reported_error: String,
}

impl WaitingChallenge {
    /// The id of its likeliest cause, as a label.
    #[must_use]
    pub fn cause(&self) -> &str {
        self.causes.first().map_or("unknown", |cause| cause.id.as_str())
    }
}
