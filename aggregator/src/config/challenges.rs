//! `challenges`: how pending Challenges of cert-manager are explained.

use parallax_acme::challenges::ChallengeOptions;
use parallax_model::{Micros, Namespace};
use serde::Deserialize;

/// Minimum and maximum durations, in seconds.
const AFTER_RANGE_S: (u64, u64) = (1, 3_600);
const AGAIN_RANGE_S: (u64, u64) = (30, 86_400);
/// Minimum and maximum number of concurrent explanations, leaving room for runs of users.
const CONCURRENCY_RANGE: (u64, u64) = (1, 3);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawChallenges {
    pub(super) after_seconds: Option<u64>,
    pub(super) again_seconds: Option<u64>,
    pub(super) at_once: Option<u64>,
    pub(super) cert_manager_namespace: Option<Namespace>,
}

pub(super) fn validate(raw: RawChallenges, wrong: &mut impl FnMut(&str, String)) -> ChallengeOptions {
    let usual = ChallengeOptions::default();
    let mut within = |field: &str, (low, high): (u64, u64), given: Option<u64>| {
        let value = given.filter(|value| (low..=high).contains(value));
        if let (Some(given), None) = (given, value) {
            wrong(
                &format!("challenges.{field}"),
                format!("expected {low} to {high}, found {given}"),
            );
        }
        value
    };
    let after = within("afterSeconds", AFTER_RANGE_S, raw.after_seconds);
    let again = within("againSeconds", AGAIN_RANGE_S, raw.again_seconds);
    let at_once = within("atOnce", CONCURRENCY_RANGE, raw.at_once);
    ChallengeOptions {
        wait_before: after.map_or(usual.wait_before, Micros::from_secs),
        explanation_ttl: again.map_or(usual.explanation_ttl, Micros::from_secs),
        max_concurrent: at_once
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(usual.max_concurrent),
        cert_manager_namespace: raw.cert_manager_namespace.map(String::from),
        ..usual
    }
}
