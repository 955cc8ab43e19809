//! Where what people did outlives the aggregator that was told: a `ConfigMap` that the manifests made. The one that leads
//! writes it, all read it, and whoever leads next begins with what it says.
//!
//! It is written with the version that was read, so of two writers one is refused and looks again; entries carry when they
//! were changed, so a write of a former leader that arrives late takes nothing back.

use std::{sync::Arc, time::Duration};

use kube::api::PostParams;
use parallax_kubernetes::{
    api_client::ApiClient,
    config_map::{self, ConfigMapError, GET, UPDATE, within},
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

/// Time between two looks: what another replica wrote is known here after as long.
const LOOK: Duration = Duration::from_secs(5);
/// A call that takes longer failed.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long whoever does something waits until it is written, or until what was done before is known.
const WAIT: Duration = Duration::from_secs(3);
/// Looks in a row while somebody else writes in between.
const TRIES: u32 = 5;

/// The object, and how far memory and object agree.
#[derive(Debug)]
pub struct ActionConfigMap {
    client: ApiClient,
    place: ObjectKey,
    replica: ReplicaState,
    metrics: IncidentActionMetrics,
    /// Rung when there is something to write.
    bell: Notify,
    /// The last change that is written.
    written: watch::Sender<u64>,
    /// The epoch of ours at whose beginning the object was read.
    begun: watch::Sender<Option<u64>>,
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
            place,
            replica,
            metrics,
            bell: Notify::new(),
            written: watch::Sender::new(0),
            begun: watch::Sender::new(None),
        }
    }

    /// Waits until what was done before we led is known, for a bounded time.
    pub(super) async fn ready(&self) {
        let Some((epoch, _)) = self.replica.part().planning() else {
            return;
        };
        let mut begun = self.begun.subscribe();
        // Without it what was done before is joined later, entry by entry.
        let _ = timeout(WAIT, begun.wait_for(|begun| *begun == Some(epoch))).await;
    }

    /// Whether a change is written, once that is so or has taken too long.
    pub(super) async fn keeps(&self, change: u64) -> bool {
        self.bell.notify_one();
        let mut written = self.written.subscribe();
        matches!(
            timeout(WAIT, written.wait_for(|written| *written >= change)).await,
            Ok(Ok(_))
        )
    }

    /// Keeps memory and object together until cancelled.
    pub(super) async fn run(&self, desk: &Arc<ActionManager>, cancelled: CancellationToken) {
        let mut changes = self.replica.changes();
        let mut said = None;
        loop {
            let turned = tokio::select! {
                () = cancelled.cancelled() => return,
                turned = self.turn(desk) => turned,
            };
            match turned {
                Ok(()) => {
                    if said.take().is_some() {
                        tracing::info!(configmap = %self.place, "what people do about incidents is shared again");
                    }
                }
                Err(trouble) => {
                    let text = trouble.to_string();
                    if said.as_ref() != Some(&text) {
                        tracing::warn!(configmap = %self.place, reason = %text, "what people do about incidents is in the memory of this aggregator only; trying again");
                        said = Some(text);
                    }
                }
            }
            self.metrics.unshared(said.is_some());
            let next = Instant::now() + LOOK;
            tokio::select! {
                () = cancelled.cancelled() => return,
                // While it fails, those who wait are answered at their own time, and a flood of them asks no oftener.
                () = self.bell.notified(), if said.is_none() => {}
                () = changes.next() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Reads, joins, and where we lead writes what the object lacks.
    async fn turn(&self, desk: &ActionManager) -> Result<(), ConfigMapError> {
        let api = config_map::api(&self.client, &self.place);
        let name = self.place.name.as_str();
        for again in 0..TRIES {
            if again > 0 {
                // Whoever writes in between is a former leader's last word, not a flood.
                sleep(Duration::from_millis(20) * again).await;
            }
            let epoch = self.replica.part().planning().map(|(epoch, _)| epoch);
            let mut map = within(PATIENCE, GET, api.get(name)).await?;
            let lines = map.data.take().unwrap_or_default();
            let there = ActionDocument::read(&lines);
            let (all, change) = desk.join(there.clone());
            if epoch.is_none() {
                return Ok(());
            }
            self.begun.send_replace(epoch);
            if !all.agrees(&there) {
                // Lines of a newer version than ours stay as they are.
                let foreign = lines
                    .into_iter()
                    .filter(|(key, line)| !ActionDocument::owns(key, line));
                map.data = Some(foreign.chain(all.lines()).collect());
                match within(PATIENCE, UPDATE, api.replace(name, &PostParams::default(), &map)).await {
                    Err(ConfigMapError::Conflict) => continue,
                    done => drop(done?),
                }
            }
            desk.shared(&all);
            self.written.send_replace(change);
            return Ok(());
        }
        Err(ConfigMapError::Conflict)
    }
}
