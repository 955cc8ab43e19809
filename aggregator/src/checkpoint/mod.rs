//! Persists the engine state that must survive a restart: which targets have ever worked, their baselines, and open
//! incidents.
//!
//! ```text
//! start:   storage ─▶ CheckpointTask (read) ─▶ engine task (restore) ─▶ reports are accepted, rounds are judged
//! running: engine task (checkpoint after each change) ─▶ CheckpointTask (leader only) ─▶ storage (write)
//! ```
//!
//! A checkpoint covers the time before the minutes that the probers buffer themselves. If it cannot be read, the
//! aggregator logs an error and starts without it; if it cannot be written, probing and diagnosis continue.

mod document;
mod metrics;
mod storage;
mod task;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc};

use parallax_diagnosis::Checkpoint;
use tokio::sync::{oneshot, watch};

pub(crate) use metrics::CheckpointMetrics;
pub(crate) use storage::CheckpointStorage;
pub(crate) use task::{CheckpointTask, NonceSource};

use parallax_kubernetes::object_key::ObjectKey;

/// `checkpoint`: the storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointOptions {
    /// A `ConfigMap` created by the manifests.
    ConfigMap(ObjectKey),
    /// A file.
    File(PathBuf),
}

/// The engine task's side: the checkpoint to restore, and the latest one to write.
#[derive(Debug)]
pub(crate) struct EngineCheckpoint {
    /// The checkpoint to restore. Rounds wait for it.
    pub(crate) restored: oneshot::Receiver<Checkpoint>,
    /// The latest checkpoint. Closed if there is no storage.
    pub(crate) latest: watch::Sender<Option<Arc<Checkpoint>>>,
    /// Whether the engine has restored the checkpoint.
    pub(crate) restored_flag: watch::Sender<bool>,
}
