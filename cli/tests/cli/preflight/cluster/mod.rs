//! A cluster for preflights: the API server, the controllers that react to solver objects, and an aggregator.

mod aggregator;
mod solver_controllers;

use std::{
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use parallax_api_server::ApiServer;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Handle, Runtime},
    time::timeout,
};

/// Label of every object that a preflight creates.
const PREFLIGHT_LABEL: &str = "parallax.dev/preflight";

/// Objects per page of a list, so many that every list is one request.
const PAGE_SIZE: usize = 500;

/// State of everything around the API server.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    /// Pods are created but never run.
    pub(super) pods_stay_pending: bool,
    /// The ingress controller never adopts a route.
    pub(super) routes_ignored: bool,
    /// Number of times that another client still changes an Ingress just before it is patched.
    pub(super) concurrent_writes: u32,
    /// Number of runs that the aggregator still rejects as too many.
    pub(super) rejected_runs: u32,
    /// Maximum number of Pods that one Preflight had at the same time.
    pub(super) max_pods: usize,
}

/// The API server of a cluster and the runtime it runs on.
#[derive(Clone)]
pub(super) struct ServerHandle {
    server: Arc<ApiServer>,
    runtime: Handle,
}

/// A running cluster, used like its [`ApiServer`]. Stops on drop.
pub(super) struct TestCluster {
    handle: ServerHandle,
    state: Arc<Mutex<ClusterState>>,
    /// Address of the ingress controller for clients.
    pub(super) entry: SocketAddr,
    /// Address of an aggregator whose runs all pass at once, for tests of everything around runs.
    pub(super) aggregator: SocketAddr,
    _runtime: Runtime,
}

impl ServerHandle {
    /// Waits for an effect of another process. Only a failing test reaches the limit, and then gets `false`.
    #[must_use]
    pub(super) fn reaches(&self, condition: impl Fn() -> bool) -> bool {
        let reached = async {
            let condition = self.server.until(|_| condition());
            timeout(Duration::from_mins(1), condition).await.is_ok()
        };
        self.runtime.block_on(reached)
    }

    /// Returns the status of a Preflight object, or null if it does not exist.
    pub(super) fn preflight_status(&self, namespace: &str, name: &str) -> Value {
        let object = self.server.get("preflights", namespace, name);
        object.map_or(Value::Null, |mut object| object["status"].take())
    }
}

impl TestCluster {
    pub(super) fn start() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let state = Arc::default();
        let server = Arc::new(runtime.block_on(ApiServer::start(&[])));
        server.set_page_size(PAGE_SIZE);
        server.set_write_hook(solver_controllers::hook(&state));
        let serve = |router: axum::Router| {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let address = listener.local_addr().unwrap();
            runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
            address
        };
        let entry = serve(solver_controllers::ingress_controller(&server, &state));
        let aggregator = serve(aggregator::passing_aggregator(&state));
        Self {
            handle: ServerHandle {
                server,
                runtime: runtime.handle().clone(),
            },
            state,
            entry,
            aggregator,
            _runtime: runtime,
        }
    }

    /// Returns the state of the controllers and the aggregator, to change or inspect.
    pub(super) fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap()
    }

    /// Writes a kubeconfig for the API server.
    pub(super) fn write_kubeconfig(&self, folder: &Path) -> PathBuf {
        let path = folder.join("kubeconfig");
        std::fs::write(&path, self.handle.server.kubeconfig()).unwrap();
        path
    }

    /// Returns a handle for waiting without the cluster.
    pub(super) fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Waits for an effect of another process. Only a failing test reaches the limit.
    pub(super) fn wait_until(&self, effect: &str, condition: impl Fn() -> bool) {
        assert!(self.handle.reaches(condition), "never: {effect}");
    }

    /// Waits until every leftover object of a preflight of this lifetime has passed its deadline.
    pub(super) fn pass_deadlines(&self, lifetime: SignedDuration) {
        let deadlines = ["ingresses", "httproutes", "services", "pods"]
            .iter()
            .flat_map(|resource| self.handle.server.all(resource))
            .filter_map(|object| {
                let deadline = object["metadata"]["annotations"]["parallax.dev/deadline"].as_str()?;
                Some(deadline.parse::<Timestamp>().unwrap())
            });
        if let Some(last) = deadlines.max() {
            let remaining = last.duration_since(Timestamp::now());
            assert!(remaining <= lifetime, "{remaining}");
            let past = remaining + SignedDuration::from_millis(1);
            std::thread::sleep(past.max(SignedDuration::ZERO).unsigned_abs());
        }
    }

    /// Creates or changes a Preflight object.
    pub(super) fn apply_preflight(&self, name: &str, spec: &Value) {
        self.apply_preflight_in("shop", name, spec);
    }

    pub(super) fn apply_preflight_in(&self, namespace: &str, name: &str, spec: &Value) {
        let object = json!({"apiVersion": "parallax.dev/v1alpha1", "kind": "Preflight",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec});
        self.handle.server.apply_spec("preflights", object);
    }

    /// Returns the status of a Preflight object, or null if it does not exist.
    pub(super) fn preflight_status(&self, namespace: &str, name: &str) -> Value {
        self.handle.preflight_status(namespace, name)
    }

    /// Returns an object that exists.
    pub(super) fn object(&self, resource: &str, namespace: &str, name: &str) -> Value {
        self.handle.server.get(resource, namespace, name).unwrap()
    }

    /// Reports whether a Preflight object exists.
    pub(super) fn has_preflight(&self, name: &str) -> bool {
        self.handle.server.get("preflights", "shop", name).is_some()
    }

    /// Deletes every Pod, as a drain does.
    pub(super) fn delete_pods(&self) {
        for pod in self.handle.server.all("pods") {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
            self.handle
                .server
                .delete("pods", &text("namespace"), &text("name"));
        }
    }

    /// Returns the objects that preflights created and have not deleted.
    pub(super) fn leftovers(&self) -> Vec<String> {
        self.handle.server.labelled(PREFLIGHT_LABEL)
    }

    /// Returns every object of a resource that a client ever created.
    pub(super) fn created_of(&self, resource: &str) -> Vec<Value> {
        let created = self.handle.server.created();
        let of_resource = created.into_iter().filter(|(of, _)| of == resource);
        of_resource.map(|(_, object)| object).collect()
    }
}

impl Deref for TestCluster {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.handle.server
    }
}
