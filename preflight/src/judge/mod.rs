//! Judges the observations of all vantages of one host: one verdict on cert-manager's self check and one on the
//! CA's validation. They are never merged, and an unknown result is never a pass.
//!
//! The self check is made by one Pod: its node decides, and properties of that Pod can make the response to a
//! prober on the same node meaningless. The CA is outside: a failure on the path out of a node proves nothing about
//! the CA, the response of a server does.

mod authority;
mod causes;
mod evidence;
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

pub use evidence::REQUIRED_FETCHES;

use super::client_messages::{ca_message, self_check_message};

/// The check that a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by", content = "client")]
pub enum CheckKind {
    /// cert-manager's self check, before it requests validation.
    SelfCheck,
    /// The CA's validation.
    Ca(ChallengeClient),
}

/// The result at one vantage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VantageAnswer {
    /// The vantage.
    pub vantage: Vantage,
    /// The vantage's placement relative to the entry that it connected to.
    pub placement: Placement,
    /// The outcome of the probe.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The addresses, connections and redirects of the fetch.
    pub sight: ChallengeSight,
    /// The total duration.
    #[serde(rename = "total_us", skip_serializing_if = "Option::is_none")]
    pub total_duration: Option<Micros>,
}

/// The input of one verdict.
#[derive(Debug, Clone)]
pub struct CheckInput<'a> {
    /// The check.
    pub check: CheckKind,
    /// The fetched URL.
    pub url: &'a str,
    /// Whether the key authorization was served and compared; otherwise only the path to a server was tested.
    pub key_served: bool,
    /// Whether public resolvers resolved the name.
    pub used_public_resolvers: bool,
    /// The results.
    pub answers: &'a [VantageAnswer],
    /// Vantages that were expected to probe and did not respond.
    pub silent: &'a [Vantage],
    /// What the mesh knows of failures of the same host at present, from its scheduled probes.
    pub known_failures: &'a [String],
    /// The diagnosis of the same probes.
    pub diagnosis: Option<&'a Diagnosed>,
    /// The node of cert-manager's Pod, if known.
    pub pod_node: Option<&'a NodeName>,
    /// Whether that Pod uses its node's network.
    pub pod_uses_host_network: bool,
    /// How the network path of that Pod differs from a prober's on the same node.
    pub path_differences: &'a [String],
    /// The verdict on the name's DNS records, if they were queried.
    pub names: Option<&'a NameVerdict>,
}

/// A cause that fits a group of failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The catalogue id.
    pub id: String,
    /// A short description.
    pub title: String,
    /// Whether the diagnosis named it from evidence; otherwise it is the usual cause.
    pub diagnosed: bool,
}

/// Why no failure was seen and the result is unknown all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum UnknownReason {
    /// No vantage on the internet took part, and the CA is there.
    NoOutsideVantage,
    /// Too few fetches from the internet to see a path that fails for a share of the connections.
    TooFewFetches,
    /// An incident is on the path to the same host, although no fetch failed.
    KnownFailure,
}

/// Vantages with the same failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureGroup {
    /// The vantages.
    pub vantages: Vec<Vantage>,
    /// The address that was dialled last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The phase that failed.
    pub phase: Phase,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The HTTP status of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The reason in Parallax's words.
    pub reason: String,
    /// The message of the client whose check this is.
    pub client_message: String,
    /// The causes, most likely first.
    pub causes: Vec<Cause>,
    /// The remedies.
    pub remedies: Vec<Remedy>,
}

/// The verdict on one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The check.
    pub check: CheckKind,
    /// The result.
    pub state: CheckState,
    /// Why the result is unknown, if nothing failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_reason: Option<UnknownReason>,
    /// The result as one sentence.
    pub sentence: String,
    /// The vantages at which it passes.
    pub passed: Vec<Vantage>,
    /// The groups of failures, largest first.
    pub failure_groups: Vec<FailureGroup>,
    /// DNS problems of the name that fail the check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<NameProblem>,
    /// Vantages that did not respond or could not probe.
    pub silent: Vec<Vantage>,
    /// Reasons for uncertainty.
    pub caveats: Vec<String>,
    /// Observations that do not affect the verdict.
    pub findings: Vec<Finding>,
}

/// Both verdicts on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostVerdict {
    /// The host name.
    pub host: String,
    /// The verdict on cert-manager's self check.
    pub self_check: Verdict,
    /// The verdict on the CA's validation.
    pub ca: Verdict,
    /// What the preflight did not test.
    pub not_checked: Vec<String>,
}

/// Returns the exit code: 0 if both verdicts pass, 1 if one fails, 3 if one is unknown and none fails. With
/// `strict`, a self check that passes only because of the current node of cert-manager's Pod is treated as failed.
/// Without `strict`, a CA verdict that is unknown only for want of a vantage on the internet does not count.
#[must_use]
pub fn exit_code<'a>(judged: impl IntoIterator<Item = &'a HostVerdict>, strict: bool) -> u8 {
    let tolerated =
        |verdict: &Verdict| !strict && verdict.unknown_reason == Some(UnknownReason::NoOutsideVantage);
    let standings: Vec<CheckState> = judged
        .into_iter()
        .flat_map(|judged| [&judged.self_check, &judged.ca])
        .map(|verdict| {
            if tolerated(verdict) {
                CheckState::Passed
            } else {
                verdict.state
            }
        })
        .collect();
    let any = |state| standings.contains(&state);
    if any(CheckState::Failed) || (strict && any(CheckState::AtRisk)) {
        1
    } else if any(CheckState::Unknown) || standings.is_empty() {
        3
    } else {
        0
    }
}

/// Returns the verdict on one check.
#[must_use]
pub fn judge_check(input: &CheckInput<'_>) -> Verdict {
    let passed: Vec<Vantage> = vantages_with(input, |outcome| matches!(outcome, Outcome::Ok { .. }));
    let failing = failure_groups(input);
    let mut silent = input.silent.to_vec();
    silent.extend(vantages_with(input, |outcome| {
        matches!(outcome, Outcome::NotProbed { .. })
    }));
    silent.sort();
    let mut caveats = Vec::new();
    let (state, sentence) = match input.check {
        CheckKind::SelfCheck => self_check::judge(input, &passed, &failing, &silent, &mut caveats),
        CheckKind::Ca(_) => authority::judge(input, &passed, &failing, &silent, &mut caveats),
    };
    let (state, sentence, unknown_reason) = match (input.check, state) {
        (CheckKind::Ca(_), CheckState::Passed) => evidence::weigh(input, &passed, sentence),
        _ => (state, sentence, None),
    };
    let mut verdict = Verdict {
        check: input.check,
        state,
        unknown_reason,
        sentence,
        passed,
        failure_groups: failing,
        problems: Vec::new(),
        silent,
        caveats,
        findings: causes::findings(input),
    };
    if let Some(names) = input.names {
        authority::apply_name_verdict(&mut verdict, names);
    }
    verdict
}

fn vantages_with(input: &CheckInput<'_>, is: impl Fn(&Outcome) -> bool) -> Vec<Vantage> {
    let mut vantages: Vec<Vantage> = input
        .answers
        .iter()
        .filter(|answer| is(&answer.outcome))
        .map(|answer| answer.vantage.clone())
        .collect();
    vantages.sort();
    vantages
}

/// What distinguishes two failures: equal values are one group.
type FailureKey = (Phase, FailureKind, Option<u16>, Option<IpAddr>);

/// Groups equal failures, largest group first.
fn failure_groups(input: &CheckInput<'_>) -> Vec<FailureGroup> {
    let mut alike: BTreeMap<FailureKey, Vec<&VantageAnswer>> = BTreeMap::new();
    for answer in input.answers {
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
            let (client_message, words) = (
                client_message(input, first),
                failure_reason(&kind, phase, status, address, first),
            );
            let (causes, remedies) = causes::causes_and_remedies(input, phase, &kind, status, &members);
            FailureGroup {
                vantages: members.iter().map(|member| member.vantage.clone()).collect(),
                address,
                phase,
                kind,
                status,
                reason: words,
                client_message,
                causes,
                remedies,
            }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.vantages.len()));
    groups
}

fn last_dial(sight: &ChallengeSight) -> Option<IpAddr> {
    let last = sight.dials.iter().rfind(|dial| !dial.abandoned);
    last.map(|dial| dial.address.ip())
}

fn client_message(input: &CheckInput<'_>, answer: &VantageAnswer) -> String {
    match input.check {
        CheckKind::SelfCheck => {
            self_check_message(&answer.outcome, &answer.sight, input.url).unwrap_or_default()
        }
        CheckKind::Ca(client) => ca_message(client, &answer.outcome, &answer.sight, input.url)
            .map(|(problem, detail)| format!("{problem}: {detail}"))
            .unwrap_or_default(),
    }
}

fn failure_reason(
    kind: &FailureKind,
    phase: Phase,
    status: Option<u16>,
    address: Option<IpAddr>,
    answer: &VantageAnswer,
) -> String {
    let mut text = kind.description().to_owned();
    if let Some(status) = status {
        text = format!("{text} ({status})");
    }
    if phase != Phase::Resolve
        && let Some(address) = address
    {
        text = format!("{text} at {address}");
    }
    let redirects = answer.sight.redirects.len();
    if redirects > 0 {
        let noun = if redirects == 1 { "redirect" } else { "redirects" };
        text = format!("{text}, after {redirects} {noun}");
    }
    let has_detail = matches!(
        kind,
        FailureKind::RedirectRefused | FailureKind::RedirectLoop | FailureKind::NoAddress
    );
    match &answer.sight.error {
        Some(error) if has_detail => format!("{text}: {error}"),
        _ => text,
    }
}

/// A node by its name, any other vantage in its written form.
fn short_name(vantage: &Vantage) -> String {
    match vantage {
        Vantage::Cluster {
            node,
            network: Network::Pod,
        } => node.to_string(),
        other => other.to_string(),
    }
}

/// Vantages named in a sentence; the rest is counted.
const MAX_LISTED_VANTAGES: usize = 6;

fn join_names(vantages: &[Vantage]) -> String {
    join_name_refs(&vantages.iter().collect::<Vec<_>>())
}

fn join_name_refs(vantages: &[&Vantage]) -> String {
    let names: Vec<String> = vantages
        .iter()
        .take(MAX_LISTED_VANTAGES)
        .map(|vantage| short_name(vantage))
        .collect();
    let more = vantages.len().saturating_sub(MAX_LISTED_VANTAGES);
    let mut text = names.join(", ");
    if more > 0 {
        text = format!("{text} and {more} more");
    }
    text
}

#[cfg(test)]
mod tests;
