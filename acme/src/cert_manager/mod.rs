//! cert-manager's own objects as they are now: what is to be certified, by whom, and what waits for it.
//!
//! ```text
//! API server ─▶ reflectors (certificates, issuers, clusterissuers, challenges) ─▶ follow ─▶ Picture (a watch channel)
//! ```
//! Read only, and never needed: where cert-manager's definitions are not installed, or the right is missing, the picture
//! says so instead of showing nothing, and goes on looking. A Challenge's token and key are in the picture because the
//! self check is replayed with them; the key is neither logged nor served.

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
pub use watcher::follow;

/// The cluster in which they are followed, if they are.
#[must_use]
pub fn wanted(kubernetes: Option<&KubernetesSettings>) -> Option<KubernetesSettings> {
    kubernetes
        .filter(|kubernetes| kubernetes.cert_manager == CertManagerMode::Auto)
        .cloned()
}
