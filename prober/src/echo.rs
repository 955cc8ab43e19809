//! The echo that every prober serves to the others: the identity of the responder and the peer address that it saw.
//! Also `/healthz` and `/metrics`.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parallax_model::{
    ECHO_LARGEST, ECHO_NONCE_HEADER, ECHO_PATH, EchoIdentity, Incarnation, NodeName, PodName,
};
use parking_lot::RwLock;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

use crate::status::Status;

/// Maximum number of concurrent connections. The regular clients are a few mesh neighbours and one scraper.
const CONNECTIONS: usize = 256;

/// Timeout for the head of a request.
const HEAD: Duration = Duration::from_secs(5);

/// Maximum lifetime of a connection, kept alive or not.
const LIFE: Duration = Duration::from_mins(1);

/// How long a nonce stays valid after it was replaced. Probers get a new plan within seconds.
const FORMER: Duration = Duration::from_mins(2);

/// Pause after a failed accept: for lack of file descriptors it would fail again immediately.
const REST: Duration = Duration::from_millis(100);

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
    former: Option<(Box<str>, Instant)>,
}

impl EchoNonces {
    /// Sets the nonce of a new plan. The previous one stays valid for a while, because peers receive the new one
    /// seconds later.
    pub(crate) fn renew(&mut self, nonce: &str, now: Instant) {
        if *self.current != *nonce {
            let former = std::mem::replace(&mut self.current, nonce.into());
            self.former = (!former.is_empty()).then(|| (former, now + FORMER));
        }
    }

    fn know(&self, given: &[u8], now: Instant) -> bool {
        let former = self.former.as_ref().filter(|(_, until)| now < *until);
        let mut nonces = std::iter::once(&self.current).chain(former.map(|(nonce, _)| nonce));
        nonces.any(|nonce| !nonce.is_empty() && nonce.as_bytes() == given)
    }
}

/// Serves until cancelled. Then closes idle connections and lets others finish their response.
pub(crate) async fn serve(listener: TcpListener, echo: Arc<EchoResponder>, cancel: CancellationToken) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // The permit comes first, so that connections beyond the maximum wait in the kernel's queue.
        let permit = tokio::select! {
            () = cancel.cancelled() => break,
            permit = Arc::clone(&permits).acquire_owned() => permit,
        };
        // The semaphore is never closed.
        let Ok(permit) = permit else { break };
        let accepted = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (echo, cancel) = (Arc::clone(&echo), cancel.clone());
                connections.spawn(async move {
                    connection(stream, peer, echo, cancel).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the echo");
                rest(&cancel).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
}

async fn rest(cancel: &CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = time::sleep(REST) => {}
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    echo: Arc<EchoResponder>,
    cancel: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %peer, "cannot set TCP_NODELAY for a client of the echo");
    }
    let service = service_fn(|request| {
        let response = echo.answer(&request, peer);
        async move { Ok::<_, Infallible>(response) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_header_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = time::sleep(LIFE) => return,
        () = cancel.cancelled() => {
            serving.as_mut().graceful_shutdown();
            match time::timeout(HEAD, serving).await {
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
    fn answer(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        if request.method() != Method::GET {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
        }
        match request.uri().path() {
            ECHO_PATH if self.knows(request.headers().get(ECHO_NONCE_HEADER)) => {
                match size(request.uri().query()) {
                    Ok(size) => self.identity(peer, size),
                    Err(why) => plain(StatusCode::BAD_REQUEST, why),
                }
            }
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            "/metrics" => self.metrics(request.headers().get(header::ACCEPT)),
            _ => plain(StatusCode::NOT_FOUND, "not found\n"),
        }
    }

    /// Whether a request carries a valid nonce. Without one the echo responds 404, as if it did not exist.
    fn knows(&self, given: Option<&HeaderValue>) -> bool {
        given.is_some_and(|given| self.nonces.read().know(given.as_bytes(), Instant::now()))
    }

    /// Responds with the identity. With a size, the body has exactly that many bytes: padded with spaces, or only
    /// spaces if the identity does not fit.
    fn identity(&self, peer: SocketAddr, size: Option<usize>) -> Response<Full<Bytes>> {
        let identity = EchoIdentity {
            pod: self.pod.clone(),
            node: self.node.clone(),
            instance: self.instance.to_string(),
            // A dual-stack socket reports IPv4 clients as IPv4-mapped IPv6 addresses.
            peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
        };
        match serde_json::to_vec(&identity) {
            Ok(json) => with_type(StatusCode::OK, "application/json", sized(json, size)),
            Err(_) => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot serialize the identity\n",
            ),
        }
    }

    fn metrics(&self, accept: Option<&HeaderValue>) -> Response<Full<Bytes>> {
        let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
        match self.status.expose(accept) {
            Ok(exposition) => with_type(StatusCode::OK, exposition.content_type, exposition.body),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n"),
        }
    }
}

/// Parses the size requested with `?size=N`.
fn size(query: Option<&str>) -> Result<Option<usize>, &'static str> {
    let Some(value) = query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("size=")))
    else {
        return Ok(None);
    };
    value
        .parse::<u32>()
        .ok()
        .filter(|size| *size <= ECHO_LARGEST)
        .and_then(|size| usize::try_from(size).ok())
        .map(Some)
        .ok_or("expected size=0 to size=262144\n")
}

fn sized(json: Vec<u8>, size: Option<usize>) -> Vec<u8> {
    match size {
        None => json,
        Some(size) => {
            let mut body = if json.len() <= size { json } else { Vec::new() };
            body.resize(size, b' ');
            body
        }
    }
}

fn plain(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", body)
}

fn with_type(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
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
        assert_eq!(size(None), Ok(None));
        assert_eq!(size(Some("a=b&size=1300")), Ok(Some(1300)));
        for wrong in ["size=", "size=-1", "size=262145", "size=x"] {
            assert!(size(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_of_a_size_has_exactly_that_size_and_still_reads() {
        let body = sized(b"{\"a\":1}".to_vec(), Some(100));
        assert_eq!(body.len(), 100);
        assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
        assert_eq!(sized(b"{\"a\":1}".to_vec(), Some(3)), b"   ");
    }
}
