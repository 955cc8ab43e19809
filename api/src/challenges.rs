//! Challenges that wait as the API says them. Neither token nor key is in them.

use parallax_diagnosis::verdict::Remedy;
use parallax_model::{EventTime, RunId, Vantage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preflight::CheckState;

/// Body of the answer to `GET /v1/challenges`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChallengeList {
    /// Those that wait, longest first.
    pub challenges: Vec<WaitingChallenge>,
    /// Why none are known, where they are not: cert-manager is not installed, or the right is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// A Challenge that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingChallenge {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name to be certified.
    pub host: String,
    /// Since when it waits, as far as is known.
    #[schemars(with = "i64")]
    pub since: EventTime,
    /// In cert-manager's words; empty where it says nothing.
    pub reason: String,
    /// In ours.
    pub meaning: String,
    /// What does it, likeliest first; by what is seen from every node, before that by what usually gives such a reason.
    pub causes: Vec<ChallengeCause>,
    /// What came of replaying its self check, once it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<ChallengeExplanation>,
    /// Why it was not replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_replayed: Option<String>,
}

/// A cause of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChallengeCause {
    /// Its id: `F1` and so on.
    pub id: String,
    /// A few words; empty where only the reason points to it.
    #[serde(default)]
    pub title: String,
    /// Named by evidence; otherwise it is what usually does this.
    pub diagnosed: bool,
}

/// What came of replaying a self check from every node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChallengeExplanation {
    /// When.
    #[schemars(with = "i64")]
    pub at: EventTime,
    /// The runs that asked.
    #[schemars(with = "Vec<String>")]
    pub runs: Vec<RunId>,
    /// cert-manager's check.
    pub self_check: SelfCheckReplay,
    /// The CA's, by Let's Encrypt's rules.
    pub ca: SelfCheckReplay,
    /// Where cert-manager's pod sits, and what is not known about it.
    pub seat: Vec<String>,
    /// Ways out; none where an incident says them.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub remedies: Vec<Remedy>,
    /// Whether skipping the self check is a way out, where that is a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_instead_of_self_check: Option<String>,
    /// The open incident that already names what is behind the same front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
}

/// One check, replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelfCheckReplay {
    /// How it stands.
    pub standing: CheckState,
    /// In a sentence.
    pub sentence: String,
    /// From where it passes.
    #[schemars(with = "Vec<String>")]
    pub passes: Vec<Vantage>,
    /// From where it fails, largest group first.
    pub fails: Vec<FailingVantages>,
    /// Who did not answer.
    #[schemars(with = "Vec<String>")]
    pub silent: Vec<Vantage>,
    /// What makes it uncertain.
    pub caveats: Vec<String>,
}

/// Vantages that fail alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailingVantages {
    /// Which.
    #[schemars(with = "Vec<String>")]
    pub vantages: Vec<Vantage>,
    /// In our words.
    pub words: String,
    /// In the words of whose check it is.
    pub theirs: String,
}

impl WaitingChallenge {
    /// Its likeliest cause, as a label.
    #[must_use]
    pub fn cause(&self) -> &str {
        self.causes.first().map_or("unknown", |cause| cause.id.as_str())
    }
}
