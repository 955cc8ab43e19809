//! The part of an API server that `kubectl parallax` needs: a Service, Pods, forwarded ports, tokens. Tests make it
//! reject requests.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

/// Page port in the Pods.
const PORT: u16 = 8_080;

#[derive(Debug, Default)]
struct Held {
    /// Status codes to answer instead, by the last segment of the path.
    refusals: BTreeMap<String, u16>,
    pods: Vec<Value>,
    service: bool,
    /// Credential of the last request.
    credential: Option<String>,
    tokens: Vec<String>,
}

/// State of the server, and the aggregator behind its Pods.
#[derive(Debug, Clone)]
struct Shared {
    held: Arc<Mutex<Held>>,
    aggregator: SocketAddr,
}

#[derive(Debug)]
pub(super) struct ApiServer {
    pub(super) url: String,
    shared: Shared,
    task: JoinHandle<()>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Builds a Pod of the aggregator.
pub(super) fn pod(name: &str, ready: bool) -> Value {
    let waiting = json!([{"name": "aggregator", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "parallax"},
        "spec": {"containers": [{"name": "aggregator", "ports": [{"name": "http", "containerPort": PORT}]}]},
        "status": {"phase": "Pending", "containerStatuses": if ready { json!([]) } else { waiting },
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

impl ApiServer {
    /// Starts a server whose Pods all forward to this aggregator.
    pub(super) async fn forwarding_to(aggregator: SocketAddr) -> Self {
        let held = Held {
            pods: vec![pod("agg-a", true)],
            service: true,
            ..Held::default()
        };
        let shared = Shared {
            held: Arc::new(Mutex::new(held)),
            aggregator,
        };
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, task }
    }

    fn change(&self, change: impl FnOnce(&mut Held)) {
        change(&mut self.shared.held.lock().unwrap());
    }

    /// Rejects requests with this path suffix from now on.
    pub(super) fn reject(&self, what: &str, code: u16) {
        self.change(|held| {
            held.refusals.clear();
            held.refusals.insert(what.to_owned(), code);
        });
    }

    pub(super) fn pods(&self, pods: Vec<Value>) {
        self.change(|held| {
            held.refusals.clear();
            held.pods = pods;
        });
    }

    pub(super) fn no_service(&self) {
        self.change(|held| held.service = false);
    }

    /// Returns the credential of the last request to the API server.
    pub(super) fn last_credential(&self) -> Option<String> {
        self.shared.held.lock().unwrap().credential.clone()
    }

    /// Returns the accounts for which tokens were requested, with their validity.
    pub(super) fn requested_tokens(&self) -> Vec<String> {
        self.shared.held.lock().unwrap().tokens.clone()
    }
}

fn status(code: u16, message: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Test", "message": message});
    (StatusCode::from_u16(code).unwrap(), Json(body)).into_response()
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let path: Vec<String> = request.uri().path().split('/').map(ToOwned::to_owned).collect();
    let shown = request.headers().get(header::AUTHORIZATION);
    let shown = shown.map(|shown| shown.to_str().unwrap().to_owned());
    {
        let mut held = shared.held.lock().unwrap();
        held.credential = shown;
        let kind = path.iter().rev().find(|part| held.refusals.contains_key(*part));
        if let Some(code) = kind.map(|kind| held.refusals[kind]) {
            return status(code, "as the test has it");
        }
    }
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    match parts[1..] {
        ["api", "v1", "namespaces", "parallax", "services", "parallax"]
            if shared.held.lock().unwrap().service =>
        {
            let port = json!({"name": "http", "port": 80, "targetPort": "http"});
            let spec = json!({"selector": {"app.kubernetes.io/component": "aggregator"}, "ports": [port]});
            let metadata = json!({"name": "parallax", "namespace": "parallax"});
            Json(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}))
                .into_response()
        }
        ["api", "v1", "namespaces", "parallax", "pods"] => {
            let query = request.uri().query().unwrap();
            assert!(
                query.contains("labelSelector=app.kubernetes.io%2Fcomponent%3Daggregator"),
                "{query}"
            );
            let items = shared.held.lock().unwrap().pods.clone();
            Json(json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}))
                .into_response()
        }
        ["api", "v1", "namespaces", "parallax", "pods", _, "portforward"] => {
            forward(request, shared.aggregator)
        }
        [
            "api",
            "v1",
            "namespaces",
            namespace,
            "serviceaccounts",
            account,
            "token",
        ] => {
            assert_eq!(request.method(), Method::POST);
            let body = axum::body::to_bytes(request.into_body(), 4_096).await.unwrap();
            let asked: Value = serde_json::from_slice(&body).unwrap();
            let spec = &asked["spec"];
            let made = format!("{namespace}/{account} {}", spec["expirationSeconds"]);
            shared.held.lock().unwrap().tokens.push(made);
            let given = json!({"token": super::PEOPLE, "expirationTimestamp": "2030-01-01T00:00:00Z"});
            Json(
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
                "spec": {"audiences": ["api"]}, "status": given}),
            )
            .into_response()
        }
        _ => status(404, "not found"),
    }
}

/// Forwards a port like the kubelet behind an API server: two channels, each starting with the port number.
fn forward(mut request: Request, aggregator: SocketAddr) -> Response {
    let key = request.headers()[header::SEC_WEBSOCKET_KEY].clone();
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = TokioIo::new(upgrading.await.unwrap());
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
        let (mut to, mut from) = socket.split();
        let [low, high] = PORT.to_le_bytes();
        for channel in [0, 1] {
            to.send(Message::binary(vec![channel, low, high])).await.unwrap();
        }
        let (mut reading, mut writing) = TcpStream::connect(aggregator).await.unwrap().into_split();
        let back = async {
            let mut bytes = vec![0; 4_096];
            while let Ok(read @ 1..) = reading.read(&mut bytes).await {
                let mut frame = vec![0];
                frame.extend_from_slice(&bytes[..read]);
                if to.send(Message::binary(frame)).await.is_err() {
                    return;
                }
            }
            // The client may already be gone.
            let _ = to.send(Message::Close(None)).await;
        };
        let forth = async {
            while let Some(Ok(message)) = from.next().await {
                if let Message::Binary(frame) = message {
                    assert_eq!(frame[0], 0);
                    writing.write_all(&frame[1..]).await.unwrap();
                }
            }
        };
        tokio::join!(back, forth);
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::UPGRADE, "websocket")
        .header(header::CONNECTION, "Upgrade")
        .header(header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()))
        .header(header::SEC_WEBSOCKET_PROTOCOL, "v4.channel.k8s.io")
        .body(Body::empty())
        .unwrap()
}
