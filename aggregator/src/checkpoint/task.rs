//! Reads what was kept before anything is judged, then keeps what changes.

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

/// Rests between two tries to read.
const RESTS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// A storage that still does not answer when there is something to judge, and so long after the first try, is given up.
const LONGEST: Duration = Duration::from_secs(30);
/// Time between two writes.
const PACE: Duration = Duration::from_secs(5);
/// What changes with every round is kept this often.
const REFRESH: Micros = Micros::from_secs(600);

/// Who says what echoes answer to.
#[derive(Debug)]
pub(crate) enum NonceSource {
    /// The Lease.
    Election,
    /// The storage: told here, with this for where it does not know.
    Storage {
        epoch: u64,
        fresh: Arc<str>,
        part: watch::Sender<ReplicaRole>,
    },
}

/// Its owner is the aggregator, which awaits [`Self::run`].
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

/// What is known to be kept, and since when.
#[derive(Debug, Default)]
struct CheckpointProgress {
    checkpoint: Option<Arc<Checkpoint>>,
    next: Option<Instant>,
    /// The last write failed, which has been said.
    fails: bool,
}

impl CheckpointTask {
    /// Reads, then keeps until the hub is gone, and its last word too.
    pub(crate) async fn run(self, cancelled: CancellationToken) {
        let found = tokio::select! {
            () = cancelled.cancelled() => return,
            found = self.read() => found,
        };
        let nonce = match self.nonce {
            NonceSource::Election => None,
            NonceSource::Storage { epoch, fresh, part } => {
                let nonce = found.nonce.unwrap_or(fresh);
                part.send_replace(ReplicaRole::Alone {
                    epoch,
                    nonce: Arc::clone(&nonce),
                });
                Some(nonce)
            }
        };
        let (storage, replica, metrics, clock) = (self.storage, self.replica, self.metrics, self.clock);
        // The hub may be gone already.
        let _ = self.restored.send(found.checkpoint);
        if !storage.keeps() {
            return;
        }
        let mut latest = self.latest;
        let mut written = CheckpointProgress::default();
        let mut led = replica.leads();
        while latest.changed().await.is_ok() {
            if let Some(next) = written.next {
                // The last word does not wait.
                tokio::select! {
                    () = sleep_until(next) => {}
                    () = cancelled.cancelled() => {}
                }
            }
            if !cancelled.is_cancelled() {
                led = replica.leads();
            }
            let checkpoint = latest.borrow_and_update().clone();
            let Some(checkpoint) = checkpoint.filter(|_| led) else {
                continue;
            };
            if cancelled.is_cancelled() || written.is_stale(&checkpoint) {
                written.next = Some(Instant::now() + PACE);
                let done = storage.write(&checkpoint, nonce.as_deref(), clock.now()).await;
                metrics.wrote(match &done {
                    Ok(()) => CheckpointResult::Written,
                    Err(_) => CheckpointResult::Failed,
                });
                written.done(checkpoint, done, &storage);
            }
        }
    }

    async fn read(&self) -> LoadedCheckpoint {
        let (mut rest, longest) = RESTS;
        let started = Instant::now();
        let mut said = false;
        loop {
            let place = self.storage.place();
            match self.storage.read().await {
                Ok(found) => {
                    if self.storage.keeps() {
                        let (targets, incidents) =
                            (found.checkpoint.targets.len(), found.checkpoint.incidents.len());
                        tracing::info!(%place, targets, incidents, "read the checkpoint");
                    }
                    return found;
                }
                Err(ReadError::Lasting(reason)) => {
                    tracing::error!(
                        %place, %reason,
                        "the checkpoint cannot be read; starting without what worked and which incidents were open"
                    );
                    return LoadedCheckpoint::default();
                }
                Err(ReadError::Transient(reason)) => {
                    let judges = !self.topology.borrow().topology.nodes().is_empty();
                    if judges && started.elapsed() >= LONGEST {
                        tracing::error!(
                            %place, %reason,
                            "the checkpoint could not be read in time; starting without what worked and which \
                             incidents were open"
                        );
                        return LoadedCheckpoint::default();
                    }
                    if !said {
                        tracing::warn!(%place, %reason, "the checkpoint cannot be read; trying again");
                        said = true;
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
            let (before, now) = (written.judged, checkpoint.judged);
            let old = now.is_some_and(|now| before.is_none_or(|before| now - before >= REFRESH));
            old || !written.agrees_with(checkpoint)
        })
    }

    fn done(&mut self, checkpoint: Arc<Checkpoint>, done: Result<(), String>, storage: &CheckpointStorage) {
        match done {
            Ok(()) => {
                self.checkpoint = Some(checkpoint);
                if std::mem::take(&mut self.fails) {
                    tracing::info!(place = %storage.place(), "the checkpoint is written again");
                }
            }
            Err(reason) => {
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::error!(
                        place = %storage.place(), %reason,
                        "the checkpoint cannot be written; a restart would forget what worked and which incidents are open"
                    );
                }
            }
        }
    }
}
