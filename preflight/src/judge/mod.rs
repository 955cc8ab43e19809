//! Two verdicts on what all vantages saw of one host: cert-manager's self check and the CA's validation. They are never
//! merged, and what is not known is never fine.
//!
//! The self check is one pod's: where that pod is decides, and what is different about it can make the answer of a
//! prober beside it worth nothing. The CA stands outside: what fails on the way out of a node says nothing about it,
//! what a server answers does.

mod authority;
mod causes;
mod self_check;

use std::{collections::BTreeMap, net::IpAddr};

use parallax_api::{
    names::{NameProblem, NameVerdict},
    preflight::{CheckState, Finding},
};
use parallax_diagnosis::verdict::{Remedy, Verdict as Diagnosed};
use parallax_model::{
    ChallengeClient, ChallengeSight, FailureKind, Micros, Network, NodeName, Outcome, Phase, Placement,
    Vantage,
};
use serde::Serialize;

use super::wording::{authority_says, self_check_says};

/// Whose check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by", content = "client")]
pub enum CheckKind {
    /// cert-manager's own, before it tells the CA.
    SelfCheck,
    /// The CA's.
    Ca(ChallengeClient),
}

/// What one vantage saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VantageAnswer {
    /// From where.
    pub vantage: Vantage,
    /// How it sits to the entry of what it connected to.
    pub placement: Placement,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What it saw on its way.
    pub sight: ChallengeSight,
    /// The whole of it.
    #[serde(rename = "total_us", skip_serializing_if = "Option::is_none")]
    pub total: Option<Micros>,
}

/// Everything that one check is judged by.
#[derive(Debug, Clone)]
pub struct CheckInput<'a> {
    /// Whose.
    pub check: CheckKind,
    /// What was fetched.
    pub url: &'a str,
    /// Whether the key authorization was served and compared; without it only the way there was.
    pub with_key: bool,
    /// Whether the name was resolved as the public sees it.
    pub public_names: bool,
    /// What came back.
    pub answers: &'a [VantageAnswer],
    /// Who was asked and did not answer.
    pub silent: &'a [Vantage],
    /// What the diagnosis says of the same probes.
    pub diagnosed: Option<&'a Diagnosed>,
    /// The node of cert-manager's pod, where it is known.
    pub seat: Option<&'a NodeName>,
    /// Whether that pod is in its node's network.
    pub seat_in_host_network: bool,
    /// Why the answer of a prober beside that pod is not the pod's own.
    pub differs: &'a [String],
    /// What the facts of the name mean, where they were asked for.
    pub names: Option<&'a NameVerdict>,
}

/// A cause that fits a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Id in the catalogue.
    pub id: String,
    /// A few words.
    pub title: String,
    /// Whether the diagnosis named it by its evidence; otherwise it is what usually does this.
    pub diagnosed: bool,
}

/// Vantages that fail in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureGroup {
    /// Who.
    pub vantages: Vec<Vantage>,
    /// The address that was tried last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// How far they came.
    pub phase: Phase,
    /// What became of it.
    pub kind: FailureKind,
    /// The status that came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// In our words.
    pub words: String,
    /// In the words of whose check it is.
    pub theirs: String,
    /// Likeliest first.
    pub causes: Vec<Cause>,
    /// Ways out.
    pub remedies: Vec<Remedy>,
}

/// One verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whose check.
    pub check: CheckKind,
    /// How it stands.
    pub standing: CheckState,
    /// In one sentence.
    pub sentence: String,
    /// Where it passes.
    pub passed: Vec<Vantage>,
    /// Where it fails, largest group first.
    pub failing: Vec<FailureGroup>,
    /// What about the name itself fails it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<NameProblem>,
    /// Who did not answer, or could not ask.
    pub silent: Vec<Vantage>,
    /// What makes it uncertain.
    pub caveats: Vec<String>,
    /// What to know besides.
    pub findings: Vec<Finding>,
}

/// Both verdicts on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostVerdict {
    /// The name.
    pub host: String,
    /// cert-manager's.
    pub self_check: Verdict,
    /// The CA's.
    pub ca: Verdict,
    /// What nobody looked at.
    pub not_checked: Vec<String>,
}

/// 0 both pass, 1 one fails, 3 one cannot be told and none fails. `strict` counts what passes only by where
/// cert-manager's pod happens to be as failing.
#[must_use]
pub fn exit_code<'a>(judged: impl IntoIterator<Item = &'a HostVerdict>, strict: bool) -> u8 {
    let standings: Vec<CheckState> = judged
        .into_iter()
        .flat_map(|judged| [judged.self_check.standing, judged.ca.standing])
        .collect();
    let any = |standing| standings.contains(&standing);
    if any(CheckState::Failed) || (strict && any(CheckState::AtRisk)) {
        1
    } else if any(CheckState::Unknown) || standings.is_empty() {
        3
    } else {
        0
    }
}

/// The verdict on one check.
#[must_use]
pub fn judge(asked: &CheckInput<'_>) -> Verdict {
    let passed: Vec<Vantage> = of(asked, |outcome| matches!(outcome, Outcome::Ok { .. }));
    let failing = groups(asked);
    let mut silent = asked.silent.to_vec();
    silent.extend(of(asked, |outcome| matches!(outcome, Outcome::NotAsked { .. })));
    silent.sort();
    let mut caveats = Vec::new();
    let (standing, sentence) = match asked.check {
        CheckKind::SelfCheck => self_check::judge(asked, &passed, &failing, &silent, &mut caveats),
        CheckKind::Ca(_) => authority::judge(asked, &passed, &failing, &silent, &mut caveats),
    };
    let mut verdict = Verdict {
        check: asked.check,
        standing,
        sentence,
        passed,
        failing,
        problems: Vec::new(),
        silent,
        caveats,
        findings: causes::findings(asked),
    };
    if let Some(names) = asked.names {
        authority::of_the_name(&mut verdict, names);
    }
    verdict
}

fn of(asked: &CheckInput<'_>, is: impl Fn(&Outcome) -> bool) -> Vec<Vantage> {
    let mut vantages: Vec<Vantage> = asked
        .answers
        .iter()
        .filter(|answer| is(&answer.outcome))
        .map(|answer| answer.vantage.clone())
        .collect();
    vantages.sort();
    vantages
}

/// How something failed: what makes two failures one.
type FailureManner = (Phase, FailureKind, Option<u16>, Option<IpAddr>);

/// What failed alike, largest first.
fn groups(asked: &CheckInput<'_>) -> Vec<FailureGroup> {
    let mut alike: BTreeMap<FailureManner, Vec<&VantageAnswer>> = BTreeMap::new();
    for answer in asked.answers {
        if let Outcome::Failed { phase, kind, status } = &answer.outcome {
            let address = last_dial(&answer.sight);
            alike
                .entry((*phase, kind.clone(), *status, address))
                .or_default()
                .push(answer);
        }
    }
    let mut groups: Vec<FailureGroup> = alike
        .into_iter()
        .map(|((phase, kind, status, address), mut members)| {
            members.sort_by(|a, b| a.vantage.cmp(&b.vantage));
            let first = members[0];
            let (theirs, words) = (theirs(asked, first), words(&kind, phase, status, address, first));
            let (causes, remedies) = causes::of(asked, phase, &kind, status, &members);
            FailureGroup {
                vantages: members.iter().map(|member| member.vantage.clone()).collect(),
                address,
                phase,
                kind,
                status,
                words,
                theirs,
                causes,
                remedies,
            }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.vantages.len()));
    groups
}

fn last_dial(sight: &ChallengeSight) -> Option<IpAddr> {
    let last = sight.dials.iter().rfind(|dial| !dial.overtaken);
    last.map(|dial| dial.address.ip())
}

fn theirs(asked: &CheckInput<'_>, answer: &VantageAnswer) -> String {
    match asked.check {
        CheckKind::SelfCheck => {
            self_check_says(&answer.outcome, &answer.sight, asked.url).unwrap_or_default()
        }
        CheckKind::Ca(client) => authority_says(client, &answer.outcome, &answer.sight, asked.url)
            .map(|(problem, detail)| format!("{problem}: {detail}"))
            .unwrap_or_default(),
    }
}

fn words(
    kind: &FailureKind,
    phase: Phase,
    status: Option<u16>,
    address: Option<IpAddr>,
    answer: &VantageAnswer,
) -> String {
    let mut text = kind.words().to_owned();
    if let Some(status) = status {
        text = format!("{text} ({status})");
    }
    if phase != Phase::Resolve
        && let Some(address) = address
    {
        text = format!("{text} at {address}");
    }
    let redirects = answer.sight.hops.len();
    if redirects > 0 {
        let noun = if redirects == 1 { "redirect" } else { "redirects" };
        text = format!("{text}, after {redirects} {noun}");
    }
    let tells = matches!(
        kind,
        FailureKind::RedirectRefused | FailureKind::RedirectLoop | FailureKind::NoAddress
    );
    match &answer.sight.said {
        Some(said) if tells => format!("{text}: {said}"),
        _ => text,
    }
}

/// A node by its name, anything else as it is written.
fn name(vantage: &Vantage) -> String {
    match vantage {
        Vantage::Cluster {
            node,
            network: Network::Pod,
        } => node.to_string(),
        other => other.to_string(),
    }
}

/// Names listed before the rest is counted.
const LISTED: usize = 6;

fn list(vantages: &[Vantage]) -> String {
    list_refs(&vantages.iter().collect::<Vec<_>>())
}

fn list_refs(vantages: &[&Vantage]) -> String {
    let names: Vec<String> = vantages
        .iter()
        .take(LISTED)
        .map(|vantage| name(vantage))
        .collect();
    let more = vantages.len().saturating_sub(LISTED);
    let mut text = names.join(", ");
    if more > 0 {
        text = format!("{text} and {more} more");
    }
    text
}

#[cfg(test)]
mod tests;
