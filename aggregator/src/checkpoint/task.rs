//! The task that reads the checkpoint at the start and writes changes.

use std::{sync::Arc, time::Duration};

use parallax_diagnosis::Checkpoint;
use parallax_model::Micros;
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::storage::{CheckpointStorage, LoadedCheckpoint, ReadError};
use crate::checkpoint::metrics::{CheckpointMetrics, CheckpointResult};
use parallax_kubernetes::{
    replicas::{ReplicaRole, ReplicaState},
    topology_state::TopologyState,
};
use parallax_runtime::Clock;

/// Minimum and maximum backoff between attempts to read.
const READ_BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Time after which reading is given up, once the topology has nodes.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum time between two writes.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Time after which fields that change with every round are written.
const REFRESH_INTERVAL: Micros = Micros::from_secs(600);

/// Source of the echo nonce.
#[derive(Debug)]
pub(crate) enum NonceSource {
    /// The leader election's Lease.
    Election,
    /// The storage, with a fresh nonce in case it has none.
    Storage {
        epoch: u64,
        fallback: Arc<str>,
        role: watch::Sender<ReplicaRole>,
    },
}

/// Reads and writes the checkpoint.
#[derive(Debug)]
pub(crate) struct CheckpointTask {
    pub(crate) storage: CheckpointStorage,
    pub(crate) nonce: NonceSource,
    pub(crate) clock: Clock,
    pub(crate) replica: ReplicaState,
    pub(crate) metrics: CheckpointMetrics,
    pub(crate) topology: watch::Receiver<TopologyState>,
    pub(crate) restored: oneshot::Sender<Checkpoint>,
    pub(crate) latest: watch::Receiver<Option<Arc<Checkpoint>>>,
}

/// State of the writes.
#[derive(Debug, Default)]
struct CheckpointProgress {
    checkpoint: Option<Arc<Checkpoint>>,
    next_write: Option<Instant>,
    /// Whether the last write failed and has been logged.
    failing: bool,
}

impl CheckpointTask {
    /// Reads the checkpoint, then writes changes until the engine task ends, including its last checkpoint.
    pub(crate) async fn run(self, cancelled: CancellationToken) {
        let found = tokio::select! {
            () = cancelled.cancelled() => return,
            found = self.read() => found,
        };
        let nonce = match self.nonce {
            NonceSource::Election => None,
            NonceSource::Storage {
                epoch,
                fallback: fresh,
                role: part,
            } => {
                let nonce = found.nonce.unwrap_or(fresh);
                part.send_replace(ReplicaRole::Standalone {
                    epoch,
                    nonce: Arc::clone(&nonce),
                });
                Some(nonce)
            }
        };
        let (storage, replica, metrics, clock) = (self.storage, self.replica, self.metrics, self.clock);
        // The engine task may have ended already.
        let _ = self.restored.send(found.checkpoint);
        if !storage.is_persistent() {
            return;
        }
        let mut latest = self.latest;
        let mut written = CheckpointProgress::default();
        let mut led = replica.is_leader();
        while latest.changed().await.is_ok() {
            if let Some(next) = written.next_write {
                // The last checkpoint is written at once.
                tokio::select! {
                    () = sleep_until(next) => {}
                    () = cancelled.cancelled() => {}
                }
            }
            if !cancelled.is_cancelled() {
                led = replica.is_leader();
            }
            let checkpoint = latest.borrow_and_update().clone();
            let Some(checkpoint) = checkpoint.filter(|_| led) else {
                continue;
            };
            if cancelled.is_cancelled() || written.is_stale(&checkpoint) {
                written.next_write = Some(Instant::now() + MIN_WRITE_INTERVAL);
                let done = storage.write(&checkpoint, nonce.as_deref(), clock.now()).await;
                metrics.count_write(match &done {
                    Ok(()) => CheckpointResult::Written,
                    Err(_) => CheckpointResult::Failed,
                });
                written.record_write(checkpoint, done, &storage);
            }
        }
    }

    async fn read(&self) -> LoadedCheckpoint {
        let (mut rest, longest) = READ_BACKOFF;
        let started = Instant::now();
        let mut logged = false;
        loop {
            let place = self.storage.description();
            match self.storage.read().await {
                Ok(found) => {
                    if self.storage.is_persistent() {
                        let (targets, incidents) =
                            (found.checkpoint.targets.len(), found.checkpoint.incidents.len());
                        tracing::info!(%place, targets, incidents, "read the checkpoint");
                    }
                    return found;
                }
                Err(ReadError::Permanent(reason)) => {
                    tracing::error!(
                        %place, %reason,
                        "cannot read the checkpoint; starting without known targets and open incidents"
                    );
                    return LoadedCheckpoint::default();
                }
                Err(ReadError::Transient(reason)) => {
                    let judges = !self.topology.borrow().topology.nodes().is_empty();
                    if judges && started.elapsed() >= READ_TIMEOUT {
                        tracing::error!(
                            %place, %reason,
                            "timed out reading the checkpoint; starting without known targets and open incidents"
                        );
                        return LoadedCheckpoint::default();
                    }
                    if !logged {
                        tracing::warn!(%place, %reason, "cannot read the checkpoint; retrying");
                        logged = true;
                    }
                }
            }
            sleep(rest).await;
            rest = (rest * 2).min(longest);
        }
    }
}

impl CheckpointProgress {
    fn is_stale(&self, checkpoint: &Checkpoint) -> bool {
        self.checkpoint.as_ref().is_none_or(|written| {
            let (before, now) = (written.judged_until, checkpoint.judged_until);
            let old = now.is_some_and(|now| before.is_none_or(|before| now - before >= REFRESH_INTERVAL));
            old || !written.is_equivalent_to(checkpoint)
        })
    }

    fn record_write(
        &mut self,
        checkpoint: Arc<Checkpoint>,
        done: Result<(), String>,
        storage: &CheckpointStorage,
    ) {
        match done {
            Ok(()) => {
                self.checkpoint = Some(checkpoint);
                if std::mem::take(&mut self.failing) {
                    tracing::info!(place = %storage.description(), "writing the checkpoint succeeds again");
                }
            }
            Err(reason) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::error!(
                        place = %storage.description(), %reason,
                        "cannot write the checkpoint; a restart would lose known targets and open incidents"
                    );
                }
            }
        }
    }
}
