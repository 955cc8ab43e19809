//! Where the topology comes from.

mod file;
pub(crate) mod kube;
mod startup;

use std::{hash::Hasher, sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::startup::StartupConfig;
use crate::config::TopologySource;
use parallax_kubernetes::{objects::resource::WatchSource, pod_registry::PodRegistry};
use parallax_kubernetes::{topology_state::SourceState, watch::WatchHealth};
use parallax_runtime::Clock;

/// How often a file is looked at. Content decides, not the time stamp: a `ConfigMap` mount swaps a symbolic link,
/// an editor may write twice within one tick of the file system's clock.
const POLL: Duration = Duration::from_millis(500);

/// Enough to see that a file changed; what it says is compared afterwards.
fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Follows the source until cancelled.
pub(crate) async fn follow(
    (source, started): (TopologySource, StartupConfig),
    state: watch::Sender<SourceState>,
    watches: watch::Sender<WatchHealth<WatchSource>>,
    book: Option<Arc<PodRegistry>>,
    clock: Clock,
    cancelled: CancellationToken,
) {
    match source.kubernetes.clone() {
        Some(kubernetes) => kube::follow(source, kubernetes, state, watches, book, clock, cancelled).await,
        None => file::follow(source, started, state, clock, cancelled).await,
    }
}
