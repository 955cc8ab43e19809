//! An HTTP-01 challenge of a run, fetched by the rules of a client profile. The report contains what the client saw.

use std::time::Duration;

use parallax_model::{
    ChallengeClient, ChallengeProbe, ChallengeSight, DialSight, Front, HopSight, MAX_CHALLENGE_FETCHES,
    Outcome, Phase,
};

use super::{EndedProbe, Probe};
use crate::{
    failure::EarlyEnd,
    profile::{
        ChallengeRequest, ClientProfile, DialOutcome, Profile, ValidationResult, is_response_without_key,
        validate_within,
    },
    resolution::ResolverChoice,
    sanitize::sanitized,
};

/// Maximum number of addresses, connections and redirects reported per challenge: more than any client follows.
const MAX_REPORTED: usize = 24;

impl Probe<'_> {
    pub(super) async fn challenge(
        &mut self,
        spec: &ChallengeProbe,
        timeout: Duration,
    ) -> Result<Option<u16>, EndedProbe> {
        let own = Profile::for_client(match spec.client {
            ChallengeClient::CertManager => ClientProfile::CertManager,
            ChallengeClient::Boulder => ClientProfile::Boulder,
            ChallengeClient::Pebble => ClientProfile::Pebble,
        });
        let profile = Profile {
            passes: spec.passes.unwrap_or(1).clamp(1, MAX_CHALLENGE_FETCHES),
            timeout: own.timeout.min(timeout),
            ..own
        };
        let challenge = ChallengeRequest {
            host: spec.host.to_string(),
            port: spec.port,
            path: spec.path.clone(),
            expected: spec.expected.clone().unwrap_or_default(),
        };
        let choice = if spec.nameservers.is_empty() {
            ResolverChoice::Machine
        } else {
            ResolverChoice::Servers(spec.nameservers.clone())
        };
        let seen = validate_within(&profile, &challenge, &choice, spec.scope.as_ref(), self.context).await;
        // The connection that decided: the winner of a race, or the last one tried.
        let decided = seen
            .dials
            .iter()
            .rfind(|tried| tried.outcome != DialOutcome::Overtaken);
        self.result.front = decided.map(|tried| Front::tcp(tried.address));
        let outcome = if spec.expected.is_some() {
            seen.outcome.clone()
        } else {
            tolerate_missing_key(&seen.outcome)
        };
        self.result.challenge = Some(Box::new(challenge_sight(&seen)));
        self.result.times.total = Some(seen.duration);
        let (stop, status) = match outcome {
            Outcome::Ok { status } => return Ok(status),
            Outcome::Failed { phase, kind, status } => (EarlyEnd::new(phase, kind), status),
            Outcome::NotProbed { fault: own } => (EarlyEnd::new(Phase::Connect, own), None),
        };
        let stop = match seen.detail {
            Some(detail) => stop.with_detail(detail),
            None => stop,
        };
        Err(EndedProbe {
            failure: stop,
            status,
        })
    }
}

/// Adjusts the outcome for a challenge without a key: no solver serves the token yet, so any content is acceptable, and
/// a healthy server responds with a status below 500, such as 404.
fn tolerate_missing_key(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Failed { status, .. } if is_response_without_key(outcome) => Outcome::Ok { status: *status },
        other => other.clone(),
    }
}

fn challenge_sight(seen: &ValidationResult) -> ChallengeSight {
    let mut addresses: Vec<_> = seen
        .resolution
        .iter()
        .flat_map(|found| &found.addresses)
        .map(|found| found.address)
        .take(MAX_REPORTED)
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    ChallengeSight {
        passes: seen.passes,
        addresses,
        dials: seen
            .dials
            .iter()
            .take(MAX_REPORTED)
            .map(|tried| DialSight {
                address: tried.address,
                failure: match &tried.outcome {
                    DialOutcome::Failed(kind) => Some(kind.clone()),
                    DialOutcome::Connected | DialOutcome::Overtaken => None,
                },
                abandoned: tried.outcome == DialOutcome::Overtaken,
            })
            .collect(),
        redirects: seen
            .hops
            .iter()
            .take(MAX_REPORTED)
            .map(|hop| HopSight {
                url: sanitized(&hop.url),
                status: hop.status,
            })
            .collect(),
        error: seen.detail.clone(),
    }
}

#[cfg(test)]
mod tests {
    use parallax_model::FailureKind;

    use super::*;

    fn status(status: u16) -> Outcome {
        Outcome::Failed {
            phase: Phase::Check,
            kind: FailureKind::Status,
            status: Some(status),
        }
    }

    #[test]
    fn without_a_key_an_answer_is_one_and_a_servers_own_trouble_is_not() {
        assert_eq!(
            tolerate_missing_key(&status(404)),
            Outcome::Ok { status: Some(404) }
        );
        assert_eq!(tolerate_missing_key(&status(503)), status(503));
        let refused = Outcome::Failed {
            phase: Phase::Connect,
            kind: FailureKind::Refused,
            status: None,
        };
        assert_eq!(tolerate_missing_key(&refused), refused);
    }
}
