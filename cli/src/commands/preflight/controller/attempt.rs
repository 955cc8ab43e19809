//! One attempt at one Preflight: what is left of an earlier one goes, then the same is made as by the command.

use std::time::Duration;

use kube::api::DynamicObject;
use parallax_aggregator::crd::{
    objects::{Key, ObjectClient},
    preflights::PreflightStatus,
};
use parallax_preflight::{CertManagerPlacement, PreflightOwner};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        JudgedHost, PreflightContext,
        args::PreflightSettings,
        cases,
        cluster::ClusterClient,
        error::{NoVerdict, NoVerdictReason},
        leftovers,
    },
    request, status,
};
use crate::commands::query::{ApiClient, ConnectionArgs};

/// Attempts that come to nothing before it is left at that.
const MOST_ATTEMPTS: u32 = 6;

/// A status that could not be written is written again after this, so many times; then others have their turn.
const AGAIN: Duration = Duration::from_secs(2);
const MOST_WRITES: u32 = 15;
/// When its own turn is again.
const LATER: Duration = Duration::from_mins(1);

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptResult {
    /// Its status says how.
    Over,
    /// It came to nothing, and may come to something after this.
    Again(Duration),
    /// It was told to stop, and nothing of it is left.
    Stopped,
}

/// What all attempts share.
pub(super) struct AttemptContext {
    pub(super) objects: ObjectClient,
    pub(super) cluster: ClusterClient,
    pub(super) way: ConnectionArgs,
    pub(super) setting: PreflightSettings,
    pub(super) backoff: Duration,
}

impl AttemptContext {
    /// Makes one, and says in its status what came of it.
    pub(super) async fn make(
        &self,
        key: &Key,
        mut object: DynamicObject,
        stop: CancellationToken,
    ) -> AttemptResult {
        let (namespace, name) = key;
        tracing::info!(namespace, name, "begun");
        let begun = status::under_way(&object);
        if let Some(ended) = self.say(key, &object, &begun, &stop).await {
            return ended;
        }
        object.data["status"] = serde_json::to_value(&begun).unwrap_or_default();
        let (status, ended) = match self.verdicts(key, &object, &stop).await {
            Ok((seat, cases, strict)) => (
                status::answered(&object, &seat, &cases, strict),
                AttemptResult::Over,
            ),
            // Told to stop: whoever comes next begins anew.
            Err(trouble) if trouble.why == NoVerdictReason::Interrupted => {
                tracing::info!(namespace, name, "stopped; {}", trouble.failure);
                return AttemptResult::Stopped;
            }
            Err(trouble) => {
                let before = status::attempts(&object);
                let pause = self.backoff * 2_u32.pow(before.min(MOST_ATTEMPTS));
                let again = (trouble.why.passes() && before + 1 < MOST_ATTEMPTS).then_some(pause);
                tracing::warn!(
                    namespace,
                    name,
                    reason = trouble.why.reason(),
                    "{}",
                    trouble.failure
                );
                let seconds = again.map(|pause| pause.as_secs());
                (
                    status::failed(&object, &trouble, seconds),
                    again.map_or(AttemptResult::Over, AttemptResult::Again),
                )
            }
        };
        if let Some(ended) = self.say(key, &object, &status, &stop).await {
            return ended;
        }
        let ready = status.conditions.first();
        tracing::info!(
            namespace,
            name,
            ready = ready.map(|ready| ready.status.as_str()),
            reason = ready.map(|ready| ready.reason.as_str()),
            "ended"
        );
        ended
    }

    async fn verdicts(
        &self,
        (namespace, name): &Key,
        object: &DynamicObject,
        stop: &CancellationToken,
    ) -> Result<(CertManagerPlacement, Vec<JudgedHost>, bool), NoVerdict> {
        let owner = PreflightOwner {
            name: name.clone(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
        };
        // Also before what is wrong with it is said: it may have been another yesterday.
        leftovers::of_preflight(&self.cluster, namespace, &owner.uid).await?;
        let (asked, body) = request::read(&object.data["spec"], namespace, &self.setting)?;
        let client = self.aggregator().await?;
        let place = PreflightContext {
            client: &client,
            cluster: Some(&self.cluster),
            owner: Some(&owner),
            stop,
            tell: &|said| tracing::info!(namespace, name, "{said}"),
            progress: false,
        };
        let (seat, cases) = cases(&asked, &place).await?;
        Ok((seat, cases, body.strict))
    }

    /// The aggregator, with the token that is good now; a way through the API server is opened for each attempt.
    async fn aggregator(&self) -> Result<ApiClient, NoVerdict> {
        let (way, namespace) = (self.way.clone(), self.setting.parallax_namespace.clone());
        // It has a runtime of its own.
        let opened = tokio::task::spawn_blocking(move || ApiClient::by(&way, namespace.as_deref())).await;
        match opened {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(failure)) => Err(NoVerdictReason::AggregatorUnreachable.but(failure)),
            Err(ended) => Err(NoVerdictReason::AggregatorUnreachable
                .could_not(format!("the way to the aggregator could not be opened: {ended}"))),
        }
    }

    /// Writes the status, if it takes a few times; where it was never taken, what that means for the attempt.
    async fn say(
        &self,
        key: &Key,
        object: &DynamicObject,
        status: &PreflightStatus,
        stop: &CancellationToken,
    ) -> Option<AttemptResult> {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let Ok(status) = serde_json::to_value(status) else {
            // It never could be.
            return None;
        };
        for _ in 0..MOST_WRITES {
            if self.objects.say_to(key, uid, &status).await {
                return None;
            }
            if stop.run_until_cancelled(sleep(AGAIN)).await.is_none() {
                return Some(AttemptResult::Stopped);
            }
        }
        Some(AttemptResult::Again(LATER))
    }
}
