//! What a Preflight says of itself.

use kube::api::DynamicObject;
use parallax_aggregator::crd::{
    Condition,
    objects::{condition, now},
    preflights::{self, ConditionSummary, MOST_HOSTS, PreflightStatus},
};
use parallax_preflight::{CertManagerPlacement, HostVerdict};

use super::super::{JudgedHost, error::NoVerdict};

/// Characters of what is said of cert-manager's pod.
const LONGEST: usize = 600;

/// It is being made.
pub(super) fn under_way(object: &DynamicObject) -> PreflightStatus {
    let said: ConditionSummary = ("Unknown", "Running", "its probes are under way".to_owned());
    PreflightStatus {
        start_time: Some(started(object)),
        attempts: Some(attempts(object)).filter(|attempts| *attempts > 0),
        conditions: conditions(object, &said, [&said, &said], ("False", "False")),
        ..of(object)
    }
}

/// It came to two verdicts.
pub(super) fn answered(
    object: &DynamicObject,
    seat: &CertManagerPlacement,
    cases: &[JudgedHost],
    strict: bool,
) -> PreflightStatus {
    let judged: Vec<&HostVerdict> = cases.iter().map(|case| &case.judged).collect();
    let ready = preflights::ready(&judged, strict);
    let [own, ca] = preflights::verdicts(&judged, strict);
    let stalled = if ready.0 == "True" { "False" } else { "True" };
    let mut shown: Vec<&JudgedHost> = cases.iter().collect();
    // Stable: names stay in their order otherwise.
    shown.sort_by_key(|case| preflights::ready(&[&case.judged], strict).0 == "True");
    let more = u32::try_from(shown.len().saturating_sub(MOST_HOSTS)).unwrap_or(u32::MAX);
    let seat: Vec<String> = seat
        .words()
        .into_iter()
        .chain(seat.notes.iter().cloned())
        .collect();
    let mut not_checked: Vec<String> = Vec::new();
    for what in cases.iter().flat_map(|case| &case.judged.not_checked) {
        if !not_checked.contains(what) {
            not_checked.push(what.clone());
        }
    }
    PreflightStatus {
        start_time: Some(started(object)),
        completion_time: Some(now()),
        attempts: Some(attempts(object)).filter(|attempts| *attempts > 0),
        conditions: conditions(object, &ready, [&own, &ca], ("True", stalled)),
        cert_manager: Some(seat.join("; ").chars().take(LONGEST).collect())
            .filter(|said: &String| !said.is_empty()),
        hosts: shown
            .into_iter()
            .take(MOST_HOSTS)
            .map(|case| preflights::host(&case.judged, &case.planned.words(), &case.runs))
            .collect(),
        more: Some(more).filter(|more| *more > 0),
        not_checked,
        ..of(object)
    }
}

/// It came to no verdict, and is tried again after so many seconds, or never.
pub(super) fn failed(object: &DynamicObject, trouble: &NoVerdict, again: Option<u64>) -> PreflightStatus {
    let said = &trouble.failure;
    let message = again.map_or_else(
        || said.to_string(),
        |seconds| format!("{said}; tried again in {seconds} s"),
    );
    let ready: ConditionSummary = ("Unknown", trouble.why.reason(), message);
    let verdict: ConditionSummary = (
        "Unknown",
        "NotAsked",
        "it was not asked, or not to the end".to_owned(),
    );
    let over = if again.is_none() { "True" } else { "False" };
    PreflightStatus {
        start_time: Some(started(object)),
        completion_time: again.is_none().then(now),
        attempts: Some(attempts(object) + 1),
        conditions: conditions(object, &ready, [&verdict, &verdict], (over, over)),
        ..of(object)
    }
}

/// Attempts of this generation that came to nothing so far.
pub(super) fn attempts(object: &DynamicObject) -> u32 {
    let status = current(object);
    let attempts = status.and_then(|status| status["attempts"].as_u64());
    u32::try_from(attempts.unwrap_or_default()).unwrap_or(u32::MAX)
}

/// When this generation was begun.
fn started(object: &DynamicObject) -> String {
    let started = current(object).and_then(|status| status["startTime"].as_str());
    started.map_or_else(now, ToOwned::to_owned)
}

/// The status, where it speaks of the object as it stands and of its first making.
fn current(object: &DynamicObject) -> Option<&serde_json::Value> {
    let status = &object.data["status"];
    (status["observedGeneration"].as_i64() == object.metadata.generation).then_some(status)
}

fn of(object: &DynamicObject) -> PreflightStatus {
    PreflightStatus {
        observed_generation: object.metadata.generation,
        ..PreflightStatus::default()
    }
}

/// `Stalled` is how deployment tools are told that waiting longer is of no use.
fn conditions(
    object: &DynamicObject,
    ready: &ConditionSummary,
    [own, ca]: [&ConditionSummary; 2],
    (complete, stalled): (&str, &str),
) -> Vec<Condition> {
    let (_, reason, message) = ready;
    let one = |sort: &str, (status, reason, message): &ConditionSummary| {
        condition(object, sort, (status, reason, message))
    };
    vec![
        one("Ready", ready),
        one("SelfCheckPassed", own),
        one("CAPassed", ca),
        condition(object, "Complete", (complete, reason, message)),
        condition(object, "Stalled", (stalled, reason, message)),
    ]
}
