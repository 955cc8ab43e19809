//! The echo that every prober serves to the others: the identity of the responder and the peer address that it saw.
//! Also `/healthz`, `/readyz` and `/metrics`.

mod connection_table;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parallax_model::{
    ECHO_MAX_SIZE, ECHO_NONCE_HEADER, ECHO_PATH, EchoIdentity, Incarnation, NodeName, PodName,
};
use parking_lot::RwLock;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

use self::connection_table::{AdmittedConnection, ConnectionTable};
use crate::shared_state::Status;

/// Timeout for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum lifetime of a connection, kept alive or not.
const MAX_CONNECTION_LIFETIME: Duration = Duration::from_mins(1);

/// How long a nonce stays valid after it was replaced. Probers get a new plan within seconds.
const PREVIOUS_NONCE_TTL: Duration = Duration::from_mins(2);

/// Pause after a failed accept: for lack of file descriptors it would fail again immediately.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The identity with which the echo responds, and its nonces.
#[derive(Debug)]
pub(crate) struct EchoResponder {
    pub(crate) pod: PodName,
    pub(crate) node: NodeName,
    pub(crate) instance: Incarnation,
    pub(crate) nonces: RwLock<EchoNonces>,
    pub(crate) status: Arc<Status>,
}

/// The nonces that the echo accepts: none before the first plan.
#[derive(Debug, Default)]
pub(crate) struct EchoNonces {
    current: Box<str>,
    /// The previous nonce and the end of its validity.
    previous: Option<(Box<str>, Instant)>,
}

impl EchoNonces {
    /// Sets the nonce of a new plan. The previous one stays valid for a while, because peers receive the new one
    /// seconds later.
    pub(crate) fn set_current(&mut self, nonce: &str, now: Instant) {
        if *self.current != *nonce {
            let former = std::mem::replace(&mut self.current, nonce.into());
            self.previous = (!former.is_empty()).then(|| (former, now + PREVIOUS_NONCE_TTL));
        }
    }

    fn accepts(&self, given: &[u8], now: Instant) -> bool {
        let former = self.previous.as_ref().filter(|(_, until)| now < *until);
        let mut nonces = std::iter::once(&self.current).chain(former.map(|(nonce, _)| nonce));
        nonces.any(|nonce| !nonce.is_empty() && nonce.as_bytes() == given)
    }
}

/// Serves until cancelled. Then closes idle connections and lets others finish their response.
pub(crate) async fn serve(listener: TcpListener, echo: Arc<EchoResponder>, cancel: CancellationToken) {
    let table = ConnectionTable::default();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (echo, cancel) = (Arc::clone(&echo), cancel.clone());
                let admitted = table.admit(peer.ip().to_canonical());
                connections.spawn(serve_connection(stream, (peer, admitted), echo, cancel));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the echo");
                wait_before_accept(&cancel).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
}

async fn wait_before_accept(cancel: &CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = time::sleep(ACCEPT_RETRY_DELAY) => {}
    }
}

async fn serve_connection(
    stream: TcpStream,
    (peer, admitted): (SocketAddr, AdmittedConnection),
    echo: Arc<EchoResponder>,
    cancel: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %peer, "cannot set TCP_NODELAY for a client of the echo");
    }
    let service = service_fn(|request| {
        let response = echo.respond(&request, peer, &admitted);
        async move { Ok::<_, Infallible>(response) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = admitted.displaced() => return,
        () = time::sleep(MAX_CONNECTION_LIFETIME) => return,
        () = cancel.cancelled() => {
            serving.as_mut().graceful_shutdown();
            match time::timeout(HEAD_TIMEOUT, serving).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection to the echo failed");
    }
}

impl EchoResponder {
    fn respond(
        &self,
        request: &Request<Incoming>,
        peer: SocketAddr,
        admitted: &AdmittedConnection,
    ) -> Response<Full<Bytes>> {
        let is_of_mesh = request.uri().path() == ECHO_PATH
            && request.method() == Method::GET
            && self.is_authorized(request.headers().get(ECHO_NONCE_HEADER));
        if is_of_mesh {
            admitted.mark_as_mesh();
            return match parse_size(request.uri().query()) {
                Ok(size) => self.identity_response(peer, size),
                Err(reason) => text_response(StatusCode::BAD_REQUEST, reason),
            };
        }
        let mut response = self.respond_to_stranger(request);
        // A connection is kept for the mesh only.
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    fn respond_to_stranger(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET {
            return text_response(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
        }
        match request.uri().path() {
            "/healthz" => text_response(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness_response(),
            "/metrics" => self.metrics_response(request.headers().get(header::ACCEPT)),
            _ => text_response(StatusCode::NOT_FOUND, "not found\n"),
        }
    }

    /// Ready since the first plan: a prober without one makes no probes, and a rollout must not end the Pod that it replaces.
    fn readiness_response(&self) -> Response<Full<Bytes>> {
        match self.status.assignments() {
            Some(_) => text_response(StatusCode::OK, "ok\n"),
            None => text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "waiting for the first plan from the aggregator\n",
            ),
        }
    }

    /// Whether a request carries a valid nonce. Without one the echo responds 404, as if it did not exist.
    fn is_authorized(&self, given: Option<&HeaderValue>) -> bool {
        given.is_some_and(|given| self.nonces.read().accepts(given.as_bytes(), Instant::now()))
    }

    /// Responds with the identity. With a size, the body has exactly that many bytes: padded with spaces, or only
    /// spaces if the identity does not fit.
    fn identity_response(&self, peer: SocketAddr, size: Option<usize>) -> Response<Full<Bytes>> {
        let identity = EchoIdentity {
            pod: self.pod.clone(),
            node: self.node.clone(),
            instance: self.instance.to_string(),
            // A dual-stack socket reports IPv4 clients as IPv4-mapped IPv6 addresses.
            peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
        };
        match serde_json::to_vec(&identity) {
            Ok(json) => response(StatusCode::OK, "application/json", padded(json, size)),
            Err(_) => text_response(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot serialize the identity\n",
            ),
        }
    }

    fn metrics_response(&self, accept: Option<&HeaderValue>) -> Response<Full<Bytes>> {
        let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
        match self.status.expose(accept) {
            Ok(exposition) => response(StatusCode::OK, exposition.content_type, exposition.body),
            Err(_) => text_response(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n"),
        }
    }
}

/// Parses the size requested with `?size=N`.
fn parse_size(query: Option<&str>) -> Result<Option<usize>, &'static str> {
    let Some(value) = query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("size=")))
    else {
        return Ok(None);
    };
    value
        .parse::<u32>()
        .ok()
        .filter(|size| *size <= ECHO_MAX_SIZE)
        .and_then(|size| usize::try_from(size).ok())
        .map(Some)
        .ok_or("expected size=0 to size=262144\n")
}

fn padded(json: Vec<u8>, size: Option<usize>) -> Vec<u8> {
    match size {
        None => json,
        Some(size) => {
            let mut body = if json.len() <= size { json } else { Vec::new() };
            body.resize(size, b' ');
            body
        }
    }
}

fn text_response(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", body)
}

fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_bounded_and_a_wrong_one_is_refused() {
        assert_eq!(parse_size(None), Ok(None));
        assert_eq!(parse_size(Some("a=b&size=1300")), Ok(Some(1300)));
        for wrong in ["size=", "size=-1", "size=262145", "size=x"] {
            assert!(parse_size(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_of_a_size_has_exactly_that_size_and_still_reads() {
        let body = padded(b"{\"a\":1}".to_vec(), Some(100));
        assert_eq!(body.len(), 100);
        assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
        assert_eq!(padded(b"{\"a\":1}".to_vec(), Some(3)), b"   ");
    }
}
