//! Result of a validation, in a form in which both sides can be compared.

use std::fmt;

use parallax_model::Outcome;
use parallax_prober::{ProblemClass, ValidationResult};
use serde::Deserialize;

/// Result of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The certificate would be issued.
    Valid,
    /// A problem of this type.
    Connection,
    /// As `Connection`.
    Dns,
    /// As `Connection`.
    Unauthorized,
    /// As `Connection`.
    Tls,
    /// As `Connection`.
    ServerInternal,
}

/// A verdict with its error message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// The error message; empty for a success.
    pub detail: String,
}

impl fmt::Display for ExplainedVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.verdict)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

impl ExplainedVerdict {
    /// Converts the result of a profile.
    ///
    /// # Errors
    /// If the prober could not make the probe: then there is nothing to compare.
    pub fn from_validation(validation: &ValidationResult) -> anyhow::Result<Self> {
        match (&validation.outcome, &validation.problem) {
            (Outcome::Ok { .. }, _) => Ok(Self {
                verdict: Verdict::Valid,
                detail: String::new(),
            }),
            (_, Some(problem)) => Ok(Self {
                verdict: match problem.class {
                    ProblemClass::Connection => Verdict::Connection,
                    ProblemClass::Dns => Verdict::Dns,
                    ProblemClass::Unauthorized => Verdict::Unauthorized,
                    ProblemClass::Tls => Verdict::Tls,
                    ProblemClass::ServerInternal => Verdict::ServerInternal,
                    ProblemClass::Caa => {
                        anyhow::bail!("unexpected CAA problem: a fetch checks no CAA records")
                    }
                },
                detail: problem.detail.clone(),
            }),
            (outcome, None) => anyhow::bail!("no verdict: {outcome:?} ({:?})", validation.detail),
        }
    }

    /// Converts Pebble's problem of a challenge.
    ///
    /// # Errors
    /// A problem type that Pebble does not use for validations.
    pub fn from_pebble(class: &str, detail: &str) -> anyhow::Result<Self> {
        let verdict = match class.rsplit(':').next() {
            Some("connection") => Verdict::Connection,
            Some("dns") => Verdict::Dns,
            Some("unauthorized") => Verdict::Unauthorized,
            Some("tls") => Verdict::Tls,
            Some("serverInternal") => Verdict::ServerInternal,
            _ => anyhow::bail!("unexpected problem type {class:?} of Pebble: {detail}"),
        };
        Ok(Self {
            verdict,
            detail: detail.to_owned(),
        })
    }
}
