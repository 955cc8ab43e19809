//! Summarises verdicts as conditions and as a status of bounded size. Pure.

use parallax_api::{names::NameProblem, preflight::CheckState};
use parallax_model::Vantage;
use parallax_preflight::{FailureGroup, HostVerdict, UnknownReason, Verdict, exit_code};

use super::{CauseStatus, GroupStatus, HostStatus, VerdictStatus};

/// Maximum number of names in a status.
pub const MAX_HOSTS: usize = 10;
const MAX_GROUPS: usize = 3;
const MAX_VANTAGES: usize = 6;
const MAX_NOTES: usize = 4;
/// Maximum length of a text in bytes; some texts come from servers.
const MAX_TEXT_BYTES: usize = 300;
/// Maximum length of ids and titles of causes, in bytes.
const MAX_TITLE_BYTES: usize = 120;

/// Status, reason and message of a condition.
pub type ConditionSummary = (&'static str, &'static str, String);

/// Summarises whether the certificate would be issued: `False` if the command would exit with 1, `True` only if both
/// verdicts pass.
#[must_use]
pub fn ready_condition(judged: &[&HostVerdict], strict: bool) -> ConditionSummary {
    let [own, ca] = check_conditions(judged, strict);
    let message = format!("self check: {}; CA: {}", own.2, ca.2);
    match exit_code(judged.iter().copied(), strict) {
        // The command accepts that no vantage on the internet exists; the condition never claims what was not seen.
        0 if ca.0 == "Unknown" => ("Unknown", ca.1, message),
        0 => ("True", "Passed", message),
        1 => {
            let reason = match (own.0, ca.0) {
                ("False", "False") => "BothFailed",
                ("False", _) => "SelfCheckFailed",
                _ => "CAFailed",
            };
            ("False", reason, message)
        }
        _ if own.0 == "True" => ("Unknown", ca.1, message),
        _ => ("Unknown", "NotProved", message),
    }
}

/// Returns `SelfCheckPassed` and `CAPassed` over all names: the worst verdict decides, and unknown is never `True`.
#[must_use]
pub fn check_conditions(judged: &[&HostVerdict], strict: bool) -> [ConditionSummary; 2] {
    let of = |verdict: fn(&HostVerdict) -> &Verdict| {
        let worst = judged
            .iter()
            .max_by_key(|judged| severity_rank(verdict(judged).state, strict))
            .copied();
        let Some(worst) = worst else {
            return ("Unknown", "NotProved", "there are no names to check".to_owned());
        };
        let state = verdict(worst).state;
        let alike = judged
            .iter()
            .filter(|judged| verdict(judged).state == state)
            .count()
            - 1;
        let more = if alike == 0 {
            String::new()
        } else {
            format!(" (and {alike} more)")
        };
        let message = format!("{}: {}{more}", worst.host, verdict(worst).sentence);
        let (status, reason) = match state {
            CheckState::Passed => ("True", "Passed"),
            CheckState::AtRisk if strict => ("False", "AtRisk"),
            CheckState::AtRisk => ("True", "AtRisk"),
            CheckState::Failed => ("False", "Failed"),
            CheckState::Unknown => (
                "Unknown",
                match verdict(worst).unknown_reason {
                    None => "NotProved",
                    Some(UnknownReason::NoOutsideVantage) => "NoOutsideVantage",
                    Some(UnknownReason::TooFewFetches) => "TooFewFetches",
                    Some(UnknownReason::KnownFailure) => "KnownFailure",
                },
            ),
        };
        (status, reason, sanitize(&message, 3 * MAX_TEXT_BYTES))
    };
    [of(|judged| &judged.self_check), of(|judged| &judged.ca)]
}

const fn severity_rank(state: CheckState, strict: bool) -> u8 {
    match state {
        CheckState::Passed => 0,
        CheckState::AtRisk if !strict => 1,
        CheckState::Unknown => 2,
        CheckState::AtRisk => 3,
        CheckState::Failed => 4,
    }
}

/// Returns the status of one name.
#[must_use]
pub fn host_status(judged: &HostVerdict, solver: &str, runs: &[String]) -> HostStatus {
    HostStatus {
        host: judged.host.clone(),
        solver: sanitize(solver, MAX_TEXT_BYTES),
        self_check: verdict_status(&judged.self_check),
        ca: verdict_status(&judged.ca),
        runs: runs.iter().take(MAX_NOTES).cloned().collect(),
    }
}

fn verdict_status(verdict: &Verdict) -> VerdictStatus {
    let state_label = match verdict.state {
        CheckState::Passed => "passed",
        CheckState::AtRisk => "at_risk",
        CheckState::Failed => "failed",
        CheckState::Unknown => "unknown",
    };
    let findings = verdict
        .findings
        .iter()
        .map(|finding| format!("{} ({})", finding.text, finding.id));
    // Problems that fail the check come first, since the list is truncated.
    let problems = verdict.problems.iter().map(|problem| {
        let NameProblem {
            description: words,
            ca_error: client_message,
            remedy,
            ..
        } = problem;
        format!("{words} ({client_message}); {remedy}")
    });
    let notes = problems.chain(verdict.caveats.iter().cloned()).chain(findings);
    VerdictStatus {
        state: state_label.to_owned(),
        sentence: sanitize(&verdict.sentence, 2 * MAX_TEXT_BYTES),
        passed: count(verdict.passed.len()),
        failed: count(
            verdict
                .failure_groups
                .iter()
                .map(|group| group.vantages.len())
                .sum(),
        ),
        silent: count(verdict.silent.len()),
        failure_groups: verdict
            .failure_groups
            .iter()
            .take(MAX_GROUPS)
            .map(group_status)
            .collect(),
        notes: notes
            .take(MAX_NOTES)
            .map(|note| sanitize(&note, MAX_TEXT_BYTES))
            .collect(),
    }
}

fn group_status(group: &FailureGroup) -> GroupStatus {
    let causes = group.causes.iter().take(MAX_NOTES).map(|cause| CauseStatus {
        id: sanitize(&cause.id, MAX_TITLE_BYTES),
        title: sanitize(&cause.title, MAX_TITLE_BYTES),
        diagnosed: cause.diagnosed,
    });
    let remedies = group.remedies.iter().take(MAX_NOTES).map(|remedy| {
        let command = remedy
            .command
            .as_ref()
            .map_or_else(String::new, |command| format!(": {command}"));
        sanitize(
            &format!("{} (trade-off: {}){command}", remedy.action, remedy.trade_off),
            2 * MAX_TEXT_BYTES,
        )
    });
    GroupStatus {
        vantages: group
            .vantages
            .iter()
            .take(MAX_VANTAGES)
            .map(Vantage::to_string)
            .collect(),
        count: count(group.vantages.len()),
        reason: sanitize(&group.reason, MAX_TEXT_BYTES),
        client_message: sanitize(&group.client_message, MAX_TEXT_BYTES),
        causes: causes.collect(),
        remedies: remedies.collect(),
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Replaces control characters and truncates to `most` bytes.
fn sanitize(text: &str, most: usize) -> String {
    let whole: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if whole.len() <= most {
        return whole;
    }
    let max_len = most - '…'.len_utf8();
    let kept = whole
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= max_len)
        .last()
        .unwrap_or_default();
    format!("{}…", &whole[..kept])
}
