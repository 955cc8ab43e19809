//! Parallax with a real control plane: the installation is admitted, its permissions are sufficient and minimal, and
//! changes of objects reach plans. Nodes and Pods are only objects; the aggregator and the probers are the real
//! binary, started here. docs/contributing/testing.md explains `KUBEBUILDER_ASSETS`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod away;
mod discovery;
mod identity;
mod installation;
mod names;
mod notifications;
mod objects;
mod parallax;
mod preflights;
mod reach;
mod refused_values;
mod release;
mod replicas;
mod resources;
mod rights;
mod verify_install;
mod web;

use parallax_control_plane::ControlPlane;
use tokio::sync::{Mutex, MutexGuard};

/// Serializes the tests: each has time limits, and needs half a gigabyte.
async fn lock() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

/// Starts a control plane; `None`, with a message, if there is none.
async fn plane(test: &str) -> Option<ControlPlane> {
    ControlPlane::start(test).await.unwrap()
}
