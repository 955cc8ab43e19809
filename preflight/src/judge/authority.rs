//! The CA's validation: from the internet, by what the server answers.

use parallax_api::{
    names::{NameCause, NameVerdict},
    preflight::CheckState,
};
use parallax_model::{ChallengeClient, FailureKind, Phase, Reach, Vantage};

use super::{CheckInput, CheckKind, FailureGroup, Verdict, list, list_refs};

/// What a server answers is the same for everybody; what the network does to a node is not.
const fn is_the_servers(kind: &FailureKind) -> bool {
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

/// What is to be said where some fetches from outside came in.
fn sometimes(asked: &CheckInput<'_>, from: &[&Vantage], elsewhere: bool) -> String {
    let fetches = asked
        .answers
        .iter()
        .filter(|answer| from.contains(&&answer.vantage))
        .map(|answer| answer.sight.passes)
        .max()
        .unwrap_or(0);
    match fetches {
        0 if !elsewhere => String::new(),
        0 => ", though not everywhere outside".to_owned(),
        1 => ", though not always: the fetch before passed, and the CA asks from several networks".to_owned(),
        more => {
            format!(
                ", though not always: {more} fetches before passed, and the CA asks from several networks"
            )
        }
    }
}

/// How it stands, in a sentence.
pub(super) fn judge(
    asked: &CheckInput<'_>,
    passed: &[Vantage],
    failing: &[FailureGroup],
    silent: &[Vantage],
    caveats: &mut Vec<String>,
) -> (CheckState, String) {
    let internet = |vantage: &&Vantage| {
        matches!(
            vantage,
            Vantage::Outside {
                reach: Reach::Internet,
                ..
            }
        )
    };
    let finds = if asked.with_key { "passes" } else { "finds its way" };
    let outside_failing = failing
        .iter()
        .find(|group| group.vantages.iter().any(|v| internet(&v)));
    if let Some(group) = outside_failing {
        let from: Vec<&Vantage> = group.vantages.iter().filter(internet).collect();
        let elsewhere = passed.iter().any(|vantage| internet(&vantage));
        let sometimes = sometimes(asked, &from, elsewhere);
        return (
            CheckState::Failed,
            format!(
                "from outside ({}) it fails: {}{sometimes}",
                list_refs(&from),
                group.words
            ),
        );
    }
    let outside: Vec<&Vantage> = passed.iter().filter(internet).collect();
    if !outside.is_empty() {
        return (
            CheckState::Passed,
            format!("it {finds} from outside ({})", list_refs(&outside)),
        );
    }
    if let Some(group) = failing.iter().find(|group| is_the_servers(&group.kind)) {
        let some = if passed.is_empty() {
            String::new()
        } else {
            format!(", though not always: it {finds} from {}", list(passed))
        };
        return (
            CheckState::Failed,
            format!("what the server answers fails it: {}{some}", group.words),
        );
    }
    if let Some(group) = failing.iter().find(|group| group.phase == Phase::Resolve) {
        if asked.public_names {
            return (
                CheckState::Failed,
                format!("public DNS fails it: {}", group.words),
            );
        }
        if passed.is_empty() {
            return (
                CheckState::Unknown,
                format!(
                    "{}; that is this cluster's own answer, and what public DNS says is not known (resolvers.public in the aggregator's configuration)",
                    group.words
                ),
            );
        }
    }
    if !passed.is_empty() {
        if !failing.is_empty() {
            let failed: Vec<&Vantage> = failing.iter().flat_map(|group| &group.vantages).collect();
            caveats.push(format!(
                "from {} it fails on the way out of the node ({}), which the CA does not take",
                list_refs(&failed),
                failing[0].words
            ));
        }
        caveats.push("seen from inside only: whether the internet gets in is not known".to_owned());
        return (
            CheckState::Passed,
            format!("by the CA's rules it {finds} from {}", list(passed)),
        );
    }
    if failing.is_empty() {
        return (
            CheckState::Unknown,
            format!(
                "nobody answered ({}), so nothing is known of the CA's validation",
                list(silent)
            ),
        );
    }
    (
        CheckState::Unknown,
        format!(
            "from inside nobody gets through ({}), which says nothing about the internet; ask from outside (parallax vantage enroll, or parallax check --profile ca from there)",
            failing[0].words
        ),
    )
}

/// What the name itself adds: it can fail a validation or leave it open, and never makes one pass. Pebble looks at no CAA
/// records.
pub(super) fn of_the_name(verdict: &mut Verdict, names: &NameVerdict) {
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
        if verdict.standing == CheckState::Failed {
            verdict.caveats.push(format!("and {}", problem.words));
        } else {
            verdict.sentence = format!("{}, though {}", problem.words, verdict.sentence);
            verdict.standing = CheckState::Failed;
        }
    } else if looks && !names.unknown.is_empty() {
        if verdict.standing == CheckState::Failed {
            verdict.caveats.extend(names.unknown.iter().cloned());
        } else {
            verdict.sentence = format!("{}; but {}", verdict.sentence, names.unknown.join("; "));
            verdict.standing = CheckState::Unknown;
        }
    }
}
