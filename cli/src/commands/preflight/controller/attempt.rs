//! One attempt at a Preflight: removes leftovers of an earlier attempt, then makes the preflight as the command
//! does.

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
        cleanup,
        cluster::ClusterClient,
        error::{NoVerdict, NoVerdictReason},
        make_preflights,
    },
    request, status,
};
use crate::commands::query::{ApiClient, ConnectionArgs};

/// The maximum number of attempts.
const MAX_ATTEMPTS: u32 = 6;

/// The delay and the maximum number of writes of a status before the attempt yields to other Preflights.
const STATUS_RETRY_DELAY: Duration = Duration::from_secs(2);
const MAX_STATUS_WRITES: u32 = 15;
/// The delay before an attempt that yielded is resumed.
const RESUME_DELAY: Duration = Duration::from_mins(1);

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttemptResult {
    /// Finished; the status contains the result.
    Finished,
    /// Failed; a retry after this delay may succeed. It continues from the status that was written, if any, because the
    /// watch may not have returned it by then.
    Retry(Duration, Option<Box<PreflightStatus>>),
    /// Stopped on request; nothing is left over.
    Stopped,
}

/// The state that all attempts share.
pub(super) struct AttemptContext {
    pub(super) objects: ObjectClient,
    pub(super) cluster: ClusterClient,
    pub(super) connection: ConnectionArgs,
    pub(super) settings: PreflightSettings,
    pub(super) backoff: Duration,
}

impl AttemptContext {
    /// Makes one attempt and writes its result to the status.
    pub(super) async fn run(
        &self,
        key: &Key,
        mut object: DynamicObject,
        stop: CancellationToken,
    ) -> AttemptResult {
        let (namespace, name) = key;
        tracing::info!(namespace, name, "preflight started");
        let begun = status::running(&object);
        if let Some(ended) = self.write_status(key, &object, &begun, &stop).await {
            return ended;
        }
        object.data["status"] = serde_json::to_value(&begun).unwrap_or_default();
        let (status, ended) = match self.judge(key, &object, &stop).await {
            Ok((placement, cases, strict)) => (
                status::finished(&object, &placement, &cases, strict),
                AttemptResult::Finished,
            ),
            // Stopped on request; the next controller starts over.
            Err(no_verdict) if no_verdict.reason == NoVerdictReason::Interrupted => {
                tracing::info!(namespace, name, "preflight stopped: {}", no_verdict.failure);
                return AttemptResult::Stopped;
            }
            Err(no_verdict) => {
                let before = status::attempts(&object);
                let pause = self.backoff * 2_u32.pow(before.min(MAX_ATTEMPTS));
                let again = (no_verdict.reason.is_temporary() && before + 1 < MAX_ATTEMPTS).then_some(pause);
                tracing::warn!(
                    namespace,
                    name,
                    reason = no_verdict.reason.reason(),
                    "{}",
                    no_verdict.failure
                );
                let seconds = again.map(|pause| pause.as_secs());
                let status = status::failed(&object, &no_verdict, seconds);
                let ended = again.map_or(AttemptResult::Finished, |pause| {
                    AttemptResult::Retry(pause, Some(Box::new(status.clone())))
                });
                (status, ended)
            }
        };
        if let Some(ended) = self.write_status(key, &object, &status, &stop).await {
            return ended;
        }
        let ready = status.conditions.first();
        tracing::info!(
            namespace,
            name,
            ready = ready.map(|ready| ready.status.as_str()),
            reason = ready.map(|ready| ready.reason.as_str()),
            "preflight finished"
        );
        ended
    }

    async fn judge(
        &self,
        (namespace, name): &Key,
        object: &DynamicObject,
        stop: &CancellationToken,
    ) -> Result<(CertManagerPlacement, Vec<JudgedHost>, bool), NoVerdict> {
        let owner = PreflightOwner {
            name: name.clone(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
        };
        // Leftovers are removed even if the spec turns out to be invalid: it may have been valid earlier.
        cleanup::remove_for_preflight(&self.cluster, namespace, &owner.uid).await?;
        let (request, body) = request::from_spec(&object.data["spec"], namespace, &self.settings)?;
        let client = self.connect_aggregator().await?;
        let place = PreflightContext {
            client: &client,
            cluster: Some(&self.cluster),
            owner: Some(&owner),
            stop,
            notify: &|message| tracing::info!(namespace, name, "{message}"),
            progress: false,
        };
        let (placement, cases) = make_preflights(&request, &place).await?;
        Ok((placement, cases, body.strict))
    }

    /// Returns a client with a current token. Access through the API server is opened anew for each attempt.
    async fn connect_aggregator(&self) -> Result<ApiClient, NoVerdict> {
        let (way, namespace) = (self.connection.clone(), self.settings.parallax_namespace.clone());
        // The connection has a runtime of its own.
        let opened =
            tokio::task::spawn_blocking(move || ApiClient::connect(&way, namespace.as_deref())).await;
        match opened {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(failure)) => Err(NoVerdictReason::AggregatorUnreachable.with_failure(failure)),
            Err(ended) => Err(NoVerdictReason::AggregatorUnreachable
                .indeterminate(format!("cannot open a connection to the aggregator: {ended}"))),
        }
    }

    /// Writes the status, with retries. Returns a result if it could not be written.
    async fn write_status(
        &self,
        key: &Key,
        object: &DynamicObject,
        status: &PreflightStatus,
        stop: &CancellationToken,
    ) -> Option<AttemptResult> {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let Ok(status) = serde_json::to_value(status) else {
            // It cannot be serialized, so a retry is pointless.
            return None;
        };
        for _ in 0..MAX_STATUS_WRITES {
            if self.objects.write_status_of_uid(key, uid, &status).await {
                return None;
            }
            if stop
                .run_until_cancelled(sleep(STATUS_RETRY_DELAY))
                .await
                .is_none()
            {
                return Some(AttemptResult::Stopped);
            }
        }
        Some(AttemptResult::Retry(RESUME_DELAY, None))
    }
}
