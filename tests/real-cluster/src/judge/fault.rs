//! Judges a fault: Parallax must name it soon, report nothing else while it lasts, and be silent soon after its repair.

use std::collections::BTreeMap;

use super::{IncidentHistory, JudgementInput, Outcome, TimeSpan, Verdict, alerts::gaps};
use crate::{
    judge::FiredAlert,
    observe::{AggregatorState, Incident},
    step::{ExpectedOutcome, IncidentPattern},
};

/// Alerts that a fault may fire.
const FAULT_ALERTS: [&str; 3] = [
    "ParallaxIncident",
    "ParallaxTargetUnreachable",
    "ParallaxTargetUnreliable",
];

pub(super) fn judge(expected: &ExpectedOutcome, seen: &JudgementInput) -> Verdict {
    let mut verdict = seen.verdict();
    let cured = seen.times.repaired.unwrap_or(seen.times.ended);
    let mut reasons = Vec::new();
    let named_at = named_at(&expected.named, seen);
    let (named, extras): (Vec<IncidentHistory>, Vec<IncidentHistory>) = seen
        .incidents
        .iter()
        .filter(|story| !is(&expected.may, &story.incident))
        .cloned()
        .partition(|story| {
            is(&expected.named, &story.incident) || was_named_correctly(&expected.named, story, seen)
        });
    match named_at {
        Some(at) => {
            let after = at - seen.times.fault;
            verdict.named_after = Some(after);
            if after > seconds(expected.within) {
                reasons.push(format!(
                    "named only after {after:.0} s; at most {} are allowed",
                    expected.within
                ));
            }
            while_it_lasts(
                expected,
                seen,
                &named,
                TimeSpan {
                    from: at,
                    until: cured,
                },
                &mut reasons,
            );
            let healed = seen.times.healed.unwrap_or(cured);
            verdict.closed_after = seconds_to_close(expected, seen, &named, healed, &mut reasons);
        }
        None => reasons.push(format!("not named: expected {}", words(&expected.named))),
    }
    if named.len() > expected.most_incidents {
        reasons.push(format!(
            "{} incidents name the fault; at most {} are allowed",
            named.len(),
            expected.most_incidents
        ));
    }
    if extras.len() > expected.most_extras {
        reasons.push(format!(
            "{} other incidents are open; at most {} are allowed",
            extras.len(),
            expected.most_extras
        ));
    }
    reasons.extend(named.iter().filter_map(|story| other_name(expected, story, seen)));
    statuses(expected, seen, &mut reasons);
    for fired in &seen.fired {
        if !FAULT_ALERTS.contains(&fired.name.as_str()) && !expected.alerts.contains(&fired.name) {
            let after = fired.began() - seen.times.fault;
            reasons.push(format!(
                "{after:.0} s after the fault another alert fires: {}",
                fired.describe()
            ));
        }
    }
    verdict.named = named;
    verdict.other_incidents = extras;
    if !reasons.is_empty() {
        verdict.outcome = Outcome::Failed;
    }
    let outages = seen.users.outages(seen.times.fault, cured);
    let unfelt: Vec<&String> = expected
        .felt
        .iter()
        .filter(|to| !outages.contains(&to.as_str()))
        .collect();
    if !unfelt.is_empty() {
        verdict.outcome = Outcome::Unsound;
        let unfelt: Vec<&str> = unfelt.into_iter().map(String::as_str).collect();
        reasons.insert(
            0,
            format!(
                "the fault has no effect: users are served at {}",
                unfelt.join(", ")
            ),
        );
    }
    verdict.reasons = reasons;
    verdict
}

fn is(patterns: &[IncidentPattern], incident: &Incident) -> bool {
    patterns.iter().any(|saying| saying.matches(incident))
}

/// Returns the states that aggregators had since the fault, each with its time.
fn states_since_fault<'a>(seen: &'a JudgementInput) -> impl Iterator<Item = (f64, &'a AggregatorState)> {
    let looks = seen.timeline.samples.iter();
    let since = looks.filter(|look| look.at >= seen.times.fault);
    since.filter_map(|look| Some((look.at, look.state.as_ref().ok()?)))
}

/// Returns an incident whenever an aggregator had it open, each with its time.
fn names_over_time<'a>(
    story: &'a IncidentHistory,
    seen: &'a JudgementInput,
) -> impl Iterator<Item = (f64, &'a Incident)> {
    let of_story = |incident: &&Incident| incident.id == story.incident.id;
    states_since_fault(seen).filter_map(move |(at, state)| Some((at, state.open().find(of_story)?)))
}

/// Reports whether an incident was named correctly at some time, whatever its final name.
fn was_named_correctly(patterns: &[IncidentPattern], story: &IncidentHistory, seen: &JudgementInput) -> bool {
    names_over_time(story, seen).any(|(_, incident)| is(patterns, incident))
}

/// Returns what else an incident was called, first or later: its alert fired with that name.
fn other_name(expected: &ExpectedOutcome, story: &IncidentHistory, seen: &JudgementInput) -> Option<String> {
    let (at, other) = names_over_time(story, seen)
        .find(|(_, incident)| !is(&expected.named, incident) && !is(&expected.may, incident))?;
    Some(format!(
        "{:.0} s after the fault it has another name: {} {} ({}): {}",
        at - seen.times.fault,
        other.id,
        other.cause,
        other.region,
        other.sentence
    ))
}

/// Returns when an aggregator first had a correct incident open.
fn named_at(patterns: &[IncidentPattern], seen: &JudgementInput) -> Option<f64> {
    let named = |incident: &Incident| {
        seen.incidents
            .iter()
            .any(|story| story.incident.id == incident.id)
    };
    states_since_fault(seen)
        .find(|(_, state)| {
            state
                .open()
                .any(|incident| named(incident) && is(patterns, incident))
        })
        .map(|(at, _)| at)
}

/// Judges the time from the naming to the repair: the incident stays open under its id, and its alert fires
/// continuously.
fn while_it_lasts(
    expected: &ExpectedOutcome,
    seen: &JudgementInput,
    named: &[IncidentHistory],
    lasts: TimeSpan,
    reasons: &mut Vec<String>,
) {
    let since = |at: f64| at - seen.times.fault;
    let looks = seen.timeline.samples.iter();
    let closed = looks
        .filter(|look| look.at > lasts.from && look.at < lasts.until && look.state.is_ok())
        .find(|look| {
            let open = named.iter().any(|story| story.is_open_at(look.at));
            !open && expected.felt.iter().any(|to| seen.users.fail_at(to, look.at))
        });
    if let Some(look) = closed {
        reasons.push(format!(
            "{:.0} s after the fault no incident names it any more, while users fail",
            since(look.at)
        ));
    }
    // Several subjects of one fault have one id each; their number is judged elsewhere.
    let mut ids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for story in named.iter().filter(|_| expected.keeps_id) {
        let of_subject = ids.entry(story.incident.subject.as_str()).or_default();
        of_subject.push(story.incident.id.as_str());
    }
    for ids in ids.values().filter(|ids| ids.len() > 1) {
        reasons.push(format!("one fault has several ids: {}", ids.join(", ")));
    }
    if !expected.alert_uninterrupted || seen.timeline.alerts.is_empty() {
        return;
    }
    let of_named = |fired: &&FiredAlert| {
        let id = fired.labels.get("incident");
        fired.name == "ParallaxIncident" && named.iter().any(|story| Some(&story.incident.id) == id)
    };
    let fired: Vec<&FiredAlert> = seen.fired.iter().filter(of_named).collect();
    if fired.is_empty() {
        reasons.push("its alert never fires".to_owned());
    }
    let gaps = gaps(&fired, lasts.until);
    if let Some(first) = gaps.first() {
        let all: f64 = gaps.iter().map(|gap| gap.until - gap.from).sum();
        reasons.push(format!(
            "{:.0} s after the fault its alert resolves while the fault lasts, {} times, for {all:.0} s in total",
            since(first.from),
            gaps.len()
        ));
    }
}

/// Returns the seconds from the repair to the end of the incident.
fn seconds_to_close(
    expected: &ExpectedOutcome,
    seen: &JudgementInput,
    named: &[IncidentHistory],
    healed: f64,
    reasons: &mut Vec<String>,
) -> Option<f64> {
    let left: Vec<&IncidentHistory> = named.iter().filter(|story| story.left_open).collect();
    if let Some(story) = left.first() {
        let waited = seen.times.ended - healed;
        reasons.push(format!(
            "{waited:.0} s after the repair it is still open: {story}"
        ));
        return None;
    }
    let ended = named.iter().map(IncidentHistory::ended).fold(f64::MIN, f64::max);
    let after = (ended - healed).max(0.0);
    if after > seconds(expected.closed_within) {
        reasons.push(format!(
            "closed {after:.0} s after the repair; at most {} are allowed",
            expected.closed_within
        ));
    }
    Some(after)
}

/// `parallax status` must never exit with 0 once users have failed for ten seconds.
fn statuses(expected: &ExpectedOutcome, seen: &JudgementInput, reasons: &mut Vec<String>) {
    let cured = seen.times.repaired.unwrap_or(seen.times.ended);
    let fine: Vec<f64> = seen
        .timeline
        .statuses
        .iter()
        .filter(|look| look.code.0 == Some(0) && look.at > seen.times.fault && look.until < cured)
        .filter(|look| {
            let failing =
                |to: &String| seen.users.have_failed_at(to, look.at) && seen.users.fail_at(to, look.until);
            expected.felt.iter().any(failing)
        })
        .map(|look| look.at - seen.times.fault)
        .collect();
    if let (Some(first), Some(last)) = (fine.first(), fine.last()) {
        reasons.push(format!(
            "`parallax status` exits with 0 while users fail, {} times from {first:.0} to {last:.0} s after the fault",
            fine.len()
        ));
    }
}

fn words(patterns: &[IncidentPattern]) -> String {
    let one = |saying: &IncidentPattern| {
        let parts = [&saying.cause, &saying.region, &saying.about];
        let parts: Vec<String> = parts
            .into_iter()
            .zip(["", "region ", "about "])
            .filter(|(words, _)| !words.is_empty())
            .map(|(words, label)| format!("{label}{}", words.join(" or ")))
            .collect();
        parts.join(", ")
    };
    patterns.iter().map(one).collect::<Vec<_>>().join("; or ")
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a step")]
const fn seconds(whole: u64) -> f64 {
    whole as f64
}
