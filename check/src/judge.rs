//! What the looks at one URL add up to. Pure.
//!
//! The question is whether a client gets its answer. One that tries addresses in turn (every browser, curl, Go) goes on
//! after a failed *connect* and only then: an address that cannot be connected to beside one that can is a warning, one
//! that accepts and then fails is a failure, because a client that lands there has no second try.

use std::net::SocketAddr;

use parallax_model::{FailureKind, Outcome, Phase};
use parallax_prober::{FamilyAnswer, ValidationResult};

use super::{
    caa::CaaRecords,
    facts::FailureFacts,
    findings::{self, LookFindings},
    round::{AddressResult, CheckRound},
    subject::{CheckAction, CheckSubject},
    wording::{Explanation, explain, explain_own},
};

/// What became of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Works,
    /// It works for a client that tries all addresses; something is wrong all the same.
    Warned,
    /// It could not be asked.
    Unknown,
    Fails,
}

impl Verdict {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::Warned => "warning",
            Self::Unknown => "unknown",
            Self::Fails => "failed",
        }
    }
}

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FindingLevel {
    Note,
    Warning,
    /// This machine could not ask.
    Unknown,
    Failure,
}

impl FindingLevel {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
            Self::Failure => "failure",
        }
    }

    const fn verdict(self) -> Verdict {
        match self {
            Self::Note => Verdict::Works,
            Self::Warning => Verdict::Warned,
            Self::Unknown => Verdict::Unknown,
            Self::Failure => Verdict::Fails,
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: FindingLevel,
    /// A stable word: the kind of failure, or what differs.
    pub(super) id: String,
    /// The addresses it concerns; none where it concerns the name.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) said: Explanation,
    /// Looks in which it was found.
    pub(super) times: u32,
}

/// What is to be said of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlJudgement {
    pub(super) verdict: Verdict,
    pub(super) findings: Vec<Finding>,
    /// Looks in which a client got its answer.
    pub(super) good: u32,
    pub(super) looks: u32,
}

/// What is held against the looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct JudgementRules {
    /// A dead address or a resolver that disagrees is a failure.
    pub(super) every_address: bool,
    /// Seconds since the Unix epoch.
    pub(super) now: i64,
}

/// Judges looks at every address.
pub(super) fn rounds(subject: &CheckSubject, rounds: &[CheckRound], rules: JudgementRules) -> UrlJudgement {
    let looks: Vec<LookFindings> = rounds.iter().map(|round| one(subject, round, rules)).collect();
    sum(looks, rules)
}

/// Judges fetches of another client.
pub(super) fn fetches(
    subject: &CheckSubject,
    fetched: &[ValidationResult],
    caa: Option<&CaaRecords>,
    rules: JudgementRules,
) -> UrlJudgement {
    let looks = fetched
        .iter()
        .map(|one| {
            let mut found = LookFindings::default();
            let facts = FailureFacts {
                detail: one.detail.as_deref(),
                ..of_subject(subject, rules.now)
            };
            let facts = if one.hops.is_empty() {
                let tried = one.resolution.as_ref().map(|resolution| &*resolution.tried);
                FailureFacts {
                    tried: tried.unwrap_or_default(),
                    ..facts
                }
            } else {
                // Which one that is does not come back with the rest.
                FailureFacts {
                    host: "the host it is redirected to",
                    ..facts
                }
            };
            found.outcome(&one.outcome, facts, Vec::new(), FindingLevel::Failure);
            findings::of_dials(one, &mut found);
            if let Some(caa) = caa {
                caa.found(&mut found);
            }
            found
        })
        .collect();
    sum(looks, rules)
}

fn sum(looks: Vec<LookFindings>, rules: JudgementRules) -> UrlJudgement {
    let mut judgement = UrlJudgement {
        verdict: Verdict::Works,
        findings: Vec::new(),
        good: 0,
        looks: u32::try_from(looks.len()).unwrap_or(u32::MAX),
    };
    if looks.is_empty() {
        judgement.verdict = Verdict::Unknown;
    }
    for look in looks {
        let mut verdict = Verdict::Works;
        for mut finding in look.into_list() {
            if rules.every_address
                && finding.level == FindingLevel::Warning
                && STRICT.contains(&finding.id.as_str())
            {
                finding.level = FindingLevel::Failure;
            }
            verdict = verdict.max(finding.level.verdict());
            match judgement.findings.iter_mut().find(|known| again(known, &finding)) {
                Some(known) => known.times += 1,
                None => judgement.findings.push(finding),
            }
        }
        judgement.good += u32::from(verdict <= Verdict::Warned);
        judgement.verdict = judgement.verdict.max(verdict);
    }
    // The gravest first, in the order they were found.
    judgement
        .findings
        .sort_by_key(|finding| std::cmp::Reverse(finding.level));
    judgement
}

/// Whether a later look shows the same once more. What is said of an address may differ in its details; what is said of
/// the name is all there is to tell one finding from another.
fn again(known: &Finding, new: &Finding) -> bool {
    (&known.id, &known.addresses, known.level) == (&new.id, &new.addresses, new.level)
        && (!known.addresses.is_empty() || known.said == new.said)
}

/// Warnings that `--every-address` makes failures of.
const STRICT: &[&str] = &[
    findings::DEAD_ADDRESS,
    findings::RESOLVERS_DIFFER,
    findings::RESOLVER_FAILS,
    findings::FAMILY_FAILS,
    findings::ANSWERS_DIFFER,
];

fn one(subject: &CheckSubject, round: &CheckRound, rules: JudgementRules) -> LookFindings {
    let mut found = LookFindings::default();
    let facts = of_subject(subject, rules.now);
    match round.lookup.failure() {
        Some(answer) => unresolved(&answer, round, facts, &mut found),
        None if round.lacks.is_some() => {
            let family = round.lacks.map_or("", super::round::AddressFamily::words);
            found.add(
                FindingLevel::Failure,
                "no_address",
                Vec::new(),
                Explanation {
                    what: format!("the name has no {family} address"),
                    likely: vec![format!(
                        "--{} asks for that family alone",
                        family.to_ascii_lowercase()
                    )],
                },
            );
        }
        None if matches!(subject.what, CheckAction::Name(_)) => {}
        None => addresses(subject, round, rules, &mut found),
    }
    findings::of_names(&round.lookup, &mut found);
    findings::of_answers(subject, round, rules.now, &mut found);
    found
}

fn unresolved(answer: &FamilyAnswer, round: &CheckRound, facts: FailureFacts<'_>, found: &mut LookFindings) {
    let facts = FailureFacts {
        tried: round.lookup.tried(),
        phase: Some(Phase::Resolve),
        ..facts
    };
    let outcome = match answer {
        FamilyAnswer::NotAsked { own, .. } => Outcome::NotAsked { own: *own },
        FamilyAnswer::Failed { kind, .. } => failed(kind.clone()),
        FamilyAnswer::Addresses(_) | FamilyAnswer::Unneeded => failed(FailureKind::NoAddress),
    };
    let detail = match answer {
        FamilyAnswer::NotAsked { detail, .. } | FamilyAnswer::Failed { detail, .. } => detail.as_deref(),
        _ => None,
    };
    found.outcome(
        &outcome,
        FailureFacts { detail, ..facts },
        Vec::new(),
        FindingLevel::Failure,
    );
}

fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failed {
        phase: Phase::Resolve,
        kind,
        status: None,
    }
}

/// How far an address lets a client come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressReach {
    Answer,
    /// Not even connect, so that a client tries another one.
    TryAnother,
    Down,
    /// Unknown: this machine could not ask.
    Unasked,
}

fn lets(subject: &CheckSubject, one: &AddressResult) -> AddressReach {
    match &one.outcome {
        Outcome::Ok { .. } => AddressReach::Answer,
        // Behind a redirect to another host it is that one's address that failed, and trying ours again does not help.
        Outcome::Failed {
            phase: Phase::Connect,
            ..
        } if host_of(&one.at) == Some(subject.host()) => AddressReach::TryAnother,
        Outcome::Failed { .. } => AddressReach::Down,
        Outcome::NotAsked { .. } => AddressReach::Unasked,
    }
}

fn addresses(subject: &CheckSubject, round: &CheckRound, rules: JudgementRules, found: &mut LookFindings) {
    let used = round.lookup.used_by_programs();
    let is_used = |one: &AddressResult| used.contains(&one.address.ip());
    // The hosts file makes those of DNS unused, unless a family is left out and nothing else remains.
    let all = !round.reached.iter().any(is_used);
    let counts = |one: &&AddressResult| all || is_used(one);
    let some_answer = round
        .reached
        .iter()
        .filter(counts)
        .any(|one| lets(subject, one) == AddressReach::Answer);
    for one in &round.reached {
        let level = match (lets(subject, one), some_answer, counts(&one)) {
            (AddressReach::Answer, _, _) => continue,
            (AddressReach::Unasked, true, _) if !rules.every_address => FindingLevel::Note,
            (AddressReach::Unasked, ..) => FindingLevel::Unknown,
            (AddressReach::TryAnother, true, _) | (_, _, false) => FindingLevel::Warning,
            (AddressReach::TryAnother | AddressReach::Down, _, true) => FindingLevel::Failure,
        };
        let facts = of_reached(subject, one, rules.now);
        if level == FindingLevel::Warning {
            dead_beside_live(one, facts, found);
        } else {
            found.outcome(&one.outcome, facts, vec![one.address], level);
        }
    }
}

/// One address that fails where another one serves: a finding of its own, whatever the reason.
fn dead_beside_live(one: &AddressResult, facts: FailureFacts<'_>, found: &mut LookFindings) {
    let explained = in_words(&one.outcome, facts);
    let family = if one.address.is_ipv6() { "IPv6" } else { "IPv4" };
    let (verb, cost) = match &one.outcome {
        Outcome::Failed {
            kind: FailureKind::ConnectTimeout,
            ..
        } => (
            "does not answer",
            "clients that prefer it wait before they try another address",
        ),
        _ => (
            "does not work",
            "clients that prefer it lose a try, and those that try no other address fail",
        ),
    };
    found.add(
        FindingLevel::Warning,
        findings::DEAD_ADDRESS,
        vec![one.address],
        Explanation {
            what: format!("{family} {verb}: {}; {cost}", explained.what),
            likely: explained.likely,
        },
    );
}

/// A finished probe's outcome in words.
pub(super) fn in_words(outcome: &Outcome, facts: FailureFacts<'_>) -> Explanation {
    match outcome {
        Outcome::Ok { .. } => Explanation {
            what: "ok".to_owned(),
            likely: Vec::new(),
        },
        Outcome::Failed { phase, kind, status } => explain(
            kind,
            &FailureFacts {
                phase: Some(*phase),
                status: *status,
                ..facts
            },
        ),
        Outcome::NotAsked { own } => explain_own(*own, facts.detail),
    }
}

fn of_subject(subject: &CheckSubject, now: i64) -> FailureFacts<'_> {
    FailureFacts {
        host: subject.host(),
        port: subject.port(),
        now,
        ..FailureFacts::default()
    }
}

/// Everything that is known of an address.
pub(super) fn of_reached<'a>(
    subject: &'a CheckSubject,
    one: &'a AddressResult,
    now: i64,
) -> FailureFacts<'a> {
    let last = one.legs.last().map(|leg| &leg.result);
    // Behind a redirect it is another host's certificate, and another address.
    let first_leg = one.legs.len() <= 1;
    FailureFacts {
        host: host_of(&one.at).unwrap_or_else(|| subject.host()),
        address: if first_leg {
            Some(one.address)
        } else {
            last.and_then(|last| last.front).map(|front| front.address)
        },
        detail: one.detail.as_deref(),
        local: first_leg && one.local,
        ttl: one
            .ttl
            .as_ref()
            .and_then(|ttl| ttl.as_ref().ok())
            .filter(|_| first_leg),
        tls: last.and_then(|last| last.tls.as_ref()),
        times: last.map(|last| &last.times),
        server: last.and_then(|last| last.answer.as_ref()?.server.as_deref()),
        otherwise: one.otherwise,
        ..of_subject(subject, now)
    }
}

/// The host of a URL in the form the URL library writes.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => authority.split(':').next(),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
