//! Controller of `Target` objects: watches them for the topology and writes their status.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use parallax_kubernetes::{api_client::ApiClient, replicas::ReplicaState};
use serde_json::Value;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    judgement::{TargetObjects, TargetReview, TargetVerdict},
    objects::{KnownObjects, ObjectClient, condition},
    resource::CustomResourceKind,
    types::TargetStatus,
};

/// Debounce period of changes.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Delay before a failed status write is retried.
const STATUS_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Watches `Target` objects and writes their status.
#[derive(Debug)]
pub(crate) struct TargetController {
    pub(crate) client: ApiClient,
    /// Only the leader writes.
    pub(crate) replica: ReplicaState,
    /// The objects, for the topology.
    pub(crate) objects: watch::Sender<Arc<TargetObjects>>,
    /// Their review by the reducer.
    pub(crate) review: watch::Receiver<Arc<TargetReview>>,
}

impl TargetController {
    /// Runs until cancelled. While the API server is unavailable, the known objects are kept.
    pub(crate) async fn run(mut self, cancelled: CancellationToken) {
        let client = ObjectClient::new(self.client.clone(), CustomResourceKind::Target);
        let mut updates = client.watch();
        let mut known = KnownObjects::default();
        let mut unwritten = false;
        let mut roles = self.replica.changes();
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = roles.next() => {}
                () = sleep(STATUS_RETRY_DELAY), if unwritten => {}
                changed = self.review.changed() => if changed.is_err() { return },
                update = updates.next() => {
                    let Some(update) = update else { return };
                    if known.apply(update) {
                        sleep(DEBOUNCE).await;
                        while let Some(Some(update)) = updates.next().now_or_never() {
                            known.apply(update);
                        }
                        self.objects.send_replace(Arc::new(known.objects().clone()));
                    }
                    continue;
                },
            }
            if !self.replica.is_leader() {
                unwritten = false;
                continue;
            }
            let review = self.review.borrow_and_update().clone();
            unwritten = tokio::select! {
                () = cancelled.cancelled() => return,
                all = write_statuses(&client, &review) => !all,
            };
        }
    }
}

/// Writes each status that differs from the object's; returns whether all writes succeeded.
async fn write_statuses(client: &ObjectClient, review: &TargetReview) -> bool {
    let mut all = true;
    for (key, verdict) in &review.judgement.verdicts {
        if let Some(status) = review
            .objects
            .get(key)
            .and_then(|object| changed_status(object, verdict))
        {
            all &= client.write_status(key, &status).await;
        }
    }
    all
}

/// Returns the status if it differs from the object's.
fn changed_status(object: &kube::api::DynamicObject, verdict: &TargetVerdict) -> Option<Value> {
    let summary = match verdict {
        TargetVerdict::Accepted(_) => ("True", "Probed", "the target is probed"),
        TargetVerdict::Rejected { reason, message } => ("False", *reason, message.as_str()),
    };
    let status = TargetStatus {
        observed_generation: object.metadata.generation,
        target: match verdict {
            TargetVerdict::Accepted(id) => Some(id.to_string()),
            TargetVerdict::Rejected { .. } => None,
        },
        conditions: vec![condition(object, "Accepted", summary)],
    };
    let mut status = serde_json::to_value(status).ok()?;
    if status == object.data["status"] {
        return None;
    }
    // A merge patch keeps absent fields, so an earlier id must be set to null.
    if let Some(fields) = status.as_object_mut() {
        fields.entry("target").or_insert(Value::Null);
    }
    let same = status["target"].is_null()
        && object.data["status"]["target"].is_null()
        && status["conditions"] == object.data["status"]["conditions"];
    (!same).then_some(status)
}
