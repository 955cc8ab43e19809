//! How a validation ended, in a form in which the two can be compared.

use std::fmt;

use parallax_model::Outcome;
use parallax_prober::{ProblemClass, ValidationResult};
use serde::Deserialize;

/// How a validation ended.
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

/// A verdict with the sentence that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// The sentence; empty for a success.
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
    /// What a profile came to.
    ///
    /// # Errors
    /// Where the prober could not ask: then there is nothing to compare.
    pub fn of(validation: &ValidationResult) -> anyhow::Result<Self> {
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
                    ProblemClass::Caa => anyhow::bail!("a fetch looks at no CAA record"),
                },
                detail: problem.detail.clone(),
            }),
            (outcome, None) => anyhow::bail!("no verdict: {outcome:?} ({:?})", validation.detail),
        }
    }

    /// What Pebble said of a challenge.
    ///
    /// # Errors
    /// A type that it does not give for a validation.
    pub fn by_pebble(class: &str, detail: &str) -> anyhow::Result<Self> {
        let verdict = match class.rsplit(':').next() {
            Some("connection") => Verdict::Connection,
            Some("dns") => Verdict::Dns,
            Some("unauthorized") => Verdict::Unauthorized,
            Some("tls") => Verdict::Tls,
            Some("serverInternal") => Verdict::ServerInternal,
            _ => anyhow::bail!("Pebble gave a problem of the type {class:?}: {detail}"),
        };
        Ok(Self {
            verdict,
            detail: detail.to_owned(),
        })
    }
}
