//! The current objects of cert-manager: Certificates, their issuers, and pending Challenges.
//!
//! ```text
//! API server ─▶ reflectors (certificates, issuers, clusterissuers, challenges) ─▶ CertManagerState (a watch channel)
//! ```
//! Read only and optional: if cert-manager's CRDs are not installed or the permission is missing, the state
//! contains the reason and watching continues. The state contains a Challenge's token and key, because they are
//! needed to replay the self check; the key is neither logged nor served.

mod kind;
mod state;
#[cfg(test)]
mod tests;
mod watcher;

use parallax_kubernetes::watch::{CertManagerMode, KubernetesSettings};

pub use kind::CertManagerKind;
#[cfg(test)]
pub use state::ObjectStore;
pub use state::{CertManagerState, UnavailableReason};
pub use watcher::watch_objects;

/// Returns the cluster in which to watch the objects, if watching is enabled.
#[must_use]
pub fn cluster_to_watch(kubernetes: Option<&KubernetesSettings>) -> Option<KubernetesSettings> {
    kubernetes
        .filter(|kubernetes| kubernetes.cert_manager == CertManagerMode::Auto)
        .cloned()
}
