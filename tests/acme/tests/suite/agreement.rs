//! Comparison of two verdicts.

use parallax_acme_conformance::{
    verdict::{ExplainedVerdict, Verdict},
    world::ScenarioVerdicts,
};
use parallax_model::{FailureKind, Outcome};

/// Returns the difference between Pebble and the profile of its name, if any.
pub(crate) fn disagreement(judged: &ScenarioVerdicts) -> Option<String> {
    let (pebble, parallax) = (&judged.pebble, &judged.as_pebble);
    let same = pebble.verdict == parallax.verdict
        && (!wording_is_the_same(judged) || sanitize(pebble) == parallax.detail);
    (!same).then(|| format!("Pebble: {pebble}\n    as Pebble: {parallax}"))
}

/// Failure kinds whose message contains only what the prober knows too: no local port, no internals of Go.
pub(crate) fn wording_is_the_same(judged: &ScenarioVerdicts) -> bool {
    let Outcome::Failed { kind, .. } = &judged.pebble_result.outcome else {
        return judged.as_pebble.verdict == Verdict::Valid;
    };
    matches!(
        kind,
        FailureKind::NxDomain
            | FailureKind::NoAddress
            | FailureKind::ServFail
            | FailureKind::DnsRefused
            | FailureKind::Refused
            | FailureKind::Unreachable
            | FailureKind::Status
            | FailureKind::WrongBody
            | FailureKind::RedirectTooMany
    )
}

/// Returns Pebble's message, sanitised and truncated like the prober's own.
fn sanitize(verdict: &ExplainedVerdict) -> String {
    verdict
        .detail
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(1000)
        .collect()
}
