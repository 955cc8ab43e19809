//! Resetting the baseline of a target: its next responses define what counts as working.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Body of `POST /v1/baselines/reset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaselineResetRequest {
    /// The target's id, as `GET /v1/state` lists it.
    pub target: String,
}

/// Response to `POST /v1/baselines/reset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineResetAnswer {
    /// The target's id.
    pub target: String,
    /// Whether a baseline was recorded.
    pub had_baseline: bool,
}
