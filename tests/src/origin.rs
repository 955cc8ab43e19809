//! The lab's workload: answers every host with 200 and the name of its Pod, unless configured otherwise.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{HOST, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, task::JoinSet};

/// The header that names the answering pod.
pub const POD_HEADER: &str = "parallax-pod";

/// Maximum number of concurrent connections; further clients wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 256;

/// Behaviour of the server.
#[derive(Debug, Clone)]
pub struct OriginBehaviour {
    /// Status of every response.
    pub status: StatusCode,
    /// Delay before each response.
    pub delay: Duration,
    /// Size of the body; by default a line about the Pod.
    pub body_bytes: Option<usize>,
    /// Hosts that it serves, others get a 404; empty means any.
    pub hosts: Vec<String>,
}

impl Default for OriginBehaviour {
    fn default() -> Self {
        Self {
            status: StatusCode::OK,
            delay: Duration::ZERO,
            body_bytes: None,
            hosts: Vec::new(),
        }
    }
}

impl OriginBehaviour {
    fn status_for<B>(&self, request: &Request<B>) -> StatusCode {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default();
        let name = host.split(':').next().unwrap_or_default();
        if self.hosts.is_empty() || self.hosts.iter().any(|known| known == name) {
            self.status
        } else {
            StatusCode::NOT_FOUND
        }
    }
}

/// Serves until the process is killed.
pub async fn serve(
    listen: &[SocketAddr],
    pod: &str,
    node: &str,
    manner: OriginBehaviour,
) -> anyhow::Result<()> {
    let mut servers = JoinSet::new();
    let header = HeaderValue::from_str(pod)?;
    let body = match manner.body_bytes {
        Some(bytes) => Bytes::from(vec![b'.'; bytes]),
        None => Bytes::from(format!("{pod} on {node}\n")),
    };
    let manner = Arc::new(manner);
    for address in listen {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| anyhow::anyhow!("cannot listen on {address}: {error}"))?;
        servers.spawn(accept(listener, header.clone(), body.clone(), manner.clone()));
    }
    while let Some(ended) = servers.join_next().await {
        ended??;
    }
    Ok(())
}

async fn accept(
    listener: TcpListener,
    pod: HeaderValue,
    body: Bytes,
    manner: Arc<OriginBehaviour>,
) -> anyhow::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MOST_CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        let (stream, _) = listener.accept().await?;
        let (pod, body, manner) = (pod.clone(), body.clone(), manner.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let mut response = Response::new(Full::new(body.clone()));
            *response.status_mut() = manner.status_for(&request);
            response.headers_mut().insert(POD_HEADER, pod.clone());
            let delay = manner.delay;
            async move {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                Ok::<_, Infallible>(response)
            }
        });
        connections.spawn(async move {
            // Errors of a client's connection are ignored.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
