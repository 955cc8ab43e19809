//! A replica that stands by hands on what people ask for to the one that leads: runs, handlings and pages have one place.
//!
//! While the leader does not answer, reading is answered from here, and says so; what would change something is refused.

use std::{fmt, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, uri::Scheme},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use parallax_kubernetes::replicas::{LeaderAddress, ReplicaRole};
use serde_json::json;

use super::ServerState;
use crate::{api_error::ApiError, hop_headers::HOP};

/// Which replica answered.
const REPLICA: HeaderName = HeaderName::from_static("parallax-replica");

/// Set on what is handed on, so that nothing goes round in circles while the leader changes. Who sets it is answered by
/// the replica that was asked.
const FORWARDED: HeaderName = HeaderName::from_static("parallax-forwarded-by");

/// A leader that takes longer to accept a connection is gone.
const CONNECT: Duration = Duration::from_secs(2);

/// A leader that takes longer to begin an answer to a reader is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to the leader.
#[derive(Clone)]
pub(crate) struct LeaderProxy(Client<HttpConnector, Body>);

impl fmt::Debug for LeaderProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forwarder")
    }
}

impl LeaderProxy {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        // A connection of its own for each: a leader that died must not be found in a pool.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        Self(client)
    }
}

/// Answers, here or by the leader.
pub(super) async fn to_leader(State(shared): State<ServerState>, request: Request, next: Next) -> Response {
    let name = shared.replica.name().to_owned();
    let ReplicaRole::StandsBy { leader } = shared.replica.part() else {
        return signed(next.run(request).await, &name);
    };
    let reads = request.method().is_safe();
    if request.headers().contains_key(FORWARDED) {
        // The one that handed it on takes us for the leader, or somebody wants to hear this one.
        return if reads {
            signed(next.run(request).await, &name)
        } else {
            signed(nobody(leader.as_ref()), &name)
        };
    }
    let Some(page) = leader.as_ref().and_then(|leader| leader.page.clone()) else {
        return if reads {
            signed(next.run(request).await, &name)
        } else {
            signed(nobody(leader.as_ref()), &name)
        };
    };
    if !reads {
        let answered = shared.forwarder.send(request, &page, &name).await;
        return answered.unwrap_or_else(|| signed(nobody(leader.as_ref()), &name));
    }
    let (head, body) = request.into_parts();
    let asked = Request::from_parts(head.clone(), Body::empty());
    let answered = tokio::time::timeout(PATIENCE, shared.forwarder.send(asked, &page, &name)).await;
    match answered {
        Ok(Some(response)) => response,
        Ok(None) | Err(_) => signed(next.run(Request::from_parts(head, body)).await, &name),
    }
}

impl LeaderProxy {
    /// Hands a request on; nothing where no answer came.
    async fn send(&self, request: Request, page: &str, name: &str) -> Option<Response> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query()?.clone();
        head.uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(page)
            .path_and_query(path)
            .build()
            .ok()?;
        head.version = axum::http::Version::HTTP_11;
        strip(&mut head.headers);
        head.headers.insert(FORWARDED, HeaderValue::from_str(name).ok()?);
        let answer = self.0.request(Request::from_parts(head, body)).await;
        match answer {
            Ok(response) => {
                let mut response = response.map(Body::new);
                strip(response.headers_mut());
                Some(response)
            }
            Err(error) => {
                tracing::debug!(%error, page, "the leading aggregator does not answer");
                None
            }
        }
    }
}

fn strip(headers: &mut HeaderMap) {
    for name in &HOP {
        headers.remove(name);
    }
}

/// What would change something, while nobody is known who may.
fn nobody(leader: Option<&LeaderAddress>) -> Response {
    let said = match leader {
        Some(leader) => format!(
            "this aggregator stands by, and {}, which leads, does not answer; ask again",
            leader.name
        ),
        None => "this aggregator stands by, and no other one leads yet; ask again".to_owned(),
    };
    let body = json!({"error": said, "leader": leader.map(|leader| &leader.name)});
    ApiError::with_body(StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

/// Says who answers, where there are several.
fn signed(mut response: Response, name: &str) -> Response {
    if let (false, Ok(name)) = (name.is_empty(), HeaderValue::from_str(name)) {
        response.headers_mut().insert(REPLICA, name);
    }
    response
}
