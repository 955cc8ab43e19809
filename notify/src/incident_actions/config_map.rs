//! Persistence of actions in a `ConfigMap` that the manifests create. The leader writes it, all replicas read it, and
//! the next leader starts from it.
//!
//! Writes carry the `resourceVersion` that was read, so that of two concurrent writers one gets a conflict and reads
//! again. Entries carry the time of their change, so that a late write of a former leader reverts nothing.

use std::{sync::Arc, time::Duration};

use kube::api::PostParams;
use parallax_kubernetes::{
    api_client::ApiClient,
    config_map::{self, ConfigMapError, GET_DENIED, UPDATE_DENIED, with_timeout},
    object_key::ObjectKey,
    replicas::ReplicaState,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{ActionManager, document::ActionDocument};
use crate::incident_actions::IncidentActionMetrics;

/// Time between two reads: the longest delay until a write of another replica is known here.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of one API call.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a request waits until its change is written, or until the previous leader's actions are known.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Attempts in a row after write conflicts.
const MAX_ATTEMPTS: u32 = 5;

/// The `ConfigMap`, and how far memory and `ConfigMap` are in sync.
#[derive(Debug)]
pub struct ActionConfigMap {
    client: ApiClient,
    key: ObjectKey,
    replica: ReplicaState,
    metrics: IncidentActionMetrics,
    /// Wakes the task when there is something to write.
    write_requested: Notify,
    /// The number of the last change that is written.
    last_written: watch::Sender<u64>,
    /// The latest epoch in which this replica, as the leader, has read the `ConfigMap`.
    read_in_epoch: watch::Sender<Option<u64>>,
}

impl ActionConfigMap {
    /// Persists actions in this ConfigMap.
    #[must_use]
    pub fn new(
        client: ApiClient,
        place: ObjectKey,
        replica: ReplicaState,
        metrics: IncidentActionMetrics,
    ) -> Self {
        Self {
            client,
            key: place,
            replica,
            metrics,
            write_requested: Notify::new(),
            last_written: watch::Sender::new(0),
            read_in_epoch: watch::Sender::new(None),
        }
    }

    /// Waits until the actions of the previous leader are known, for a bounded time.
    pub(super) async fn wait_until_read(&self) {
        let Some((epoch, _)) = self.replica.role().plan_identity() else {
            return;
        };
        let mut begun = self.read_in_epoch.subscribe();
        // After a timeout they are merged later, entry by entry.
        let _ = timeout(REQUEST_TIMEOUT, begun.wait_for(|begun| *begun == Some(epoch))).await;
    }

    /// Waits until a change is written, for a bounded time. Returns whether it is.
    pub(super) async fn persisted(&self, change: u64) -> bool {
        self.write_requested.notify_one();
        let mut written = self.last_written.subscribe();
        matches!(
            timeout(REQUEST_TIMEOUT, written.wait_for(|written| *written >= change)).await,
            Ok(Ok(_))
        )
    }

    /// Keeps memory and `ConfigMap` in sync until cancelled.
    pub(super) async fn run(&self, actions: &Arc<ActionManager>, cancelled: CancellationToken) {
        let mut changes = self.replica.changes();
        let mut last_error = None;
        loop {
            let turned = tokio::select! {
                () = cancelled.cancelled() => return,
                turned = self.sync(actions) => turned,
            };
            match turned {
                Ok(()) => {
                    if last_error.take().is_some() {
                        tracing::info!(configmap = %self.key, "actions on incidents are shared with the other replicas again");
                    }
                }
                Err(error) => {
                    let text = error.to_string();
                    if last_error.as_ref() != Some(&text) {
                        tracing::warn!(configmap = %self.key, reason = %text, "actions on incidents are in the memory of this aggregator only; retrying");
                        last_error = Some(text);
                    }
                }
            }
            self.metrics.set_unshared(last_error.is_some());
            let next = Instant::now() + POLL_INTERVAL;
            tokio::select! {
                () = cancelled.cancelled() => return,
                // While writes fail, requests run into their timeout and do not trigger more attempts.
                () = self.write_requested.notified(), if last_error.is_none() => {}
                () = changes.next() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Reads and merges; the leader then writes the entries that the `ConfigMap` lacks.
    async fn sync(&self, actions: &ActionManager) -> Result<(), ConfigMapError> {
        let api = config_map::api(&self.client, &self.key);
        let name = self.key.name.as_str();
        for again in 0..MAX_ATTEMPTS {
            if again > 0 {
                // The only concurrent writer is a former leader with its last write.
                sleep(Duration::from_millis(20) * again).await;
            }
            let epoch = self.replica.role().plan_identity().map(|(epoch, _)| epoch);
            let mut map = with_timeout(API_SERVER_TIMEOUT, GET_DENIED, api.get(name)).await?;
            let lines = map.data.take().unwrap_or_default();
            let stored = ActionDocument::parse(&lines);
            let (all, change) = actions.merge(stored.clone());
            if epoch.is_none() {
                return Ok(());
            }
            self.read_in_epoch.send_replace(epoch);
            if !all.has_same_versions(&stored) {
                // Lines of a newer version stay as they are.
                let foreign = lines
                    .into_iter()
                    .filter(|(key, line)| !ActionDocument::can_parse(key, line));
                map.data = Some(foreign.chain(all.to_lines()).collect());
                match with_timeout(
                    API_SERVER_TIMEOUT,
                    UPDATE_DENIED,
                    api.replace(name, &PostParams::default(), &map),
                )
                .await
                {
                    Err(ConfigMapError::Conflict) => continue,
                    done => drop(done?),
                }
            }
            actions.mark_persisted(&all);
            self.last_written.send_replace(change);
            return Ok(());
        }
        Err(ConfigMapError::Conflict)
    }
}
