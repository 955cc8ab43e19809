//! The objects of the server, their history, and the failures that tests configure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use serde_json::Value;
use tokio::sync::watch;

use crate::request_count::RequestCount;

/// Objects per page if the client sets a limit, whatever it is: small, so that lists are paginated.
const PAGE_SIZE: usize = 2;

/// Creation time of the objects that clients create: later than those of a test's initial objects.
pub(crate) const CREATION_TIMESTAMP: &str = "2026-01-01T00:00:00Z";

/// A write of a client to an object.
#[derive(Debug, Clone, Copy)]
pub struct ObjectWrite<'a> {
    /// `create`, `update`, `patch` or `delete`.
    pub verb: &'a str,
    /// Plural of the kind.
    pub resource: &'a str,
    /// Empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
}

/// Reacts to writes of clients. No client sees the state between a write and the reaction to it.
pub trait WriteHook: Debug + Send {
    /// Runs before a write, as another client whose own write comes first.
    fn before(&mut self, _write: &ObjectWrite<'_>, _objects: &mut Objects<'_>) {}

    /// Runs after a successful write, as a controller. The response contains the object as this leaves it.
    fn after(&mut self, _write: &ObjectWrite<'_>, _objects: &mut Objects<'_>) {}
}

/// The objects of the server, for a [`WriteHook`].
#[derive(Debug)]
pub struct Objects<'a>(pub(crate) &'a mut Store);

/// Behaviour for a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// Like a Kubernetes API server.
    #[default]
    Normal,
    /// Answers every request with this status.
    Status(u16),
    /// Answers no request.
    Hangs,
    /// Opens watches and sends nothing, not even bookmarks.
    Mute,
}

/// Resource, namespace (empty for cluster-scoped resources) and name of an object.
pub(crate) type ObjectKey = (String, String, String);

/// A token that the server knows.
#[derive(Debug)]
pub(crate) struct Token {
    /// `status` of its review.
    pub(crate) review: Value,
    /// The `ServiceAccount` whose deletion invalidates it.
    pub(crate) account: Option<ObjectKey>,
}

/// State of the server.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) version: u64,
    /// Oldest known version: a watch from an earlier one is answered with 410.
    pub(crate) oldest: u64,
    pub(crate) objects: BTreeMap<ObjectKey, Value>,
    /// Version, resource, type and object of each change.
    pub(crate) log: Vec<(u64, String, &'static str, Value)>,
    /// Objects per page of a list with a limit.
    pub(crate) page_size: usize,
    /// Resource and object of each creation by a client, as sent.
    pub(crate) created: Vec<(String, Value)>,
    pub(crate) write_hook: Option<Box<dyn WriteHook>>,
    /// Resources that do not exist.
    pub(crate) absent: BTreeSet<String>,
    /// By resource (`pods`) or subresource (`pods/portforward`).
    pub(crate) behaviours: BTreeMap<String, Behaviour>,
    /// Status and message of rejected requests by verb and resource.
    pub(crate) rejections: BTreeMap<(String, String), (u16, String)>,
    pub(crate) request_count: RequestCount,
    /// Every request fails, as without a leader of etcd.
    pub(crate) unavailable: bool,
    /// Number of interruptions: a watch that began before one ends.
    pub(crate) interruptions: u64,
    /// Number of lists by resource.
    pub(crate) lists: BTreeMap<String, u64>,
    /// Label selectors of lists and watches by resource.
    pub(crate) selectors: BTreeMap<String, BTreeSet<String>>,
    /// Number of writes rejected as the test configured.
    pub(crate) rejected_writes: BTreeMap<String, u64>,
    /// `Authorization` of the last request.
    pub(crate) last_credential: Option<String>,
    pub(crate) tokens: BTreeMap<String, Token>,
    pub(crate) token_reviews: u64,
    /// `NAMESPACE/NAME SECONDS` of each token request.
    pub(crate) token_requests: Vec<String>,
    /// Token for every token request, instead of a new one.
    pub(crate) issued_token: Option<String>,
    /// Where the ports of all Pods are forwarded to.
    pub(crate) forward_target: Option<SocketAddr>,
    /// Ports of Pods that clients have forwarded.
    pub(crate) forwarded_ports: BTreeSet<u16>,
}

/// Access to the store, and the notification of watches.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) store: Arc<Mutex<Store>>,
    pub(crate) changed: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// Waits until a condition holds; checks it after every notification of watches.
    pub(crate) async fn until(&self, condition: impl Fn() -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition() {
            changed.changed().await.unwrap();
        }
    }
}

impl Store {
    pub(crate) fn new(absent: &[&str]) -> Self {
        Self {
            version: 100,
            page_size: PAGE_SIZE,
            absent: absent.iter().map(|name| (*name).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Returns a UID for the next object to be put.
    pub(crate) fn new_uid(&self) -> Value {
        format!("uid-{}", self.version).into()
    }

    pub(crate) fn put(&mut self, resource: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (resource.to_owned(), text("namespace"), text("name"));
        let change = if self.objects.contains_key(&key) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.log
            .push((self.version, resource.to_owned(), change, object.clone()));
        self.objects.insert(key, object);
    }

    /// Changes an object; one that does not exist stays absent.
    pub(crate) fn amend(
        &mut self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        if let Some(mut object) = self.objects.get(&key(resource, namespace, name)).cloned() {
            change(&mut object);
            self.put(resource, object);
        }
    }

    /// Deletes an object, and with a `ServiceAccount` its tokens.
    pub(crate) fn delete(&mut self, resource: &str, namespace: &str, name: &str) {
        let key = key(resource, namespace, name);
        let mut object = self.objects.remove(&key).unwrap();
        self.tokens
            .retain(|_, token| token.account.as_ref() != Some(&key));
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.log
            .push((self.version, resource.to_owned(), "DELETED", object));
    }
}

pub(crate) fn key(resource: &str, namespace: &str, name: &str) -> ObjectKey {
    (resource.to_owned(), namespace.to_owned(), name.to_owned())
}
