//! The standby forwards page and API requests to the leader, which owns runs and user actions.
//!
//! While the leader does not respond, the standby serves reads itself (the response says so) and rejects writes.

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
use crate::{api_error::ApiError, hop_headers::HOP_BY_HOP_HEADERS};

/// Response header with the name of the replica that responded.
const REPLICA_HEADER: HeaderName = HeaderName::from_static("parallax-replica");

/// Request header set on forwarded requests, so that they cannot loop while the leader changes. A client that sets it
/// gets the response of the replica it connects to.
const FORWARDED_HEADER: HeaderName = HeaderName::from_static("parallax-forwarded-by");

/// Connect timeout to the leader.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout for the response headers of a read; after it the standby responds itself.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP client for requests to the leader.
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
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        // No connection reuse: the pool could hold a connection to a leader that died.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        Self(client)
    }
}

/// Middleware that forwards a request to the leader, or handles it on this replica.
pub(super) async fn forward_to_leader(
    State(shared): State<ServerState>,
    request: Request,
    next: Next,
) -> Response {
    let name = shared.replica.name().to_owned();
    let ReplicaRole::Standby { leader } = shared.replica.role() else {
        return with_replica_header(next.run(request).await, &name);
    };
    let reads = request.method().is_safe();
    if request.headers().contains_key(FORWARDED_HEADER) {
        // The sender takes this replica for the leader, or a client asks for this replica in particular.
        return if reads {
            with_replica_header(next.run(request).await, &name)
        } else {
            with_replica_header(no_leader(leader.as_ref()), &name)
        };
    }
    let Some(page) = leader.as_ref().and_then(|leader| leader.page.clone()) else {
        return if reads {
            with_replica_header(next.run(request).await, &name)
        } else {
            with_replica_header(no_leader(leader.as_ref()), &name)
        };
    };
    if !reads {
        let answered = shared.leader_proxy.forward(request, &page, &name).await;
        return answered.unwrap_or_else(|| with_replica_header(no_leader(leader.as_ref()), &name));
    }
    let (head, body) = request.into_parts();
    let empty_request = Request::from_parts(head.clone(), Body::empty());
    let answered = tokio::time::timeout(
        RESPONSE_TIMEOUT,
        shared.leader_proxy.forward(empty_request, &page, &name),
    )
    .await;
    match answered {
        Ok(Some(response)) => response,
        Ok(None) | Err(_) => with_replica_header(next.run(Request::from_parts(head, body)).await, &name),
    }
}

impl LeaderProxy {
    /// Forwards a request. `None` if the leader does not respond.
    async fn forward(&self, request: Request, page: &str, name: &str) -> Option<Response> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query()?.clone();
        head.uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(page)
            .path_and_query(path)
            .build()
            .ok()?;
        head.version = axum::http::Version::HTTP_11;
        strip_hop_headers(&mut head.headers);
        head.headers
            .insert(FORWARDED_HEADER, HeaderValue::from_str(name).ok()?);
        let answer = self.0.request(Request::from_parts(head, body)).await;
        match answer {
            Ok(response) => {
                let mut response = response.map(Body::new);
                strip_hop_headers(response.headers_mut());
                Some(response)
            }
            Err(error) => {
                tracing::debug!(%error, page, "the leader does not respond");
                None
            }
        }
    }
}

fn strip_hop_headers(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP_HEADERS {
        headers.remove(name);
    }
}

/// Rejects a write while no leader can take it.
fn no_leader(leader: Option<&LeaderAddress>) -> Response {
    let message = match leader {
        Some(leader) => format!(
            "this aggregator is on standby and the leader {} does not respond; retry the request",
            leader.name
        ),
        None => "this aggregator is on standby and there is no leader yet; retry the request".to_owned(),
    };
    let body = json!({"error": message, "leader": leader.map(|leader| &leader.name)});
    ApiError::with_body(StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

/// Adds the name of the replica to a response, if there are several replicas.
fn with_replica_header(mut response: Response, name: &str) -> Response {
    if let (false, Ok(name)) = (name.is_empty(), HeaderValue::from_str(name)) {
        response.headers_mut().insert(REPLICA_HEADER, name);
    }
    response
}
