//! A receiver that records its requests and responds as a test scripts it.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use super::super::WebhookOptions;

pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A scripted response.
#[derive(Debug, Clone)]
pub(super) enum ScriptedResponse {
    Status(u16),
    /// A status with a header.
    StatusWithHeader(u16, &'static str, String),
    /// No response.
    NoResponse,
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(super) struct RecordedRequest {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl RecordedRequest {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

#[derive(Debug, Clone)]
struct SharedState {
    responses: Arc<Mutex<VecDeque<ScriptedResponse>>>,
    requests: watch::Sender<Vec<RecordedRequest>>,
}

/// Responds in the given order, then with 204.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    pub(super) folder: tempfile::TempDir,
    state: SharedState,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    pub(super) async fn with_responses(answers: impl IntoIterator<Item = ScriptedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inside = SharedState {
            responses: Arc::new(Mutex::new(answers.into_iter().collect())),
            requests: watch::Sender::new(Vec::new()),
        };
        let router = Router::new().fallback(respond).with_state(inside.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), SECRET).unwrap();
        Self {
            address,
            folder,
            state: inside,
            task,
        }
    }

    pub(super) fn webhook(&self) -> WebhookOptions {
        WebhookOptions {
            name: "r".to_owned(),
            url: format!("http://{}/hook?team=a", self.address).parse().unwrap(),
            secret_file: self.folder.path().join("secret"),
            ca_file: None,
        }
    }

    /// Waits until `count` requests are recorded.
    pub(super) async fn wait_for_requests(&self, count: usize) -> Vec<RecordedRequest> {
        let mut requests = self.state.requests.subscribe();
        let all = requests.wait_for(|requests| requests.len() >= count);
        tokio::time::timeout(Duration::from_mins(1), all)
            .await
            .expect("the requests arrive in time")
            .unwrap()
            .clone()
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.state.requests.borrow().clone()
    }
}

async fn respond(State(inside): State<SharedState>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = RecordedRequest {
        path: uri.to_string(),
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    inside.requests.send_modify(|all| all.push(request));
    let answer = inside.responses.lock().unwrap().pop_front();
    match answer.unwrap_or(ScriptedResponse::Status(204)) {
        ScriptedResponse::Status(code) => {
            (StatusCode::from_u16(code).unwrap(), "as the\ntest has it").into_response()
        }
        ScriptedResponse::StatusWithHeader(code, name, value) => {
            (StatusCode::from_u16(code).unwrap(), [(name, value)], "").into_response()
        }
        ScriptedResponse::NoResponse => std::future::pending().await,
    }
}
