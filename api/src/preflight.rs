//! Verdict of one check of a preflight.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a check stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// It passes.
    Passed,
    /// It passes where cert-manager's pod is now, and fails elsewhere.
    AtRisk,
    /// It fails.
    Failed,
    /// It cannot be told.
    Unknown,
}

/// Something to know besides the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Id in the catalogue.
    pub id: Cow<'static, str>,
    /// In a sentence.
    pub text: String,
}
