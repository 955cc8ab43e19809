//! Judges an ordinary event: Parallax must be silent.

use std::collections::BTreeMap;

use super::{
    JudgementInput, NewHint, Outcome, TimeSpan, UnfeltFailure, Verdict, coverage::unobserved,
    incidents::IncidentHistory,
};
use crate::{
    observe::{AggregatorState, Cell, Severity, StateSample},
    step::ExpectedOutcome,
};

/// Time around a red cell in which failures of users justify it, in seconds.
const USER_FAILURE_MARGIN_S: f64 = 15.0;
/// How long `parallax status` may exit with 3 after an aggregator did not respond: its Pod is not ready yet.
const UNREADY_GRACE_S: f64 = 15.0;
/// How long after the first report to a new aggregator other vantages may start to report: without a volume it has a
/// new CA, which kubelets distribute to the probers within about a minute.
const CATCH_UP_GRACE_S: f64 = 90.0;
/// How long `parallax status` may exit with 3 because a failure that affects no target is under investigation, or
/// because a prober is gone.
const INVESTIGATION_GRACE_S: f64 = 30.0;
/// Output of `parallax status` while no aggregator is ready, for example during a start. The suite itself queries the
/// Pods whether they are ready or not.
const NO_AGGREGATOR_READY: &str = "parallax: no aggregator Pod is ready";
/// Gap between two observations of a red cell that separates them.
const MAX_GAP_S: f64 = 5.0;

pub(super) fn judge(expected: &ExpectedOutcome, seen: &JudgementInput) -> Verdict {
    let mut verdict = seen.verdict();
    let began = seen.times.fault;
    let mut reasons = Vec::new();
    for story in &seen.incidents {
        if expected.may.iter().any(|saying| saying.matches(&story.incident)) {
            verdict.named.push(story.clone());
            continue;
        }
        let left = if story.left_open {
            ", and is still open"
        } else {
            ""
        };
        let times = if story.open.len() > 1 {
            format!(", {} times", story.open.len())
        } else {
            String::new()
        };
        reasons.push(format!(
            "{:.0} s after the event an incident opens{times}{left}: {story}",
            story.began() - began
        ));
        verdict.other_incidents.push(story.clone());
    }
    for fired in &seen.fired {
        let of_allowed = fired
            .labels
            .get("incident")
            .is_some_and(|id| verdict.named.iter().any(|story| &story.incident.id == id));
        if !expected.alerts.contains(&fired.name) && !of_allowed {
            reasons.push(format!(
                "{:.0} s after the event an alert fires: {}",
                fired.began() - began,
                fired.describe()
            ));
        }
    }
    statuses(seen, !verdict.named.is_empty(), &mut reasons);
    for NewHint { hint, shown } in &verdict.hints {
        if !hint.hazard && hint.severity > Severity::Notice && !expected.findings.contains(&hint.kind) {
            reasons.push(format!(
                "{:.0} s after the event a finding, for {:.0} s: {} {}: {}",
                shown.from - began,
                shown.until - shown.from,
                hint.kind,
                hint.subject,
                hint.sentence
            ));
        }
    }
    verdict.unnoticed_failures = unnoticed_failures(seen);
    // If a target may be named in an incident, its cell may be red.
    let named = &verdict.named;
    verdict.unnoticed_failures.retain(|red| {
        let allowed = expected.may.iter().any(|saying| saying.names(&red.target));
        !allowed && !named.iter().any(|story| explains(story, red))
    });
    for red in &verdict.unnoticed_failures {
        reasons.push(format!(
            "{:.0} s after the event {} is red from {} for {:.0} s, and no user noticed anything: {}",
            red.span.from - began,
            red.target,
            red.vantage,
            red.span.until - red.span.from,
            red.failure
        ));
    }
    if let Some(most) = expected.most_missed_rounds {
        for vantage in &verdict.coverage {
            reasons.extend(vantage.loss(most));
        }
    }
    if !reasons.is_empty() {
        verdict.outcome = Outcome::Failed;
    }
    if expected.most_missed_rounds.is_some()
        && let Some(unobserved) = unobserved(&verdict.coverage)
    {
        verdict.outcome = Outcome::Unsound;
        reasons.insert(0, unobserved);
    }
    let unexpected: Vec<&str> = seen
        .users
        .outages(began, seen.times.ended)
        .into_iter()
        .filter(|to| !expected.may_feel.iter().any(|may| may == to))
        .collect();
    if !unexpected.is_empty() {
        verdict.outcome = Outcome::Unsound;
        reasons.insert(
            0,
            format!(
                "users were not served, so this is not an ordinary event: {}",
                unexpected.join(", ")
            ),
        );
    }
    verdict.reasons = reasons;
    verdict
}

/// Judges results of `parallax status`: 0, or 3 while no aggregator or vantage had information, or briefly while a
/// failure that affects no target is under investigation or a vantage is silent.
fn statuses(seen: &JudgementInput, incident_allowed: bool, reasons: &mut Vec<String>) {
    let mut wrong: BTreeMap<Option<i32>, (f64, usize, &str)> = BTreeMap::new();
    let mut doubt: Option<f64> = None;
    let looks = seen.timeline.statuses.iter();
    for look in looks.filter(|look| look.at >= seen.times.fault && look.until <= seen.times.ended) {
        let unsettled = investigates(seen, look.at, look.until) || is_partial(&look.line);
        let doubtful = look.code.0 == Some(3) && unsettled;
        doubt = doubtful.then(|| doubt.unwrap_or(look.at));
        let short = doubt.is_some_and(|since| look.at - since <= INVESTIGATION_GRACE_S);
        let fine = match look.code.0 {
            Some(0) => true,
            Some(1) => {
                incident_allowed
                    || users_fail(seen, look.at)
                    || only_never_ok_targets_fail(seen, look.at, look.until)
            }
            Some(3) => {
                look.line.starts_with("0 of ")
                    || look.line.starts_with(NO_AGGREGATOR_READY)
                    || could_not_tell(seen, look.at, look.until)
                    || catches_up(seen, look.at, &look.line)
                    || some_state(seen, look.at, look.until, |state| state.warming)
                    || has_new_target(seen, look.at, look.until)
                    || short
            }
            _ => false,
        };
        if !fine {
            wrong.entry(look.code.0).or_insert((look.at, 0, &look.line)).1 += 1;
        }
    }
    for (code, (at, times, line)) in wrong {
        let after = at - seen.times.fault;
        let code = code.map_or("a signal".to_owned(), |code| code.to_string());
        reasons.push(format!(
            "{after:.0} s after the event `parallax status` exits with {code}, {times} times: {line}"
        ));
    }
}

/// Reports whether users were not served around that time: then a failing target is correct.
fn users_fail(seen: &JudgementInput, at: f64) -> bool {
    seen.users
        .failed(at - USER_FAILURE_MARGIN_S, at + USER_FAILURE_MARGIN_S)
        .next()
        .is_some()
}

/// Reports whether everything that fails has never worked, so that it is not an outage: `parallax status` exits with 1
/// if such a target is older than a minute.
fn only_never_ok_targets_fail(seen: &JudgementInput, from: f64, until: f64) -> bool {
    some_state(seen, from, until, |state| {
        let mut red = state.red().peekable();
        red.peek().is_some() && red.all(|cell| cell.never_ok)
    })
}

/// Reports whether the state was unknowable: the API server or an aggregator did not respond, or no vantage reported.
fn could_not_tell(seen: &JudgementInput, from: f64, until: f64) -> bool {
    let around = |at: f64| at > from - UNREADY_GRACE_S && at < until + 1.0;
    let away = seen.timeline.api_server.iter().any(|(at, up)| around(*at) && !up);
    let mute = seen
        .timeline
        .samples
        .iter()
        .any(|look| around(look.at) && no_vantage_reports(look));
    let alone = !seen.timeline.samples.iter().any(|look| around(look.at));
    away || mute || alone
}

/// Reports whether a target that was not ok had just appeared, or was about to get its first probe: the state of a new
/// target is not known immediately.
fn has_new_target(seen: &JudgementInput, from: f64, until: f64) -> bool {
    some_state(seen, from, until, |state| state.cells.iter().any(|cell| cell.new))
}

/// Reports whether a failure was under investigation around that time.
fn investigates(seen: &JudgementInput, from: f64, until: f64) -> bool {
    some_state(seen, from, until, |state| !state.investigating.is_empty())
}

/// Reports whether an aggregator responded around that time with a state that satisfies `holds`.
fn some_state(
    seen: &JudgementInput,
    from: f64,
    until: f64,
    holds: impl Fn(&AggregatorState) -> bool,
) -> bool {
    let around = |look: &&StateSample| look.at > from - MAX_GAP_S && look.at < until + MAX_GAP_S;
    let mut looks = seen.timeline.samples.iter().filter(around);
    looks.any(|look| look.state.as_ref().is_ok_and(&holds))
}

/// Reports whether some vantages have not reported yet to an aggregator that had no reports at all shortly before.
fn catches_up(seen: &JudgementInput, at: f64, line: &str) -> bool {
    let mut looks = seen.timeline.samples.iter();
    is_partial(line)
        && looks.any(|look| (at - CATCH_UP_GRACE_S..at).contains(&look.at) && no_vantage_reports(look))
}

/// Reports whether some vantages report, and some do not.
fn is_partial(line: &str) -> bool {
    line.split_once(" vantages report").is_some_and(|(count, _)| {
        let numbers = count
            .rsplit_once(" of ")
            .map(|(some, all)| (some.trim().parse(), all.trim().parse()));
        matches!(numbers, Some((Ok(some), Ok(all))) if u32::lt(&some, &all))
    })
}

/// Reports whether no vantage reports to the aggregator, or the aggregator does not respond.
fn no_vantage_reports(look: &StateSample) -> bool {
    let state = look.state.as_ref();
    state.map_or(true, |state| state.reporting.is_empty())
}

/// Returns red cells that users did not notice, each time span once.
fn unnoticed_failures(seen: &JudgementInput) -> Vec<UnfeltFailure> {
    let mut found: BTreeMap<(&str, &str), Vec<UnfeltFailure>> = BTreeMap::new();
    let looks = seen.timeline.samples.iter();
    for look in looks.filter(|look| look.at >= seen.times.fault && look.at <= seen.times.ended) {
        let Ok(state) = &look.state else { continue };
        for cell in state
            .red()
            .filter(|cell| !cell.never_ok && !cell.new && !felt(seen, cell, look.at))
        {
            let stretches = found.entry((&cell.target, &cell.vantage)).or_default();
            match stretches.last_mut() {
                Some(red) if look.at - red.span.until < MAX_GAP_S => red.span.until = look.at,
                _ => stretches.push(UnfeltFailure {
                    target: cell.target.clone(),
                    vantage: cell.vantage.clone(),
                    failure: cell.failure.clone(),
                    span: TimeSpan {
                        from: look.at,
                        until: look.at,
                    },
                }),
            }
        }
    }
    found.into_values().flatten().collect()
}

/// Reports whether an allowed incident was open that explains the red cell.
fn explains(story: &IncidentHistory, red: &UnfeltFailure) -> bool {
    let mut open = story.open.iter();
    let while_open = open.any(|span| {
        span.from - USER_FAILURE_MARGIN_S <= red.span.from
            && red.span.until <= span.until + USER_FAILURE_MARGIN_S
    });
    let of_names = story.incident.region.starts_with("dns") && red.failure.ends_with("in resolve");
    while_open && (of_names || story.incident.targets.contains(&red.target))
}

fn felt(seen: &JudgementInput, cell: &Cell, at: f64) -> bool {
    let node = cell.vantage.split('/').next();
    let to = seen.destinations.of_target(&cell.target);
    seen.users
        .any_failed(&to, node, at - USER_FAILURE_MARGIN_S, at + USER_FAILURE_MARGIN_S)
}
