//! The checks of an installation: facts in, verdicts out. No input, no output, no clock.

mod aggregator;
mod api_server;
mod ca;
mod echoes;
mod notifications;
mod permissions;
mod plan;
mod probers;
mod prometheus;
mod workloads;

#[cfg(test)]
mod fixtures;

use serde::Serialize;

use super::facts::{Answer, Facts};

/// State of a check. What could not be read is never ok.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckState {
    Ok,
    NotOk,
    Unknown,
    NotInstalled,
}

/// One check with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// Its name, which scripts may rely on.
    pub(super) name: &'static str,
    pub(super) state: CheckState,
    /// What was found, in one sentence.
    pub(super) evidence: String,
    /// The objects that are not in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) details: Vec<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) action: Option<String>,
}

/// State and evidence of a check, before it has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    state: CheckState,
    evidence: String,
    details: Vec<String>,
    action: Option<String>,
}

impl Finding {
    fn new(state: CheckState, evidence: impl Into<String>) -> Self {
        Self {
            state,
            evidence: evidence.into(),
            details: Vec::new(),
            action: None,
        }
    }

    fn ok(evidence: impl Into<String>) -> Self {
        Self::new(CheckState::Ok, evidence)
    }

    fn not_ok(evidence: impl Into<String>) -> Self {
        Self::new(CheckState::NotOk, evidence)
    }

    fn unknown(evidence: impl Into<String>) -> Self {
        Self::new(CheckState::Unknown, evidence)
    }

    fn not_installed(evidence: impl Into<String>) -> Self {
        Self::new(CheckState::NotInstalled, evidence)
    }

    fn with_details(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }

    fn with_action(self, action: impl Into<String>) -> Self {
        Self {
            action: Some(action.into()),
            ..self
        }
    }
}

/// A check whose facts may be missing: the error is the reason.
type CheckFunction = fn(&Facts) -> Answer<Finding>;

/// All checks, in the order in which parts of an installation depend on each other.
const CHECKS: [(&str, CheckFunction); 11] = [
    ("workloads", workloads::check),
    ("aggregator", aggregator::check),
    ("api-server", api_server::check),
    ("permissions", permissions::check),
    ("ca", ca::check),
    ("probers", probers::check),
    ("plan", plan::check),
    ("zones", echoes::check),
    ("preflight", workloads::check_preflight),
    ("notifications", notifications::check),
    ("prometheus", prometheus::check),
];

/// Judges the facts.
pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let judge = |(name, check): (&'static str, CheckFunction)| {
        let finding = check(facts).unwrap_or_else(Finding::unknown);
        Check {
            name,
            state: finding.state,
            evidence: finding.evidence,
            details: finding.details,
            action: finding.action,
        }
    };
    CHECKS.map(judge).into()
}

/// Formats a count with its noun: `1 node`, `2 nodes`.
fn count(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}
