//! The part of an API server that identity needs: token reviews, token requests, ConfigMaps. Tests can make it
//! unavailable.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Json, Router,
    extract::{Path, Query, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::{sync::broadcast, task::JoinHandle};

/// State of the server. Objects are stored by path.
#[derive(Debug, Default)]
struct ApiState {
    objects: BTreeMap<String, Value>,
    /// Token → result of its review.
    tokens: BTreeMap<String, Value>,
    version: u64,
}

#[derive(Debug, Default)]
struct Inside {
    held: Mutex<ApiState>,
    away: AtomicBool,
    reviews: AtomicU64,
    /// Pod events for open watches.
    pods: Option<broadcast::Sender<String>>,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct ApiServer {
    inside: Arc<Inside>,
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Builds a token in the format of Kubernetes; only [`ApiServer`] decides whether it is valid.
pub(crate) fn token(audience: &str, expires: u64, mark: &str) -> String {
    let payload = json!({"aud": [audience], "exp": expires, "jti": mark}).to_string();
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let inside = Arc::new(Inside {
            pods: Some(broadcast::channel(16).0),
            ..Inside::default()
        });
        let accounts = "/api/v1/namespaces/{ns}/serviceaccounts";
        let router = Router::new()
            .route("/apis/authentication.k8s.io/v1/tokenreviews", post(review))
            .route("/api/v1/namespaces/{ns}/pods", get(pods))
            .route(accounts, get(list).post(create))
            .route(&format!("{accounts}/{{name}}/token"), post(token_request))
            .route("/apis/coordination.k8s.io/v1/namespaces/{ns}/{kind}", post(make))
            .route(
                "/apis/coordination.k8s.io/v1/namespaces/{ns}/{kind}/{name}",
                get(read).put(replace),
            )
            .route(
                "/api/v1/namespaces/{ns}/{kind}/{name}",
                get(read).put(replace).patch(patch).delete(remove),
            )
            .layer(middleware::from_fn_with_state(inside.clone(), at_home))
            .with_state(inside.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { inside, url, task }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::try_from(kube::Config::new(self.url.parse().unwrap())).unwrap()
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.inside
            .held
            .lock()
            .unwrap()
            .objects
            .insert(path.to_owned(), object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.inside.held.lock().unwrap().objects.get(path).cloned()
    }

    /// Adds or deletes a running Pod.
    pub(crate) fn pod(&self, kind: &str, account: &str, uid: &str, node: &str) {
        let (ns, name) = account.split_once('/').unwrap();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("prober-{uid}"), "namespace": ns, "uid": uid, "resourceVersion": "9"},
            "spec": {"containers": [], "serviceAccountName": name, "nodeName": node},
            "status": {"phase": "Running"},
        });
        let path = format!("{ns}/pods/{uid}");
        if kind == "DELETED" {
            self.take(&path);
        } else {
            self.put(&path, pod.clone());
        }
        // There may be no open watch.
        let _ = self
            .inside
            .pods
            .as_ref()
            .unwrap()
            .send(json!({"type": kind, "object": pod}).to_string() + "\n");
    }

    pub(crate) fn take(&self, path: &str) -> Option<Value> {
        self.inside.held.lock().unwrap().objects.remove(path)
    }

    pub(crate) fn away(&self, away: bool) {
        self.inside.away.store(away, Ordering::Relaxed);
    }

    pub(crate) fn reviews(&self) -> u64 {
        self.inside.reviews.load(Ordering::Relaxed)
    }

    /// Issues a token as in a Pod's projected volume.
    pub(crate) fn pod_token(&self, account: &str, uid: &str, node: &str, mark: &str) -> String {
        let token = token("parallax", seconds() + 3_600, mark);
        self.know(
            &token,
            &json!({
                "username": format!("system:serviceaccount:{}", account.replace('/', ":")),
                "extra": {
                    "authentication.kubernetes.io/pod-uid": [uid],
                    "authentication.kubernetes.io/node-name": [node],
                },
            }),
        );
        token
    }

    fn know(&self, token: &str, user: &Value) {
        let status = json!({"authenticated": true, "audiences": ["parallax"], "user": user});
        self.inside
            .held
            .lock()
            .unwrap()
            .tokens
            .insert(token.to_owned(), status);
    }
}

fn error(status: StatusCode, reason: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status.as_u16(),
        "reason": reason, "message": reason,
    });
    (status, Json(body)).into_response()
}

async fn at_home(State(inside): State<Arc<Inside>>, request: Request, next: Next) -> Response {
    if inside.away.load(Ordering::Relaxed) {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "etcdserver: no leader");
    }
    next.run(request).await
}

async fn review(State(inside): State<Arc<Inside>>, Json(review): Json<Value>) -> Response {
    inside.reviews.fetch_add(1, Ordering::Relaxed);
    assert_eq!(
        review["spec"]["audiences"],
        json!(["parallax"]),
        "a review names the audience"
    );
    let held = inside.held.lock().unwrap();
    let status = held
        .tokens
        .get(review["spec"]["token"].as_str().unwrap())
        .cloned()
        .unwrap_or_else(|| json!({"authenticated": false, "error": "invalid bearer token"}));
    (
        StatusCode::CREATED,
        Json(json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
            "spec": review["spec"], "status": status,
        })),
    )
        .into_response()
}

/// Lists the Pods of a namespace, or streams their changes.
async fn pods(
    State(inside): State<Arc<Inside>>,
    Path(ns): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    assert!(
        query["labelSelector"].contains("app.kubernetes.io/name=parallax"),
        "{query:?}"
    );
    if query.contains_key("watch") {
        let changes = inside.pods.as_ref().unwrap().subscribe();
        let stream = futures_util::stream::unfold((changes, ns), |(mut changes, ns)| async move {
            loop {
                let line = changes.recv().await.ok()?;
                if line.contains(&format!("\"namespace\":\"{ns}\"")) {
                    return Some((Ok::<_, std::convert::Infallible>(line), (changes, ns)));
                }
            }
        });
        return axum::body::Body::from_stream(stream).into_response();
    }
    let held = inside.held.lock().unwrap();
    let prefix = format!("{ns}/pods/");
    let items: Vec<_> = held
        .objects
        .iter()
        .filter(|(path, _)| path.starts_with(&prefix))
        .map(|(_, pod)| pod.clone())
        .collect();
    Json(json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": items}))
        .into_response()
}

async fn list(State(inside): State<Arc<Inside>>, Path(ns): Path<String>) -> Response {
    let held = inside.held.lock().unwrap();
    let prefix = format!("{ns}/serviceaccounts/");
    let labelled = |object: &&Value| object["metadata"]["labels"]["parallax.dev/vantage"].is_string();
    let items: Vec<_> = held
        .objects
        .iter()
        .filter(|(path, _)| path.starts_with(&prefix))
        .map(|(_, object)| object)
        .filter(labelled)
        .cloned()
        .collect();
    Json(json!({"apiVersion": "v1", "kind": "ServiceAccountList", "metadata": {}, "items": items}))
        .into_response()
}

async fn create(
    State(inside): State<Arc<Inside>>,
    Path(ns): Path<String>,
    Json(mut object): Json<Value>,
) -> Response {
    let mut held = inside.held.lock().unwrap();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{ns}/serviceaccounts/{name}");
    if held.objects.contains_key(&path) {
        return error(StatusCode::CONFLICT, "AlreadyExists");
    }
    object["metadata"]["namespace"] = ns.into();
    held.objects.insert(path, object.clone());
    (StatusCode::CREATED, Json(object)).into_response()
}

/// Like a real API server, limits the validity of a requested token: here to one day.
async fn token_request(
    State(inside): State<Arc<Inside>>,
    Path((ns, name)): Path<(String, String)>,
    Json(request): Json<Value>,
) -> Response {
    let mut held = inside.held.lock().unwrap();
    if !held.objects.contains_key(&format!("{ns}/serviceaccounts/{name}")) {
        return error(StatusCode::NOT_FOUND, "NotFound");
    }
    let audience = request["spec"]["audiences"][0].as_str().unwrap();
    let wanted = request["spec"]["expirationSeconds"].as_u64().unwrap();
    let end = seconds() + wanted.min(86_400);
    held.version += 1;
    let token = token(audience, end, &format!("{name} {}", held.version));
    let user = json!({"username": format!("system:serviceaccount:{ns}:{name}")});
    held.tokens.insert(
        token.clone(),
        json!({"authenticated": true, "audiences": [audience], "user": user, "of": format!("{ns}/serviceaccounts/{name}")}),
    );
    let until = jiff::Timestamp::from_second(i64::try_from(end).unwrap()).unwrap();
    (
        StatusCode::CREATED,
        Json(json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": request["spec"], "status": {"token": token, "expirationTimestamp": until.to_string()},
        })),
    )
        .into_response()
}

async fn read(
    State(inside): State<Arc<Inside>>,
    Path((ns, kind, name)): Path<(String, String, String)>,
) -> Response {
    let held = inside.held.lock().unwrap();
    match held.objects.get(&format!("{ns}/{kind}/{name}")) {
        Some(object) => Json(object).into_response(),
        None => error(StatusCode::NOT_FOUND, "NotFound"),
    }
}

/// Creates a Lease.
async fn make(
    State(inside): State<Arc<Inside>>,
    Path((ns, kind)): Path<(String, String)>,
    Json(mut object): Json<Value>,
) -> Response {
    let mut held = inside.held.lock().unwrap();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{ns}/{kind}/{name}");
    if held.objects.contains_key(&path) {
        return error(StatusCode::CONFLICT, "AlreadyExists");
    }
    held.version += 1;
    object["metadata"]["resourceVersion"] = held.version.to_string().into();
    object["metadata"]["uid"] = format!("uid-{}", held.version).into();
    held.objects.insert(path, object.clone());
    (StatusCode::CREATED, Json(object)).into_response()
}

async fn replace(
    State(inside): State<Arc<Inside>>,
    Path((ns, kind, name)): Path<(String, String, String)>,
    Json(mut object): Json<Value>,
) -> Response {
    let mut held = inside.held.lock().unwrap();
    held.version += 1;
    let version = held.version.to_string();
    let Some(known) = held.objects.get_mut(&format!("{ns}/{kind}/{name}")) else {
        return error(StatusCode::NOT_FOUND, "NotFound");
    };
    if known["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
        return error(StatusCode::CONFLICT, "Conflict");
    }
    object["metadata"]["resourceVersion"] = version.into();
    *known = object.clone();
    Json(object).into_response()
}

async fn patch(
    State(inside): State<Arc<Inside>>,
    Path((ns, kind, name)): Path<(String, String, String)>,
    Json(patch): Json<Value>,
) -> Response {
    let mut held = inside.held.lock().unwrap();
    let Some(known) = held.objects.get_mut(&format!("{ns}/{kind}/{name}")) else {
        return error(StatusCode::NOT_FOUND, "NotFound");
    };
    let annotations = &patch["metadata"]["annotations"];
    known["metadata"]["annotations"] = annotations.clone();
    Json(known.clone()).into_response()
}

/// Deletes an account and with it its tokens.
async fn remove(
    State(inside): State<Arc<Inside>>,
    Path((ns, kind, name)): Path<(String, String, String)>,
) -> Response {
    let mut held = inside.held.lock().unwrap();
    let path = format!("{ns}/{kind}/{name}");
    let Some(object) = held.objects.remove(&path) else {
        return error(StatusCode::NOT_FOUND, "NotFound");
    };
    held.tokens.retain(|_, status| status["of"] != path.as_str());
    Json(object).into_response()
}
