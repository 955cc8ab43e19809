//! Results of a preflight's checks.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// The check passes.
    Passed,
    /// The check passes where cert-manager's Pod runs now, but fails elsewhere.
    AtRisk,
    /// The check fails.
    Failed,
    /// The result is unknown.
    Unknown,
}

/// A remark in addition to the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Id in the catalogue.
    pub id: Cow<'static, str>,
    /// The remark in one sentence.
    pub text: String,
}
