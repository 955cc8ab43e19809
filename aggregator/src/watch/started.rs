//! What a configuration says that only a start can change, held against what it says now.

use std::net::SocketAddr;

use super::{Note, Timing, kube::Kubernetes};
use crate::{config::Config, replicas::ReplicaOptions};

/// As at the start: what is running.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Started {
    listen: SocketAddr,
    kubernetes: Option<Kubernetes>,
    replicas: Option<ReplicaOptions>,
    /// This takes none.
    pub(super) timing: Timing,
}

impl Started {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            timing: Timing::of(config),
            listen: config.listen,
            kubernetes: config.source.kubernetes.clone(),
            replicas: config.replicas.clone(),
        }
    }

    /// What of a later configuration waits for the next start.
    pub(super) fn waiting(&self, config: &Config) -> Vec<Note> {
        let now = Self::of(config);
        [
            ("listen", self.listen == now.listen),
            ("topology", self.kubernetes == now.kubernetes),
            ("replicas", self.replicas == now.replicas),
        ]
        .into_iter()
        .filter(|(_, same)| !same)
        .map(|(key, _)| Note {
            object: "configuration".to_owned(),
            text: format!("{key} changed; it takes effect with the next start"),
        })
        .collect()
    }
}

impl Timing {
    pub(super) const fn of(config: &Config) -> Self {
        Self {
            interval: config.interval,
            timeout: config.timeout,
        }
    }
}
