//! Repeats a client's fetch until it has passed as often as required, or once failed.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use parallax_model::{FailureKind, Outcome, Phase, Scope};
use tokio::time;

use super::{
    Profile,
    client::{ChallengeFetch, ChallengeRequest, FailedFetch, ValidationResult},
    problem,
};
use crate::{context::ProbeContext, resolution::ResolverChoice, sanitize::sanitized};

/// Without a pause between them, further passes start only within this fraction of the timeout of one fetch, so that
/// all passes together take not much longer than one fetch may take.
const PASS_TIME_FRACTION: u32 = 4;

/// Maximum number of concurrent passes of a client that does not pause between them. 44 fetches of 600 ms then take about two
/// seconds and a half.
const MAX_CONCURRENT_PASSES: usize = 16;

/// Fetches a challenge by the rules of a client, as often as that client does. Never fails itself.
pub async fn validate(
    profile: &Profile,
    challenge: &ChallengeRequest,
    choice: &ResolverChoice,
    context: &ProbeContext,
) -> ValidationResult {
    validate_within(profile, challenge, choice, None, context).await
}

/// Like [`validate`], but never connects outside a scope, whatever a name or a redirect leads to.
pub(crate) async fn validate_within(
    profile: &Profile,
    challenge: &ChallengeRequest,
    choice: &ResolverChoice,
    scope: Option<&Scope>,
    context: &ProbeContext,
) -> ValidationResult {
    let pass = async || single_pass(profile, challenge, choice, scope, context).await;
    let begun = Instant::now();
    let mut last = pass().await;
    let mut passes = u32::from(passes(challenge, &last));
    if profile.pause.is_zero() {
        let starts_in_time = || begun.elapsed() < profile.timeout / PASS_TIME_FRACTION;
        let further = if passes == 0 {
            0
        } else {
            profile.passes.saturating_sub(1)
        };
        let further = stream::iter(0..further)
            .take_while(|_| std::future::ready(starts_in_time()))
            .map(|_| pass())
            .buffer_unordered(MAX_CONCURRENT_PASSES);
        let mut further = std::pin::pin!(further);
        while let Some(result) = further.next().await {
            last = result;
            if !self::passes(challenge, &last) {
                break;
            }
            passes += 1;
        }
        last.duration = begun.elapsed().into();
    } else {
        let mut took = Duration::from(last.duration);
        while self::passes(challenge, &last) && passes < profile.passes {
            time::sleep(profile.pause).await;
            last = pass().await;
            took += Duration::from(last.duration);
            passes += u32::from(self::passes(challenge, &last));
        }
        last.duration = took.into();
    }
    last.passes = passes;
    last
}

fn passes(challenge: &ChallengeRequest, result: &ValidationResult) -> bool {
    let tolerated = challenge.expected.is_empty() && is_response_without_key(&result.outcome);
    matches!(result.outcome, Outcome::Ok { .. }) || tolerated
}

/// Reports whether a failed check is the response of a healthy server that does not serve a key: any content, and any
/// status below 500, such as 404.
pub(crate) fn is_response_without_key(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed {
            phase: Phase::Check,
            kind: FailureKind::WrongBody,
            ..
        } => true,
        Outcome::Failed {
            phase: Phase::Check,
            kind: FailureKind::Status,
            status,
        } => status.is_some_and(|status| status < 500),
        _ => false,
    }
}

/// Makes one fetch. `passes` of the result is not set.
async fn single_pass(
    profile: &Profile,
    challenge: &ChallengeRequest,
    choice: &ResolverChoice,
    scope: Option<&Scope>,
    context: &ProbeContext,
) -> ValidationResult {
    let begun = Instant::now();
    let mut fetch = ChallengeFetch::new(profile, challenge, choice, scope, context);
    let ended = fetch.fetch(challenge).await;
    let duration = begun.elapsed().into();
    let (outcome, detail, problem) = match ended {
        Ok(status) => (Outcome::Ok { status: Some(status) }, None, None),
        Err(FailedFetch {
            stop,
            status,
            refusal,
        }) => {
            fetch.stage.address = fetch.dials.last().map(|dial| dial.address);
            let problem = problem::problem_for(profile.client, &stop, status, refusal.as_ref(), &fetch.stage);
            let detail = stop.detail.as_deref().map(sanitized);
            (stop.outcome(status), detail, problem)
        }
    };
    ValidationResult {
        outcome,
        detail,
        problem,
        passes: 0,
        resolution: fetch.first_resolution,
        dials: fetch.dials,
        hops: fetch.hops,
        duration,
    }
}
