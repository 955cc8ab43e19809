//! The status of a Preflight object.

use kube::api::DynamicObject;
use parallax_aggregator::crd::{
    Condition,
    objects::{condition, now},
    preflights::{self, ConditionSummary, MAX_HOSTS, PreflightStatus},
};
use parallax_preflight::{CertManagerPlacement, HostVerdict};

use super::super::{JudgedHost, error::NoVerdict};

/// The maximum length of the text on cert-manager's Pod, in characters.
const MAX_PLACEMENT_CHARS: usize = 600;

/// Returns the status of a Preflight in progress.
pub(super) fn running(object: &DynamicObject) -> PreflightStatus {
    let condition: ConditionSummary = ("Unknown", "Running", "probes are running".to_owned());
    PreflightStatus {
        start_time: Some(start_time(object)),
        attempts: Some(attempts(object)).filter(|attempts| *attempts > 0),
        conditions: conditions(object, &condition, [&condition, &condition], ("False", "False")),
        ..new_status(object)
    }
}

/// Returns the status of a Preflight with two verdicts.
pub(super) fn finished(
    object: &DynamicObject,
    placement: &CertManagerPlacement,
    cases: &[JudgedHost],
    strict: bool,
) -> PreflightStatus {
    let judged: Vec<&HostVerdict> = cases.iter().map(|case| &case.verdict).collect();
    let ready = preflights::ready_condition(&judged, strict);
    let [own, ca] = preflights::check_conditions(&judged, strict);
    let stalled = if ready.0 == "True" { "False" } else { "True" };
    let mut shown: Vec<&JudgedHost> = cases.iter().collect();
    // The sort is stable: within a group, names keep their order.
    shown.sort_by_key(|case| preflights::ready_condition(&[&case.verdict], strict).0 == "True");
    let more = u32::try_from(shown.len().saturating_sub(MAX_HOSTS)).unwrap_or(u32::MAX);
    let description: Vec<String> = placement
        .description()
        .into_iter()
        .chain(placement.notes.iter().cloned())
        .collect();
    let mut not_checked: Vec<String> = Vec::new();
    for item in cases.iter().flat_map(|case| &case.verdict.not_checked) {
        if !not_checked.contains(item) {
            not_checked.push(item.clone());
        }
    }
    PreflightStatus {
        start_time: Some(start_time(object)),
        completion_time: Some(now()),
        attempts: Some(attempts(object)).filter(|attempts| *attempts > 0),
        conditions: conditions(object, &ready, [&own, &ca], ("True", stalled)),
        cert_manager: Some(description.join("; ").chars().take(MAX_PLACEMENT_CHARS).collect())
            .filter(|text: &String| !text.is_empty()),
        hosts: shown
            .into_iter()
            .take(MAX_HOSTS)
            .map(|case| preflights::host_status(&case.verdict, &case.planned.description(), &case.runs))
            .collect(),
        omitted_hosts: Some(more).filter(|more| *more > 0),
        not_checked,
        ..new_status(object)
    }
}

/// Returns the status of a Preflight without a verdict, with the delay before the next attempt in seconds, if any.
pub(super) fn failed(object: &DynamicObject, no_verdict: &NoVerdict, again: Option<u64>) -> PreflightStatus {
    let failure = &no_verdict.failure;
    let message = again.map_or_else(
        || failure.to_string(),
        |seconds| format!("{failure}; next attempt in {seconds} s"),
    );
    let ready: ConditionSummary = ("Unknown", no_verdict.reason.reason(), message);
    let verdict: ConditionSummary = (
        "Unknown",
        "NotAsked",
        "the test did not run, or not to its end".to_owned(),
    );
    let over = if again.is_none() { "True" } else { "False" };
    PreflightStatus {
        start_time: Some(start_time(object)),
        completion_time: again.is_none().then(now),
        attempts: Some(attempts(object) + 1),
        conditions: conditions(object, &ready, [&verdict, &verdict], (over, over)),
        ..new_status(object)
    }
}

/// The number of failed attempts at this generation.
pub(super) fn attempts(object: &DynamicObject) -> u32 {
    let status = current_status(object);
    let attempts = status.and_then(|status| status["attempts"].as_u64());
    u32::try_from(attempts.unwrap_or_default()).unwrap_or(u32::MAX)
}

/// The start time of this generation.
fn start_time(object: &DynamicObject) -> String {
    let started = current_status(object).and_then(|status| status["startTime"].as_str());
    started.map_or_else(now, ToOwned::to_owned)
}

/// The status, if it refers to the current generation.
fn current_status(object: &DynamicObject) -> Option<&serde_json::Value> {
    let status = &object.data["status"];
    (status["observedGeneration"].as_i64() == object.metadata.generation).then_some(status)
}

fn new_status(object: &DynamicObject) -> PreflightStatus {
    PreflightStatus {
        observed_generation: object.metadata.generation,
        ..PreflightStatus::default()
    }
}

/// `Stalled` tells deployment tools that waiting longer is pointless.
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
