//! `challenges`: how pending Challenges of cert-manager are explained.

use parallax_acme::challenges::Options;
use parallax_model::{Micros, Namespace};
use serde::Deserialize;

/// Minimum and maximum durations, in seconds.
const AFTER: (u64, u64) = (1, 3_600);
const AGAIN: (u64, u64) = (30, 86_400);
/// Minimum and maximum number of concurrent explanations, leaving room for runs of users.
const AT_ONCE: (u64, u64) = (1, 3);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawChallenges {
    pub(super) after_seconds: Option<u64>,
    pub(super) again_seconds: Option<u64>,
    pub(super) at_once: Option<u64>,
    pub(super) cert_manager_namespace: Option<Namespace>,
}

pub(super) fn challenges(raw: RawChallenges, wrong: &mut impl FnMut(&str, String)) -> Options {
    let usual = Options::default();
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
    let after = within("afterSeconds", AFTER, raw.after_seconds);
    let again = within("againSeconds", AGAIN, raw.again_seconds);
    let at_once = within("atOnce", AT_ONCE, raw.at_once);
    Options {
        after: after.map_or(usual.after, Micros::from_secs),
        again: again.map_or(usual.again, Micros::from_secs),
        at_once: at_once
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(usual.at_once),
        cert_manager: raw.cert_manager_namespace.map(String::from),
        ..usual
    }
}
