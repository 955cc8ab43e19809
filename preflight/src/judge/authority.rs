//! The verdict on the CA's validation, which comes from the internet and depends on the response of the server.

use parallax_api::{
    names::{NameCause, NameVerdict},
    preflight::CheckState,
};
use parallax_model::{ChallengeClient, FailureKind, Phase, Vantage};

use super::{CheckInput, CheckKind, FailureGroup, Verdict, join_name_refs, join_names};

/// The response of a server is the same for all clients; a network failure at a node is not.
const fn is_server_response(kind: &FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::RedirectRefused
            | FailureKind::RedirectLoop
            | FailureKind::RedirectTooMany
            | FailureKind::BodyTooLarge
            | FailureKind::WrongBody
            | FailureKind::Status
    )
}

/// Returns the suffix for a failure from outside that some fetches did not have.
fn partial_success_suffix(input: &CheckInput<'_>, from: &[&Vantage], passed_from_internet: bool) -> String {
    let fetches = input
        .answers
        .iter()
        .filter(|answer| from.contains(&&answer.vantage))
        .map(|answer| answer.sight.passes)
        .max()
        .unwrap_or(0);
    match fetches {
        0 if !passed_from_internet => String::new(),
        0 => ", but not from every vantage outside".to_owned(),
        1 => ", but not always: an earlier fetch passed, and the CA fetches from several networks".to_owned(),
        more => {
            format!(
                ", but not always: {more} earlier fetches passed, and the CA fetches from several networks"
            )
        }
    }
}

/// Returns the result and its sentence.
pub(super) fn judge(
    input: &CheckInput<'_>,
    passed: &[Vantage],
    failing: &[FailureGroup],
    silent: &[Vantage],
    caveats: &mut Vec<String>,
) -> (CheckState, String) {
    let finds = if input.key_served {
        "passes"
    } else {
        "gets a response"
    };
    let outside_failing = failing
        .iter()
        .find(|group| group.vantages.iter().any(Vantage::is_on_internet));
    if let Some(group) = outside_failing {
        let from: Vec<&Vantage> = group
            .vantages
            .iter()
            .filter(|vantage| vantage.is_on_internet())
            .collect();
        let passed_from_internet = passed.iter().any(Vantage::is_on_internet);
        let sometimes = partial_success_suffix(input, &from, passed_from_internet);
        return (
            CheckState::Failed,
            format!(
                "it fails from outside ({}): {}{sometimes}",
                join_name_refs(&from),
                group.reason
            ),
        );
    }
    let outside: Vec<&Vantage> = passed.iter().filter(|vantage| vantage.is_on_internet()).collect();
    if !outside.is_empty() {
        return (
            CheckState::Passed,
            format!("it {finds} from outside ({})", join_name_refs(&outside)),
        );
    }
    if let Some(group) = failing.iter().find(|group| is_server_response(&group.kind)) {
        let some = if passed.is_empty() {
            String::new()
        } else {
            format!(", but not always: it {finds} from {}", join_names(passed))
        };
        return (
            CheckState::Failed,
            format!("the response of the server fails it: {}{some}", group.reason),
        );
    }
    if let Some(group) = failing.iter().find(|group| group.phase == Phase::Resolve) {
        if input.used_public_resolvers {
            return (
                CheckState::Failed,
                format!("it fails in public DNS: {}", group.reason),
            );
        }
        if passed.is_empty() {
            return (
                CheckState::Unknown,
                format!(
                    "{}; this is the answer of the cluster's own resolver, and the public answer is unknown (set resolvers.public in the aggregator's configuration)",
                    group.reason
                ),
            );
        }
    }
    if !passed.is_empty() {
        if !failing.is_empty() {
            let failed: Vec<&Vantage> = failing.iter().flat_map(|group| &group.vantages).collect();
            caveats.push(format!(
                "from {} it fails on the path out of the node ({}), which the CA does not use",
                join_name_refs(&failed),
                failing[0].reason
            ));
        }
        caveats.push(
            "tested from inside only: whether clients on the internet get through is unknown".to_owned(),
        );
        return (
            CheckState::Passed,
            format!("by the CA's rules it {finds} from {}", join_names(passed)),
        );
    }
    if failing.is_empty() {
        return (
            CheckState::Unknown,
            format!(
                "no vantage responded ({}), so the result of the CA's validation is unknown",
                join_names(silent)
            ),
        );
    }
    (
        CheckState::Unknown,
        format!(
            "no vantage inside gets through ({}), which says nothing about the internet; test from outside (parallax vantage enroll, or parallax check --profile ca on a machine there)",
            failing[0].reason
        ),
    )
}

/// Applies the verdict on the name's DNS records: it can turn the result into failed or unknown, but never into
/// passed. Pebble ignores CAA records.
pub(super) fn apply_name_verdict(verdict: &mut Verdict, names: &NameVerdict) {
    verdict.findings.extend(names.findings.iter().cloned());
    let CheckKind::Ca(client) = verdict.check else {
        return;
    };
    let looks = client == ChallengeClient::Boulder;
    let of_caa = |cause: NameCause| matches!(cause, NameCause::Caa | NameCause::CaaLookup);
    verdict.problems = names
        .problems
        .iter()
        .filter(|problem| looks || !of_caa(problem.cause))
        .cloned()
        .collect();
    if let Some(problem) = verdict.problems.first() {
        if verdict.state == CheckState::Failed {
            verdict
                .caveats
                .push(format!("in addition, {}", problem.description));
        } else {
            verdict.sentence = format!("{}; otherwise {}", problem.description, verdict.sentence);
            verdict.state = CheckState::Failed;
        }
    } else if looks && !names.unknown.is_empty() {
        if verdict.state == CheckState::Failed {
            verdict.caveats.extend(names.unknown.iter().cloned());
        } else {
            verdict.sentence = format!("{}, but {}", verdict.sentence, names.unknown.join("; "));
            verdict.state = CheckState::Unknown;
        }
    }
}
