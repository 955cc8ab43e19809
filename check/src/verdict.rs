//! Computes the verdict on one URL from all passes. Pure.
//!
//! The criterion is whether a client gets its answer. A client that tries addresses in turn (every browser, curl, Go)
//! moves on to the next one only after a failed *connect*. An address that cannot be connected to is therefore a
//! warning if another one works. An address that accepts and then fails is a failure, because a client that picks it
//! does not try another one.

use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{FamilyAnswer, ValidationResult};

use super::{
    caa::CaaRecords,
    explanation::Explanation,
    facts::FailureFacts,
    finding::{Finding, FindingLevel},
    findings::{self, PassFindings},
    outcome::{host_of, in_words, of_reached, of_subject},
    round::{AddressResult, CheckRound},
    subject::{CheckAction, CheckSubject},
};

/// The verdict on a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Works,
    /// It works for a client that tries all addresses, but something is wrong.
    WorksWithWarning,
    /// This machine could not probe it.
    Unknown,
    Fails,
}

impl Verdict {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::WorksWithWarning => "warning",
            Self::Unknown => "unknown",
            Self::Fails => "failed",
        }
    }
}

impl FindingLevel {
    const fn verdict(self) -> Verdict {
        match self {
            Self::Note => Verdict::Works,
            Self::Warning => Verdict::WorksWithWarning,
            Self::Unknown => Verdict::Unknown,
            Self::Failure => Verdict::Fails,
        }
    }
}

/// The verdict on a URL with its findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlJudgement {
    pub(super) verdict: Verdict,
    pub(super) findings: Vec<Finding>,
    /// Passes in which a client got its answer.
    pub(super) successful_passes: u32,
    /// Passes made.
    pub(super) looks: u32,
}

/// The settings of the judgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct JudgementRules {
    /// Whether a dead address or a disagreeing resolver is a failure instead of a warning.
    pub(super) every_address: bool,
    /// Seconds since the Unix epoch.
    pub(super) now: i64,
}

/// Judges passes that probed every address.
pub(super) fn judge_rounds(
    subject: &CheckSubject,
    rounds: &[CheckRound],
    rules: JudgementRules,
) -> UrlJudgement {
    let looks: Vec<PassFindings> = rounds
        .iter()
        .map(|round| judge_round(subject, round, rules))
        .collect();
    aggregate(looks, rules)
}

/// Judges fetches made with a client profile.
pub(super) fn judge_fetches(
    subject: &CheckSubject,
    fetched: &[ValidationResult],
    caa: Option<&CaaRecords>,
    rules: JudgementRules,
) -> UrlJudgement {
    let passes = fetched
        .iter()
        .map(|one| {
            let mut found = PassFindings::default();
            let facts = FailureFacts {
                detail: one.detail.as_deref(),
                ..of_subject(subject, rules.now)
            };
            let facts = if one.hops.is_empty() {
                let tried = one.resolution.as_ref().map(|resolution| &*resolution.tried);
                FailureFacts {
                    tried_names: tried.unwrap_or_default(),
                    ..facts
                }
            } else {
                // The result does not contain the host of a failed redirect.
                FailureFacts {
                    host: "the host it is redirected to",
                    ..facts
                }
            };
            found.add_outcome(&one.outcome, facts, Vec::new(), FindingLevel::Failure);
            findings::check_dials(one, &mut found);
            if let Some(caa) = caa {
                caa.add_findings(&mut found);
            }
            found
        })
        .collect();
    aggregate(passes, rules)
}

fn aggregate(looks: Vec<PassFindings>, rules: JudgementRules) -> UrlJudgement {
    let mut judgement = UrlJudgement {
        verdict: Verdict::Works,
        findings: Vec::new(),
        successful_passes: 0,
        looks: u32::try_from(looks.len()).unwrap_or(u32::MAX),
    };
    if looks.is_empty() {
        judgement.verdict = Verdict::Unknown;
    }
    for look in looks {
        let mut verdict = Verdict::Works;
        for mut finding in look.into_findings() {
            if rules.every_address
                && finding.level == FindingLevel::Warning
                && EVERY_ADDRESS_FAILURES.contains(&finding.id.as_str())
            {
                finding.level = FindingLevel::Failure;
            }
            verdict = verdict.max(finding.level.verdict());
            match judgement
                .findings
                .iter_mut()
                .find(|known| is_same_finding(known, &finding))
            {
                Some(known) => known.times += 1,
                None => judgement.findings.push(finding),
            }
        }
        judgement.successful_passes += u32::from(verdict <= Verdict::WorksWithWarning);
        judgement.verdict = judgement.verdict.max(verdict);
    }
    // A stable sort: most severe first, then in the order of discovery.
    judgement
        .findings
        .sort_by_key(|finding| std::cmp::Reverse(finding.level));
    judgement
}

/// Whether a finding of a later pass repeats a known one. The text about an address may differ in details between
/// passes; findings about the name are told apart by their text only.
fn is_same_finding(known: &Finding, new: &Finding) -> bool {
    (&known.id, &known.addresses, known.level) == (&new.id, &new.addresses, new.level)
        && (!known.addresses.is_empty() || known.said == new.said)
}

/// Warnings that `--every-address` turns into failures.
const EVERY_ADDRESS_FAILURES: &[&str] = &[
    findings::DEAD_ADDRESS,
    findings::RESOLVERS_DIFFER,
    findings::RESOLVER_FAILS,
    findings::FAMILY_FAILS,
    findings::ANSWERS_DIFFER,
];

fn judge_round(subject: &CheckSubject, round: &CheckRound, rules: JudgementRules) -> PassFindings {
    let mut found = PassFindings::default();
    let facts = of_subject(subject, rules.now);
    match round.lookup.failure() {
        Some(answer) => judge_unresolved(&answer, round, facts, &mut found),
        None if round.missing_family.is_some() => {
            let family = round
                .missing_family
                .map_or("", super::round_options::AddressFamily::words);
            found.add(
                FindingLevel::Failure,
                "no_address",
                Vec::new(),
                Explanation {
                    summary: format!("the name has no {family} address"),
                    likely_reasons: vec![format!(
                        "--{} restricts the check to that family",
                        family.to_ascii_lowercase()
                    )],
                },
            );
        }
        None if matches!(subject.action, CheckAction::Name(_)) => {}
        None => judge_addresses(subject, round, rules, &mut found),
    }
    findings::check_names(&round.lookup, &mut found);
    findings::check_addresses(subject, round, rules.now, &mut found);
    found
}

fn judge_unresolved(
    answer: &FamilyAnswer,
    round: &CheckRound,
    facts: FailureFacts<'_>,
    found: &mut PassFindings,
) {
    let facts = FailureFacts {
        tried_names: round.lookup.tried(),
        phase: Some(Phase::Resolve),
        ..facts
    };
    let outcome = match answer {
        FamilyAnswer::NotQueried { own, .. } => Outcome::NotProbed { fault: *own },
        FamilyAnswer::Failed { kind, .. } => resolve_failure(kind.clone()),
        FamilyAnswer::Addresses(_) | FamilyAnswer::NotNeeded => resolve_failure(FailureKind::NoAddress),
    };
    let detail = match answer {
        FamilyAnswer::NotQueried { detail, .. } | FamilyAnswer::Failed { detail, .. } => detail.as_deref(),
        _ => None,
    };
    found.add_outcome(
        &outcome,
        FailureFacts { detail, ..facts },
        Vec::new(),
        FindingLevel::Failure,
    );
}

fn resolve_failure(kind: FailureKind) -> Outcome {
    Outcome::Failed {
        phase: Phase::Resolve,
        kind,
        status: None,
    }
}

/// How far a client gets with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressReach {
    Responds,
    /// The connect fails, so a client tries another address.
    ConnectFails,
    /// The connection fails later, so a client does not try another address.
    FailsAfterConnect,
    /// Unknown: this machine could not probe.
    NotProbed,
}

fn address_reach(subject: &CheckSubject, one: &AddressResult) -> AddressReach {
    match &one.outcome {
        Outcome::Ok { .. } => AddressReach::Responds,
        // After a redirect to another host, an address of that host failed, and another address of this one does not
        // help.
        Outcome::Failed {
            phase: Phase::Connect,
            ..
        } if host_of(&one.final_url) == Some(subject.host()) => AddressReach::ConnectFails,
        Outcome::Failed { .. } => AddressReach::FailsAfterConnect,
        Outcome::NotProbed { .. } => AddressReach::NotProbed,
    }
}

fn judge_addresses(
    subject: &CheckSubject,
    round: &CheckRound,
    rules: JudgementRules,
    found: &mut PassFindings,
) {
    let used = round.lookup.effective_addresses();
    let is_used = |one: &AddressResult| used.contains(&one.address.ip());
    // Programs do not use the addresses of DNS if the hosts file has some. They decide only if none of the hosts file's
    // addresses was probed (`--ipv4`, `--ipv6`).
    let all = !round.reached.iter().any(is_used);
    let counts = |one: &&AddressResult| all || is_used(one);
    let some_answer = round
        .reached
        .iter()
        .filter(counts)
        .any(|one| address_reach(subject, one) == AddressReach::Responds);
    for one in &round.reached {
        let level = match (address_reach(subject, one), some_answer, counts(&one)) {
            (AddressReach::Responds, _, _) => continue,
            (AddressReach::NotProbed, true, _) if !rules.every_address => FindingLevel::Note,
            (AddressReach::NotProbed, ..) => FindingLevel::Unknown,
            (AddressReach::ConnectFails, true, _) | (_, _, false) => FindingLevel::Warning,
            (AddressReach::ConnectFails | AddressReach::FailsAfterConnect, _, true) => FindingLevel::Failure,
        };
        let facts = of_reached(subject, one, rules.now);
        if level == FindingLevel::Warning {
            add_dead_address(one, facts, found);
        } else {
            found.add_outcome(&one.outcome, facts, vec![one.address], level);
        }
    }
}

/// Adds an address that fails while another one works. Its id does not depend on the failure kind.
fn add_dead_address(one: &AddressResult, facts: FailureFacts<'_>, found: &mut PassFindings) {
    let explained = in_words(&one.outcome, facts);
    let family = if one.address.is_ipv6() { "IPv6" } else { "IPv4" };
    let (verb, cost) = match &one.outcome {
        Outcome::Failed {
            kind: FailureKind::ConnectTimeout,
            ..
        } => (
            "does not respond",
            "clients that prefer it wait before they try another address",
        ),
        _ => (
            "does not work",
            "clients that prefer it lose an attempt, and clients that try no other address fail",
        ),
    };
    found.add(
        FindingLevel::Warning,
        findings::DEAD_ADDRESS,
        vec![one.address],
        Explanation {
            summary: format!("{family} {verb}: {}; {cost}", explained.summary),
            likely_reasons: explained.likely_reasons,
        },
    );
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
