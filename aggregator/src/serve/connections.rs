//! Accepts connections, limits their number, and shuts each of them down gracefully.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::connection_limit::{ConnectionLimit, PeerAddress};

/// Maximum number of connections: two for each prober of a 5 000-node mesh, and users.
const MAX_CONNECTIONS: usize = 16_384;

/// Timeout for a request's headers; also ends idle connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may read nothing while a response waits for it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Grace period for requests in flight once the aggregator stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Serves until cancelled and every connection has ended.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    cancelled: CancellationToken,
) {
    let connections = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let limit = ConnectionLimit::default();
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else {
            break;
        };
        let accepted = tokio::select! {
            () = cancelled.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(counted) = limit.admit(peer.ip()) else {
                    tracing::debug!(%peer, "too many connections from this address");
                    continue;
                };
                let (tls, router, cancelled) = (tls.clone(), router.clone(), cancelled.clone());
                connections.spawn(async move {
                    // Responses are small and latency matters.
                    let _ = stream.set_nodelay(true);
                    match tls {
                        None => serve_connection(stream, peer.ip(), router, cancelled).await,
                        Some(tls) => {
                            if let Some(stream) = accept_tls(&tls, stream, &cancelled).await {
                                serve_connection(stream, peer.ip(), router, cancelled).await;
                            }
                        }
                    }
                    drop((permit, counted));
                });
            }
            Err(error) => {
                // Most likely out of file descriptors: wait for some to be released instead of spinning.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::select! {
                    () = cancelled.cancelled() => break,
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                }
            }
        }
    }
    connections.close();
    connections.wait().await;
}

/// Completes the TLS handshake with a client; `None` on failure or timeout.
async fn accept_tls(
    tls: &TlsAcceptor,
    stream: TcpStream,
    cancelled: &CancellationToken,
) -> Option<TlsStream<TcpStream>> {
    let shaking = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    let handshake = tokio::select! {
        () = cancelled.cancelled() => return None,
        handshake = shaking => handshake,
    };
    match handshake {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => None,
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: IpAddr,
    router: Router,
    cancelled: CancellationToken,
) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let inner = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(PeerAddress(peer));
        inner.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = cancelled.cancelled() => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        timeout(SHUTDOWN_GRACE, connection).await.unwrap_or(Ok(()))
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
