//! A Kubernetes API server for tests: paginated lists, watches with bookmarks, writes with `resourceVersion` conflicts
//! and hooks, token reviews and requests, forwarded ports, and configurable failures.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "only tests use it, and a test that cannot go on fails"
)]

mod failures;
mod lists;
mod lost_responses;
mod objects;
mod port_forward;
mod request_count;
mod requests;
mod responses;
mod store;
mod tokens;
mod watches;
mod write_hook;
mod writes;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::Router;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use crate::{
    requests::answer,
    store::{Shared, Store},
};
pub use crate::{
    store::{Behaviour, ObjectWrite, Objects, WriteHook},
    tokens::service_account_token,
};

/// A running server. Stops on drop.
#[derive(Debug)]
pub struct ApiServer {
    shared: Shared,
    address: SocketAddr,
    running: Option<JoinSet<()>>,
}

impl ApiServer {
    /// Starts a server; the given resources do not exist until they are defined.
    pub async fn start(absent: &[&str]) -> Self {
        let mut server = Self {
            shared: Shared {
                store: Arc::new(Mutex::new(Store::new(absent))),
                changed: watch::channel(()).0,
            },
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            running: None,
        };
        server.listen_again().await;
        server
    }

    /// Returns its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a kubeconfig for it.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters: [{{name: test, cluster: {{server: 'http://{}'}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: test, namespace: parallax}}}}]\nusers: [{{name: test, user: {{}}}}]\n",
            self.address
        )
    }

    /// Waits until a condition holds; checks it after every change of an object, and when a response is lost.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        self.shared.until(|| condition(self)).await;
    }

    /// Refuses connections and closes the existing ones.
    pub async fn stop_listening(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.shutdown().await;
        }
    }

    /// Listens again at the same address.
    pub async fn listen_again(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(self.shared.clone());
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let connection = http.serve_connection(TokioIo::new(stream), service);
                    let _ = connection.with_upgrades().await;
                });
            }
        });
        self.running = Some(running);
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.store()
    }
}
