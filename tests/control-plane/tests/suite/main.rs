//! Parallax before a real control plane: what is installed is admitted, what it may do is what it does, and what happens
//! to objects reaches plans. Nodes and Pods are objects; the aggregator and the probers are the real binary, started
//! here. See docs/contributing/testing.md for what `KUBEBUILDER_ASSETS` has to name.

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
mod replicas;
mod resources;
mod rights;
mod web;

use parallax_control_plane::ControlPlane;
use tokio::sync::{Mutex, MutexGuard};

/// One control plane at a time: each has times of its own to keep, and half a gigabyte.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

/// A control plane; nothing, said loudly, where there is none.
async fn plane(test: &str) -> Option<ControlPlane> {
    ControlPlane::start(test).await.unwrap()
}
