//! An API server for tests: paginated lists, watches with bookmarks, and configurable misbehaviour.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "only tests use it, and a test that cannot go on fails"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Query, State},
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

/// Objects per page, whatever the client's limit: small, so that lists are paginated.
const PAGE_SIZE: usize = 2;

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

#[derive(Debug, Default)]
struct Store {
    version: u64,
    /// Oldest known version: a watch from an earlier one is answered with 410.
    oldest: u64,
    objects: BTreeMap<(String, String, String), Value>,
    /// Version, resource, type and object of each change.
    log: Vec<(u64, String, &'static str, Value)>,
    /// Resources that do not exist.
    absent: BTreeSet<String>,
    manners: BTreeMap<String, Behaviour>,
    /// Number of cuts: a watch that began before one ends.
    cuts: u64,
    lists: BTreeMap<String, u64>,
    /// Number of writes rejected as the test configured.
    refused: BTreeMap<String, u64>,
}

/// A running server. Stops on drop.
#[derive(Debug)]
pub struct ApiServer {
    store: Arc<Mutex<Store>>,
    changed: watch::Sender<()>,
    address: SocketAddr,
    running: Option<JoinSet<()>>,
}

#[derive(Debug, Clone)]
struct Shared {
    store: Arc<Mutex<Store>>,
    changed: watch::Sender<()>,
}

impl ApiServer {
    /// Starts a server; the given resources do not exist until they are defined.
    pub async fn start(absent: &[&str]) -> Self {
        let store = Store {
            version: 100,
            absent: absent.iter().map(|name| (*name).to_owned()).collect(),
            ..Store::default()
        };
        let mut server = Self {
            store: Arc::new(Mutex::new(store)),
            changed: watch::channel(()).0,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            running: None,
        };
        server.listen_again().await;
        server
    }

    /// Returns its address.
    #[allow(dead_code, reason = "most tests use the kubeconfig")]
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
        let shared = Shared {
            store: Arc::clone(&self.store),
            changed: self.changed.clone(),
        };
        let router = Router::new().fallback(answer).with_state(shared);
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        self.running = Some(running);
    }

    /// Applies every object of a YAML list; Pods get the labels of probers.
    pub fn apply(&self, yaml: &str) {
        let objects: Vec<Value> = serde_saphyr::from_str(yaml).unwrap();
        for mut object in objects {
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            if kind == "pod" {
                object["metadata"]["labels"] =
                    json!({"app.kubernetes.io/name": "parallax", "app.kubernetes.io/component": "prober"});
            }
            let plural = if kind.ends_with('s') {
                format!("{kind}es")
            } else {
                format!("{kind}s")
            };
            self.put(&plural, object);
        }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// Creates or replaces an object, and notifies watches.
    pub fn put(&self, resource: &str, object: Value) {
        self.store().put(resource, object);
        self.changed.send_replace(());
    }

    /// Deletes an object, and notifies watches.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.store().delete(resource, namespace, name);
        self.changed.send_replace(());
    }

    /// Interrupts every watch.
    pub fn interrupt_watches(&self) {
        self.store().cuts += 1;
        self.changed.send_replace(());
    }

    /// Compacts the history.
    pub fn compact(&self) {
        let mut store = self.store();
        store.oldest = store.version;
    }

    /// Sets the behaviour for a resource from now on.
    pub fn set_behaviour(&self, resource: &str, manner: Behaviour) {
        self.store().manners.insert(resource.to_owned(), manner);
    }

    /// Makes a resource exist from now on.
    pub fn define(&self, resource: &str) {
        self.store().absent.remove(resource);
    }

    /// Makes a resource no longer exist.
    pub fn undefine(&self, resource: &str) {
        let mut store = self.store();
        store.absent.insert(resource.to_owned());
        store.objects.retain(|(kind, ..), _| kind != resource);
        drop(store);
        self.interrupt_watches();
    }

    /// Returns the current state of an object.
    #[allow(
        dead_code,
        reason = "not every test that uses this server looks at single objects"
    )]
    #[must_use]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.store().objects.get(&key).cloned()
    }

    /// Returns all objects of a resource.
    #[allow(
        dead_code,
        reason = "not every test that uses this server looks at all objects"
    )]
    #[must_use]
    pub fn all(&self, resource: &str) -> Vec<Value> {
        let store = self.store();
        let of_kind = store.objects.iter().filter(|((kind, ..), _)| kind == resource);
        of_kind.map(|(_, object)| object.clone()).collect()
    }

    /// Changes an object as a controller would; a deleted one stays deleted.
    #[allow(dead_code, reason = "the lab has controllers")]
    pub fn amend(&self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        let mut store = self.store();
        let Some(mut object) = store.objects.get(&key).cloned() else {
            return;
        };
        change(&mut object);
        store.put(resource, object);
        drop(store);
        self.changed.send_replace(());
    }

    /// Returns how many writes of a resource were rejected as set with `behave`.
    #[must_use]
    pub fn rejected_writes(&self, resource: &str) -> u64 {
        self.store().refused.get(resource).copied().unwrap_or(0)
    }

    /// Returns how many pages of a resource have been listed.
    #[must_use]
    pub fn list_pages(&self, resource: &str) -> u64 {
        self.store().lists.get(resource).copied().unwrap_or(0)
    }
}

impl Store {
    fn put(&mut self, resource: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (resource.to_owned(), text("namespace"), text("name"));
        let what = if self.objects.contains_key(&key) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.log
            .push((self.version, resource.to_owned(), what, object.clone()));
        self.objects.insert(key, object);
    }

    fn delete(&mut self, resource: &str, namespace: &str, name: &str) {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = self.objects.remove(&key).unwrap();
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.log
            .push((self.version, resource.to_owned(), "DELETED", object));
    }
}

/// Reports whether an object is in a namespace (or any, if none is given) and has the labels (`a=b,c`); set
/// requirements (`a in (b,c)`) are ignored.
fn selected(object: &Value, namespace: Option<&str>, labels: &str) -> bool {
    let meta = &object["metadata"];
    let here = namespace.is_none_or(|namespace| meta["namespace"] == namespace);
    // Text in parentheses is a set, which contains commas itself.
    let outside: String = labels
        .split(')')
        .filter_map(|part| part.split('(').next())
        .collect();
    let mut labels = outside
        .split(',')
        .filter(|label| !label.is_empty() && !label.contains(' '));
    here && labels.all(|label| match label.split_once('=') {
        Some((name, value)) => meta["labels"][name] == value,
        None => meta["labels"][label].is_string(),
    })
}

async fn answer(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    let path: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    if method != Method::GET {
        let at = path.iter().position(|part| *part == "namespaces").unwrap();
        let manner = {
            let mut store = shared.store.lock().unwrap();
            let manner = store.manners.get(path[at + 2]).copied();
            if matches!(manner, Some(Behaviour::Status(_))) {
                *store.refused.entry(path[at + 2].to_owned()).or_default() += 1;
            }
            manner
        };
        return match manner {
            Some(Behaviour::Hangs) => std::future::pending().await,
            Some(Behaviour::Status(code)) => status(code, "as the test has it"),
            _ => change(&shared, &method, &path, &body),
        };
    }
    if let Some(one) = object_by_name(&shared, &path) {
        return one;
    }
    if let ["apis", group, "v1"] = path[..] {
        return discovery(&shared, group);
    }
    let by_name = path
        .iter()
        .position(|part| *part == "namespaces")
        .and_then(|at| path.get(at + 2));
    let resource = (*by_name.unwrap_or(path.last().unwrap())).to_owned();
    let namespace = path
        .iter()
        .position(|part| *part == "namespaces")
        .filter(|at| at + 2 < path.len())
        .map(|at| path[at + 1].to_owned());
    let (manner, absent) = {
        let store = shared.store.lock().unwrap();
        let manner = store.manners.get(&resource).copied().unwrap_or_default();
        (manner, store.absent.contains(&resource))
    };
    let watches = query.contains_key("watch");
    match manner {
        Behaviour::Hangs => std::future::pending().await,
        Behaviour::Status(code) => status(code, "as the test has it"),
        _ if absent => status(404, "the server could not find the requested resource"),
        Behaviour::Mute if watches => {
            Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()).into_response()
        }
        _ if watches => watch(shared, resource, namespace, &query),
        _ => list(&shared, &resource, namespace.as_deref(), &query),
    }
}

/// Lists the resources of an optional API group. Every account may request that.
fn discovery(shared: &Shared, group: &str) -> Response {
    let kinds: &[&str] = match group {
        "cert-manager.io" => &["certificates", "issuers", "clusterissuers"],
        "acme.cert-manager.io" => &["challenges"],
        "gateway.networking.k8s.io" => &["gateways", "httproutes"],
        _ => &[],
    };
    let store = shared.store.lock().unwrap();
    let there = kinds.iter().filter(|kind| !store.absent.contains(**kind));
    let resources: Vec<Value> = there
        .map(|kind| json!({"name": kind, "singularName": "", "namespaced": true, "kind": "Kind", "verbs": ["list", "watch"]}))
        .collect();
    if resources.is_empty() {
        return status(404, "the server could not find the requested resource");
    }
    let body = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"), "resources": resources});
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Returns an object by name: `/api/v1/…` or `/apis/GROUP/VERSION/…`, then `namespaces/NAMESPACE/KIND/NAME` or
/// `KIND/NAME`.
fn object_by_name(shared: &Shared, path: &[&str]) -> Option<Response> {
    let rest = path.get(if path.first() == Some(&"api") { 2 } else { 3 }..)?;
    let (namespace, kind, name) = match rest {
        ["namespaces", namespace, kind, name] => (*namespace, *kind, *name),
        [kind, name] => ("", *kind, *name),
        _ => return None,
    };
    let store = shared.store.lock().unwrap();
    Some(match store.manners.get(kind) {
        Some(Behaviour::Status(code)) => status(*code, "as the test has it"),
        Some(Behaviour::Hangs) => return None,
        _ if store.absent.contains(kind) => status(404, "the server could not find the requested resource"),
        _ => {
            let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
            match store.objects.get(&key) {
                Some(object) => {
                    ([(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
                }
                None => status(404, "not found"),
            }
        }
    })
}

/// Creates an object, or replaces one.
fn put(shared: &Shared, namespace: &str, resource: &str, name: Option<&str>, body: &[u8]) -> Response {
    let mut object: Value = serde_json::from_slice(body).unwrap();
    let mut store = shared.store.lock().unwrap();
    let named = name.unwrap_or_else(|| object["metadata"]["name"].as_str().unwrap());
    let key = (resource.to_owned(), namespace.to_owned(), named.to_owned());
    match (store.objects.get(&key), name) {
        (Some(_), None) => return status(409, "already exists"),
        (None, Some(_)) => return status(404, "not found"),
        (Some(known), Some(_))
            if known["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] =>
        {
            return status(409, "the object has been modified");
        }
        (Some(known), Some(_)) => object["metadata"]["uid"] = known["metadata"]["uid"].clone(),
        (None, None) => {
            object["metadata"]["uid"] = format!("uid-{}", store.version).into();
            // Younger than the initial objects.
            object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
    }
    store.put(resource, object);
    let object = store.objects[&key].to_string();
    drop(store);
    shared.changed.send_replace(());
    ([(header::CONTENT_TYPE, "application/json")], object).into_response()
}

/// Patches a status, deletes an object, or updates a Lease.
fn change(shared: &Shared, method: &Method, path: &[&str], body: &[u8]) -> Response {
    let at = path.iter().position(|part| *part == "namespaces").unwrap();
    if *method == Method::POST || *method == Method::PUT {
        return put(
            shared,
            path[at + 1],
            path[at + 2],
            path.get(at + 3).copied(),
            body,
        );
    }
    let (namespace, resource, name) = (path[at + 1], path[at + 2], path[at + 3]);
    let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
    let mut store = shared.store.lock().unwrap();
    let Some(mut object) = store.objects.get(&key).cloned() else {
        return status(404, "not found");
    };
    if *method == Method::DELETE {
        store.delete(resource, namespace, name);
    } else if resource == "events" {
        assert_eq!(method, Method::PATCH);
        let merge: Value = serde_json::from_slice(body).unwrap();
        object["series"] = merge["series"].clone();
        store.put(resource, object.clone());
    } else {
        assert_eq!((method, path.last()), (&Method::PATCH, Some(&"status")));
        let merge: Value = serde_json::from_slice(body).unwrap();
        for (field, value) in merge["status"].as_object().unwrap() {
            object["status"][field] = value.clone();
        }
        store.put(resource, object.clone());
    }
    drop(store);
    shared.changed.send_replace(());
    ([(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
}

fn status(code: u16, message: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": "Test"});
    let code = StatusCode::from_u16(code).unwrap();
    (
        code,
        [(header::CONTENT_TYPE, "application/json")],
        body.to_string(),
    )
        .into_response()
}

fn list(
    shared: &Shared,
    resource: &str,
    namespace: Option<&str>,
    query: &BTreeMap<String, String>,
) -> Response {
    let labels = query.get("labelSelector").map_or("", String::as_str);
    let from: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
    let mut store = shared.store.lock().unwrap();
    if from == 0 {
        *store.lists.entry(resource.to_owned()).or_default() += 1;
    }
    let all: Vec<&Value> = store
        .objects
        .iter()
        .filter(|((kind, ..), object)| kind == resource && selected(object, namespace, labels))
        .map(|(_, object)| object)
        .collect();
    let more = (from + PAGE_SIZE < all.len()).then(|| (from + PAGE_SIZE).to_string());
    let page: Vec<&Value> = all.into_iter().skip(from).take(PAGE_SIZE).collect();
    // Go serializes some empty lists as null.
    let items = if page.is_empty() { Value::Null } else { json!(page) };
    let body = json!({
        "kind": "List", "apiVersion": "v1",
        "metadata": {"resourceVersion": store.version.to_string(), "continue": more},
        "items": items,
    });
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn watch(
    shared: Shared,
    resource: String,
    namespace: Option<String>,
    query: &BTreeMap<String, String>,
) -> Response {
    let labels = query.get("labelSelector").cloned().unwrap_or_default();
    let from: u64 = query["resourceVersion"].parse().unwrap();
    let (cuts, oldest) = {
        let store = shared.store.lock().unwrap();
        (store.cuts, store.oldest)
    };
    if from < oldest {
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version", "reason": "Expired", "status": "Failure"}});
        return format!("{gone}\n").into_response();
    }
    let changed = shared.changed.subscribe();
    let lines = stream::unfold((shared, changed, from), move |(shared, mut changed, from)| {
        let (resource, namespace, labels) = (resource.clone(), namespace.clone(), labels.clone());
        async move {
            loop {
                changed.borrow_and_update();
                let (lines, seen) = {
                    let store = shared.store.lock().unwrap();
                    if store.cuts > cuts {
                        return None;
                    }
                    let new = store
                        .log
                        .iter()
                        .filter(|(version, kind, _, object)| {
                            *version > from
                                && *kind == resource
                                && selected(object, namespace.as_deref(), &labels)
                        })
                        .map(|(_, _, what, object)| format!("{}\n", json!({"type": what, "object": object})));
                    (new.collect::<String>(), store.version)
                };
                if seen > from {
                    // A bookmark after any change, also of other resources.
                    let mark = json!({"type": "BOOKMARK", "object": {"kind": "Any", "apiVersion": "v1", "metadata": {"resourceVersion": seen.to_string()}}});
                    let bytes = Bytes::from(format!("{lines}{mark}\n"));
                    return Some((Ok::<_, Infallible>(bytes), (shared, changed, seen)));
                }
                changed.changed().await.ok()?;
            }
        }
    });
    Body::from_stream(lines).into_response()
}
