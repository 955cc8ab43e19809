//! What the engine must not forget when its process ends, kept outside of it: which targets ever worked, what they answer
//! while they do, and which incidents are open.
//!
//! ```text
//! start:   Storage ─▶ read ─▶ CheckpointTask ─▶ hub (engine.restore) ─▶ reports are taken, rounds are judged
//! running: hub (engine.checkpoint, after each change) ─▶ CheckpointTask (leader only) ─▶ write ─▶ Storage
//! ```
//!
//! A checkpoint bridges the time before the minutes that the probers remember themselves. Where it cannot be read, the
//! aggregator starts without it and says so; where it cannot be written, probing and judging go on.

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

/// `checkpoint`: where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointOptions {
    /// In a `ConfigMap` that the manifests made.
    ConfigMap(ObjectKey),
    /// In a file of its own.
    File(PathBuf),
}

/// The hub's ends: what it starts with, and what it hands out.
#[derive(Debug)]
pub(crate) struct EngineCheckpoint {
    /// What was kept. Rounds wait for it.
    pub(crate) restored: oneshot::Receiver<Checkpoint>,
    /// What is to be kept, as of the last change. Closed where nothing is kept.
    pub(crate) latest: watch::Sender<Option<Arc<Checkpoint>>>,
    /// Whether the engine has taken up what was kept.
    pub(crate) ready: watch::Sender<bool>,
}
