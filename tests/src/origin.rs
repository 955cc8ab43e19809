//! The workload of the lab: answers every host with 200 and says which pod it is.

use std::{convert::Infallible, net::SocketAddr};

use http_body_util::Full;
use hyper::{Response, body::Bytes, header::HeaderValue, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, task::JoinSet};

/// The header that names the answering pod.
pub const POD_HEADER: &str = "parallax-pod";

/// Most connections at once; a client beyond it waits in the kernel's queue.
const MOST_CONNECTIONS: usize = 256;

/// Serves until the process is ended.
pub async fn serve(listen: &[SocketAddr], pod: &str, node: &str) -> anyhow::Result<()> {
    let mut servers = JoinSet::new();
    let header = HeaderValue::from_str(pod)?;
    let body = Bytes::from(format!("{pod} on {node}\n"));
    for address in listen {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| anyhow::anyhow!("cannot listen on {address}: {error}"))?;
        servers.spawn(accept(listener, header.clone(), body.clone()));
    }
    while let Some(ended) = servers.join_next().await {
        ended??;
    }
    Ok(())
}

async fn accept(listener: TcpListener, pod: HeaderValue, body: Bytes) -> anyhow::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MOST_CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        let (stream, _) = listener.accept().await?;
        let (pod, body) = (pod.clone(), body.clone());
        let service = service_fn(move |_request| {
            let mut response = Response::new(Full::new(body.clone()));
            response.headers_mut().insert(POD_HEADER, pod.clone());
            async move { Ok::<_, Infallible>(response) }
        });
        connections.spawn(async move {
            // What a client does to its connection is its own business.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
