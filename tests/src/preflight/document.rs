//! The output of `parallax preflight --json`.

use serde::Deserialize;

use crate::incident_file::PASSES;

/// The part of the document that the lab needs.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PreflightDocument {
    /// One per name.
    pub hosts: Vec<HostResult>,
}

/// Result for a name.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostResult {
    /// The name.
    pub host: String,
    /// The solver that would be created.
    pub solver: String,
    /// Verdict of cert-manager's self check.
    pub self_check: Verdict,
    /// Verdict of the CA's validation.
    pub ca: Verdict,
    /// Results of the self check by vantage.
    pub self_check_answers: Vec<VantageAnswer>,
    /// Results of the CA's validation by vantage.
    pub ca_answers: Vec<VantageAnswer>,
    /// What was not checked.
    pub not_checked: Vec<String>,
}

/// One of the two verdicts.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Verdict {
    /// Its state.
    pub state: String,
    /// Its sentence.
    pub sentence: String,
    /// Failing vantages, grouped.
    pub failure_groups: Vec<VantageGroup>,
    /// Reasons for uncertainty.
    pub caveats: Vec<String>,
    /// Further findings.
    pub findings: Vec<Finding>,
}

/// Vantages that fail in the same way.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VantageGroup {
    /// The failure in Parallax's words.
    pub reason: String,
    /// The error of cert-manager or the CA.
    pub client_message: String,
    /// Causes.
    pub causes: Vec<Cause>,
    /// Remedies.
    pub remedies: Vec<crate::api_client::Remedy>,
}

/// A cause.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// Id in the catalogue.
    pub id: String,
    /// Whether the diagnosis named it.
    pub diagnosed: bool,
}

/// A further finding.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// Id in the catalogue.
    pub id: String,
    /// One-sentence text.
    pub text: String,
}

/// Result of one vantage.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct VantageAnswer {
    /// The vantage.
    pub vantage: String,
    /// Its placement.
    pub placement: String,
    /// `ok`, `failed`, `not_asked`.
    pub result: String,
    /// The kind of a failure.
    pub kind: String,
    /// Status of the response.
    pub status: Option<u16>,
    /// Total duration.
    pub total_us: Option<u64>,
}

impl VantageAnswer {
    /// Returns `n1`, `n1/host` or the name of a client outside.
    pub(super) fn name(&self) -> &str {
        let name = self.vantage.strip_suffix("/pod").unwrap_or(&self.vantage);
        name.split_once(':').map_or(name, |(_, name)| name)
    }

    /// Returns the result as a single word.
    pub(super) fn result_word(&self) -> &str {
        match self.result.as_str() {
            "ok" => PASSES,
            "failed" => &self.kind,
            other => other,
        }
    }

    pub(super) fn words(&self) -> String {
        let status = self.status.map_or(String::new(), |status| format!(" {status}"));
        let time = self
            .total_us
            .map_or(String::new(), |us| format!(" in {} ms", us / 1_000));
        let sign = if self.result == "ok" { "✓" } else { "✗" };
        let kind = if self.result == "ok" {
            ""
        } else {
            self.result_word()
        };
        format!(
            "{sign}{}{status}{time}",
            if kind.is_empty() {
                String::new()
            } else {
                format!(" {kind}")
            }
        )
    }
}
