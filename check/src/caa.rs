//! Judges whether the CAA records of a name allow a certificate for it (RFC 8659, RFC 8657).

use std::time::Duration;

use parallax_model::{
    FailureKind,
    dns::{CaaAnswer, CaaAsk, CaaAt, CaaVerdict, evaluate_caa},
};
use parallax_prober::{AcmeProblem, ProbeContext, ProblemClass, ResolverChoice, names::caa_of};
use parallax_terminal::escape;
use serde_json::{Value, json};

use super::{explanation::Explanation, finding::FindingLevel, findings::PassFindings};

/// Timeout for all queries together.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The records forbid issuance.
const FORBIDDEN: &str = "caa";
/// The records allow issuance for some accounts only.
const CAA_ACCOUNT: &str = "caa_account";
/// The records cannot be looked up.
const CAA_UNKNOWN: &str = "caa_unknown";

/// The CAA records of a name and its parent domains, with the verdict on issuance.
#[derive(Debug)]
pub(super) struct CaaRecords {
    host: String,
    issuer: String,
    lookups: Vec<CaaAt>,
    verdict: CaaVerdict,
}

impl CaaRecords {
    /// Looks up the records of a name and of all its parent domains.
    pub(super) async fn look_up(
        host: &str,
        issuer: &str,
        account_uri: Option<&str>,
        choice: &ResolverChoice,
        context: &ProbeContext,
    ) -> Self {
        let chain = caa_of(context, host, choice, TIMEOUT).await;
        let ask = CaaAsk {
            issuer,
            wildcard: false,
            method: "http-01",
            account_uri,
        };
        Self {
            host: host.to_owned(),
            issuer: issuer.to_owned(),
            verdict: evaluate_caa(&chain, ask),
            lookups: chain,
        }
    }

    fn problem(&self) -> Option<AcmeProblem> {
        let (class, detail) = self.verdict.problem(&self.host)?;
        let class = if class == "caa" {
            ProblemClass::Caa
        } else {
            ProblemClass::Dns
        };
        Some(AcmeProblem::new(class, &detail))
    }

    /// Adds a finding unless the records allow issuance.
    pub(super) fn add_findings(&self, found: &mut PassFindings) {
        let issuer = &self.issuer;
        let (level, id, summary, likely) = match &self.verdict {
            CaaVerdict::Unrestricted => return,
            CaaVerdict::Allowed { accounts, .. } if accounts.is_empty() => return,
            CaaVerdict::Allowed { name: at, accounts } => (
                FindingLevel::Warning,
                CAA_ACCOUNT,
                format!("the CAA records of {at} allow {issuer} only for the account {}", join_names(accounts)),
                "pass the account that requests the certificate with --account-uri".to_owned(),
            ),
            CaaVerdict::Forbidden { name: at, reason } => {
                let (summary, likely) = reason.explain(at, issuer);
                (FindingLevel::Failure, FORBIDDEN, escape(&summary), escape(&likely))
            }
            CaaVerdict::Unknown { name: at, kind } => (
                if *kind == FailureKind::ServFail { FindingLevel::Failure } else { FindingLevel::Warning },
                CAA_UNKNOWN,
                format!("the CAA records of {at} cannot be looked up ({}); without an answer the authority issues nothing", kind.label()),
                "the name servers of the zone fail on CAA queries, or the resolver does; query another one with --resolver".to_owned(),
            ),
        };
        let likely = vec![likely];
        found.add(
            level,
            id,
            Vec::new(),
            Explanation {
                summary,
                likely_reasons: likely,
            },
        );
    }

    /// Returns the verdict as one line of text.
    pub(super) fn summary(&self) -> String {
        let issuer = &self.issuer;
        let text = match &self.verdict {
            CaaVerdict::Unrestricted => {
                let top = self.lookups.last().map_or("", |last| &last.name);
                return format!("none up to {top}: any authority may issue");
            }
            CaaVerdict::Allowed { name: at, accounts } if accounts.is_empty() => {
                format!("{issuer} may issue, according to {at}")
            }
            CaaVerdict::Allowed { name: at, .. } => {
                format!("{issuer} may issue for some accounts, according to {at}")
            }
            CaaVerdict::Forbidden { name: at, .. } => format!("{issuer} may not issue, according to {at}"),
            CaaVerdict::Unknown { name: at, .. } => return format!("unknown for {at}"),
        };
        format!("{text} ({})", escape(&self.records()))
    }

    fn records(&self) -> String {
        let deciding = self.lookups.iter().find_map(|at| match &at.answer {
            CaaAnswer::Records(records) => Some(records),
            _ => None,
        });
        let texts: Vec<String> = deciding.into_iter().flatten().map(ToString::to_string).collect();
        texts.join("; ")
    }

    /// The error that the authority would report; `None` if it would issue.
    pub(super) fn problem_text(&self) -> Option<String> {
        self.problem()
            .map(|problem| format!("{}: {}", problem.class.label(), escape(&problem.detail)))
    }

    /// Returns the records and the verdict as JSON.
    pub(super) fn json(&self) -> Value {
        let mut value = json!({
            "issuer": escape(&self.issuer),
            "climbed": self.lookups.iter().map(|at| json!({
                "name": escape(&at.name),
                "answer": match &at.answer {
                    CaaAnswer::Records(_) => "records",
                    CaaAnswer::None => "none",
                    CaaAnswer::Failed(kind) => kind.label(),
                },
                "records": match &at.answer {
                    CaaAnswer::Records(records) => records.iter().map(|record| json!({
                        "flags": record.flags,
                        "tag": escape(&record.tag),
                        "value": escape(&record.value),
                    })).collect(),
                    _ => Vec::new(),
                },
            })).collect::<Vec<_>>(),
            "verdict": match &self.verdict {
                CaaVerdict::Unrestricted => "unrestricted",
                CaaVerdict::Allowed { .. } => "allowed",
                CaaVerdict::Forbidden { .. } => "forbidden",
                CaaVerdict::Unknown { .. } => "unknown",
            },
        });
        if let Some(acme_problem) = self.problem() {
            value["problem"] = problem(&acme_problem);
        }
        value
    }
}

/// Returns a problem document as the authority would report it.
pub(super) fn problem(acme_problem: &AcmeProblem) -> Value {
    let mut value = json!(acme_problem);
    value["detail"] = json!(escape(&acme_problem.detail));
    value
}

fn join_names(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| escape(name)).collect();
    names.join(", ")
}
