//! One order with Pebble, as an ACME client places it, until its validation is complete.

use std::time::Duration;

use anyhow::{Context, bail};
use instant_acme::{Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewOrder, Order};
use tokio::time;

use crate::verdict::{ExplainedVerdict, Verdict};

/// Timeout, longer than any of Pebble's validations even on a busy machine.
const VALIDATION_TIMEOUT: Duration = Duration::from_mins(2);

/// Interval of polling Pebble for the result, which it does not announce.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An order whose challenge has not been accepted yet.
pub struct PendingOrder {
    order: Order,
    /// The challenge's token.
    pub token: String,
    /// The key authorization to serve.
    pub key: String,
}

impl PendingOrder {
    /// Orders a certificate for a name.
    ///
    /// # Errors
    /// Pebble's error.
    pub async fn new(account: &Account, name: &str) -> anyhow::Result<Self> {
        let identifiers = [Identifier::Dns(name.to_owned())];
        let mut order = account
            .new_order(&NewOrder::new(&identifiers))
            .await
            .with_context(|| format!("ordering a certificate for {name}"))?;
        let (token, key) = {
            let mut authorizations = order.authorizations();
            let mut authorization = authorizations.next().await.context("no authorization")??;
            let challenge = authorization
                .challenge(ChallengeType::Http01)
                .context("no HTTP-01 challenge")?;
            (
                challenge.token.clone(),
                challenge.key_authorization().as_str().to_owned(),
            )
        };
        Ok(Self { order, token, key })
    }

    /// Accepts the challenge and waits for Pebble's validation.
    ///
    /// # Errors
    /// If the validation does not complete.
    pub async fn validate(self) -> anyhow::Result<ExplainedVerdict> {
        time::timeout(VALIDATION_TIMEOUT, self.ended())
            .await
            .with_context(|| format!("the validation did not complete within {VALIDATION_TIMEOUT:?}"))?
    }

    async fn ended(mut self) -> anyhow::Result<ExplainedVerdict> {
        let acceptance = {
            let mut authorizations = self.order.authorizations();
            let mut authorization = authorizations.next().await.context("no authorization")??;
            authorization
                .challenge(ChallengeType::Http01)
                .context("no HTTP-01 challenge")?
                .set_ready()
                .await
        };
        // Pebble validates concurrently with its answer (`ValidateChallenge` in Pebble's `va/va.go` only queues the
        // challenge). A validation that fails at once is part of that answer, and the client reports its problem as
        // an error of the acceptance. The authorization, which Pebble changes first, tells the two apart.
        let mut problem_of_acceptance = match acceptance {
            Ok(()) => None,
            Err(error @ Error::Api(_)) => Some(error),
            Err(error) => return Err(error).context("accepting the challenge"),
        };
        let mut authorizations = self.order.authorizations();
        let mut authorization = authorizations.next().await.context("no authorization")??;
        loop {
            let state = authorization
                .refresh()
                .await
                .context("fetching the authorization")?;
            match state.status {
                AuthorizationStatus::Pending => {
                    if let Some(error) = problem_of_acceptance.take() {
                        return Err(error).context("accepting the challenge");
                    }
                }
                AuthorizationStatus::Valid => {
                    return Ok(ExplainedVerdict {
                        verdict: Verdict::Valid,
                        detail: String::new(),
                    });
                }
                AuthorizationStatus::Invalid => {
                    let problem = state
                        .challenges
                        .iter()
                        .find_map(|challenge| challenge.error.as_ref())
                        .context("an invalid authorization without a problem")?;
                    return ExplainedVerdict::from_pebble(
                        problem.r#type.as_deref().unwrap_or_default(),
                        problem.detail.as_deref().unwrap_or_default(),
                    );
                }
                other => bail!("unexpected authorization status {other:?}"),
            }
            time::sleep(POLL_INTERVAL).await;
        }
    }
}
