//! When two agree.

use parallax_acme_conformance::{
    verdict::{ExplainedVerdict, Verdict},
    world::ScenarioVerdicts,
};
use parallax_model::{FailureKind, Outcome};

/// What Pebble and the profile of its name do not agree on; nothing where they do.
pub(crate) fn dispute(judged: &ScenarioVerdicts) -> Option<String> {
    let (pebble, ours) = (&judged.pebble, &judged.as_pebble);
    let same =
        pebble.verdict == ours.verdict && (!wording_is_the_same(judged) || tame(pebble) == ours.detail);
    (!same).then(|| format!("Pebble: {pebble}\n    as Pebble: {ours}"))
}

/// Kinds of failure whose sentence tells nothing but what the prober knows too: no local port, nothing of Go's insides.
pub(crate) fn wording_is_the_same(judged: &ScenarioVerdicts) -> bool {
    let Outcome::Failed { kind, .. } = &judged.by_pebble.outcome else {
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

/// Pebble's sentence in the form in which ours are bounded.
fn tame(told: &ExplainedVerdict) -> String {
    told.detail
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(1000)
        .collect()
}
