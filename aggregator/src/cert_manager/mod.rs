//! cert-manager's own objects as they are now: what is to be certified, by whom, and what waits for it.
//!
//! ```text
//! API server ─▶ reflectors (certificates, issuers, clusterissuers, challenges) ─▶ follow ─▶ Picture (a watch channel)
//! ```
//! Read only, and never needed: where cert-manager's definitions are not installed, or the right is missing, the picture
//! says so instead of showing nothing, and goes on looking. A Challenge's token and key are in the picture because the
//! self check is replayed with them; the key is neither logged nor served.

mod follow;
mod kind;
mod picture;
#[cfg(test)]
mod tests;

use crate::kubernetes::{Kubernetes, Mode};

pub(crate) use follow::follow;
pub(crate) use kind::Kind;
#[cfg(test)]
pub(crate) use picture::Shelf;
pub(crate) use picture::{Missing, Picture};

/// The cluster in which they are followed, if they are.
pub(crate) fn wanted(kubernetes: Option<&Kubernetes>) -> Option<Kubernetes> {
    kubernetes
        .filter(|kubernetes| kubernetes.cert_manager == Mode::Auto)
        .cloned()
}
