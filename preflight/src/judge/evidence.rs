//! Whether fetches without a failure are enough evidence for the CA's validation.

use parallax_api::preflight::CheckState;
use parallax_model::{MAX_CHALLENGE_FETCHES, Outcome, Vantage};

use super::{CheckInput, UnknownReason};

/// Fetches from the internet, over all vantages there, that a passed verdict requires.
pub const REQUIRED_FETCHES: u32 = MAX_CHALLENGE_FETCHES;

/// Turns a passed verdict into an unknown one if the evidence does not suffice.
pub(super) fn weigh(
    input: &CheckInput<'_>,
    passed: &[Vantage],
    sentence: String,
) -> (CheckState, String, Option<UnknownReason>) {
    let unknown = |sentence, reason| (CheckState::Unknown, sentence, Some(reason));
    if !passed.iter().any(Vantage::is_on_internet) {
        return unknown(
            format!(
                "{sentence}, but no vantage on the internet tested it, where the CA is (parallax vantage enroll, or parallax check --profile ca on a machine there)"
            ),
            UnknownReason::NoOutsideVantage,
        );
    }
    let fetches = fetches_from_internet(input);
    // Without a key, the fetch proves the path to a server only, and no verdict on a solver is claimed.
    if input.key_served && fetches < REQUIRED_FETCHES {
        return unknown(
            format!(
                "{sentence}, but {fetches} of {REQUIRED_FETCHES} fetches from the internet were made: a path that fails for a tenth of the connections could remain unseen; update the probers outside, or test again"
            ),
            UnknownReason::TooFewFetches,
        );
    }
    if let Some(known) = input.known_failures.first() {
        return unknown(
            format!("{sentence}, but a known fault can make it fail: {known}"),
            UnknownReason::KnownFailure,
        );
    }
    (CheckState::Passed, sentence, None)
}

fn fetches_from_internet(input: &CheckInput<'_>) -> u32 {
    input
        .answers
        .iter()
        .filter(|answer| answer.vantage.is_on_internet() && matches!(answer.outcome, Outcome::Ok { .. }))
        .map(|answer| answer.sight.passes)
        .fold(0, u32::saturating_add)
}
