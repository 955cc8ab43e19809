//! Sources of the topology: files or the cluster.

mod content;
mod file;
pub(crate) mod kube;
mod startup;

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::startup::StartupConfig;
use crate::config::TopologySource;
use parallax_kubernetes::{objects::resource::WatchSource, pod_registry::PodRegistry};
use parallax_kubernetes::{topology_state::SourceState, watch::WatchHealth};
use parallax_runtime::Clock;

/// Poll interval of files. Changes are detected by content, not by time stamp: a `ConfigMap` mount swaps a symbolic
/// link, and an editor may write twice within one tick of the file system's clock.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Watches the source until cancelled.
pub(crate) async fn watch_source(
    (source, started): (TopologySource, StartupConfig),
    state: watch::Sender<SourceState>,
    watches: watch::Sender<WatchHealth<WatchSource>>,
    pod_registry: Option<Arc<PodRegistry>>,
    clock: Clock,
    cancelled: CancellationToken,
) {
    match source.kubernetes.clone() {
        Some(kubernetes) => {
            kube::watch_cluster(source, kubernetes, state, watches, pod_registry, clock, cancelled).await;
        }
        None => file::watch_files(source, started, state, clock, cancelled).await,
    }
}
