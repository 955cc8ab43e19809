//! A receiver that records messages.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// A received message.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) signature: String,
    pub(super) body: Value,
    taken: bool,
}

#[derive(Debug, Default)]
struct Inside {
    heard: Vec<Message>,
    answer: Option<StatusCode>,
}

pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    inside: Arc<Mutex<Inside>>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inside = Arc::<Mutex<Inside>>::default();
        let router = Router::new().route("/", post(hear)).with_state(inside.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            inside,
            task,
        }
    }

    /// Sets the status of the following responses.
    pub(super) fn respond_with(&self, code: u16) {
        self.inside.lock().unwrap().answer = Some(StatusCode::from_u16(code).unwrap());
    }

    /// Returns all received messages, accepted or not.
    pub(super) fn all(&self) -> Vec<Message> {
        self.inside.lock().unwrap().heard.clone()
    }

    /// Returns the accepted messages.
    pub(super) fn accepted(&self) -> Vec<Message> {
        let mut all = self.all();
        all.retain(|message| message.taken);
        all
    }
}

async fn hear(State(inside): State<Arc<Mutex<Inside>>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let word = |name: &str| headers[name].to_str().unwrap().to_owned();
    let mut inside = inside.lock().unwrap();
    let answer = inside.answer.unwrap_or(StatusCode::NO_CONTENT);
    inside.heard.push(Message {
        id: word("webhook-id"),
        signature: word("webhook-signature"),
        body: serde_json::from_slice(&body).unwrap(),
        taken: answer.is_success(),
    });
    answer
}
