//! What the CAA records of a name mean for a certificate of it.

use std::time::Duration;

use parallax_model::{
    FailureKind,
    dns::{CaaAnswer, CaaAsk, CaaAt, CaaVerdict, judge_caa},
};
use parallax_prober::{AcmeProblem, ProbeContext, ProblemClass, ResolverChoice, names::caa_of};
use parallax_terminal::escape;
use serde_json::{Value, json};

use super::{findings::LookFindings, judge::FindingLevel, wording::Explanation};

/// Time for all questions.
const DEADLINE: Duration = Duration::from_secs(10);

/// The records forbid it.
const CAA: &str = "caa";
/// They allow it to some accounts.
const CAA_ACCOUNT: &str = "caa_account";
/// It cannot be known what they say.
const CAA_UNKNOWN: &str = "caa_unknown";

/// The records, and what they mean.
#[derive(Debug)]
pub(super) struct CaaRecords {
    host: String,
    issuer: String,
    climbed: Vec<CaaAt>,
    verdict: CaaVerdict,
}

impl CaaRecords {
    /// Asks for the records of a name and of all above it.
    pub(super) async fn of(
        host: &str,
        issuer: &str,
        account_uri: Option<&str>,
        choice: &ResolverChoice,
        context: &ProbeContext,
    ) -> Self {
        let climbed = caa_of(context, host, choice, DEADLINE).await;
        let ask = CaaAsk {
            issuer,
            wildcard: false,
            method: "http-01",
            account_uri,
        };
        Self {
            host: host.to_owned(),
            issuer: issuer.to_owned(),
            verdict: judge_caa(&climbed, ask),
            climbed,
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

    /// What is found of it.
    pub(super) fn found(&self, found: &mut LookFindings) {
        let issuer = &self.issuer;
        let (level, id, what, likely) = match &self.verdict {
            CaaVerdict::Unrestricted => return,
            CaaVerdict::Allowed { accounts, .. } if accounts.is_empty() => return,
            CaaVerdict::Allowed { at, accounts } => (
                FindingLevel::Warning,
                CAA_ACCOUNT,
                format!("the CAA records of {at} allow {issuer} for the account {} only", list(accounts)),
                "--account-uri says which account asks".to_owned(),
            ),
            CaaVerdict::Forbidden { at, why } => {
                let (what, likely) = why.words(at, issuer);
                (FindingLevel::Failure, CAA, escape(&what), escape(&likely))
            }
            CaaVerdict::Unknown { at, kind } => (
                if *kind == FailureKind::ServFail { FindingLevel::Failure } else { FindingLevel::Warning },
                CAA_UNKNOWN,
                format!("the CAA records of {at} cannot be looked up ({}), and without an answer nothing is issued", kind.label()),
                "the name servers of the zone fail on records of the type CAA, or the resolver does; --resolver asks another one".to_owned(),
            ),
        };
        let likely = vec![likely];
        found.add(level, id, Vec::new(), Explanation { what, likely });
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let issuer = &self.issuer;
        let said = match &self.verdict {
            CaaVerdict::Unrestricted => {
                let top = self.climbed.last().map_or("", |last| &last.name);
                return format!("none up to {top}: any authority may issue");
            }
            CaaVerdict::Allowed { at, accounts } if accounts.is_empty() => {
                format!("{issuer} may issue, by {at}")
            }
            CaaVerdict::Allowed { at, .. } => format!("{issuer} may issue for some accounts, by {at}"),
            CaaVerdict::Forbidden { at, .. } => format!("{issuer} may not issue, by {at}"),
            CaaVerdict::Unknown { at, .. } => return format!("not known of {at}"),
        };
        format!("{said} ({})", escape(&self.records()))
    }

    fn records(&self) -> String {
        let deciding = self.climbed.iter().find_map(|at| match &at.answer {
            CaaAnswer::Records(records) => Some(records),
            _ => None,
        });
        let said: Vec<String> = deciding.into_iter().flatten().map(ToString::to_string).collect();
        said.join("; ")
    }

    /// What the authority would say of it; absent where it would issue.
    pub(super) fn told(&self) -> Option<String> {
        self.problem()
            .map(|problem| format!("{}: {}", problem.class.label(), escape(&problem.detail)))
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let mut value = json!({
            "issuer": escape(&self.issuer),
            "climbed": self.climbed.iter().map(|at| json!({
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
        if let Some(told) = self.problem() {
            value["problem"] = problem(&told);
        }
        value
    }
}

/// A problem as the authority would report it.
pub(super) fn problem(told: &AcmeProblem) -> Value {
    let mut value = json!(told);
    value["detail"] = json!(escape(&told.detail));
    value
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| escape(name)).collect();
    names.join(", ")
}
