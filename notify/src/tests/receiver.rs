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
pub(super) enum Answer {
    Status(u16),
    /// A status with a header.
    With(u16, &'static str, String),
    /// No response.
    Nothing,
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Heard {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

#[derive(Debug, Clone)]
struct Inside {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    heard: watch::Sender<Vec<Heard>>,
}

/// Responds in the given order, then with 204.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    pub(super) folder: tempfile::TempDir,
    inside: Inside,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    pub(super) async fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inside = Inside {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            heard: watch::Sender::new(Vec::new()),
        };
        let router = Router::new().fallback(answer).with_state(inside.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), SECRET).unwrap();
        Self {
            address,
            folder,
            inside,
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
    pub(super) async fn heard(&self, count: usize) -> Vec<Heard> {
        let mut heard = self.inside.heard.subscribe();
        let all = heard.wait_for(|heard| heard.len() >= count);
        tokio::time::timeout(Duration::from_mins(1), all)
            .await
            .expect("the requests arrive in time")
            .unwrap()
            .clone()
    }

    pub(super) fn now(&self) -> Vec<Heard> {
        self.inside.heard.borrow().clone()
    }
}

async fn answer(State(inside): State<Inside>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let heard = Heard {
        path: uri.to_string(),
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    inside.heard.send_modify(|all| all.push(heard));
    let answer = inside.answers.lock().unwrap().pop_front();
    match answer.unwrap_or(Answer::Status(204)) {
        Answer::Status(code) => (StatusCode::from_u16(code).unwrap(), "as the\ntest has it").into_response(),
        Answer::With(code, name, value) => {
            (StatusCode::from_u16(code).unwrap(), [(name, value)], "").into_response()
        }
        Answer::Nothing => std::future::pending().await,
    }
}
