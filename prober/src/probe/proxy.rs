//! The HTTP proxy of a probe: a tunnel for https (CONNECT, RFC 9110 §9.3.6), the absolute form of the request target for
//! http (RFC 9112 §3.2.2).
//!
//! The proxy's own failures have kinds of their own, so that they never look like failures of the target: the address
//! that the probe connects to is the proxy's.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parallax_model::{FailureKind, HttpProxyUrl, OwnFault, Phase};
use tokio::net::TcpStream;

use crate::{
    clock::{Deadline, DeadlineExceeded},
    failure::{EarlyEnd, FailureOrigin},
    http::{ConnectionDriver, MAX_HEAD, MAX_HEADERS, SpawnedTasks, USER_AGENT},
};

/// A request for a tunnel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TunnelRequest<'a> {
    /// Host and port of the server at the other end.
    pub(crate) authority: &'a str,
    /// The value of `Proxy-Authorization`.
    pub(crate) authorization: Option<&'a HeaderValue>,
}

/// How the connection of a probe uses a proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProxyUse<'a> {
    /// The requests are sent to the proxy itself.
    Forward,
    /// The proxy is asked for a tunnel first.
    Tunnel(TunnelRequest<'a>),
}

/// Describes a failure to resolve the proxy's name.
pub(super) fn unresolved(stop: EarlyEnd, proxy: &HttpProxyUrl) -> EarlyEnd {
    let FailureOrigin::Target(kind) = &stop.origin else {
        return stop;
    };
    let detail = format!("{}: {}", proxy.host, kind.description());
    EarlyEnd::new(Phase::Resolve, FailureKind::ProxyUnresolved).with_detail(detail)
}

/// Describes a failure to connect to the proxy.
pub(super) fn unreachable(stop: EarlyEnd) -> EarlyEnd {
    let FailureOrigin::Target(kind) = &stop.origin else {
        return stop;
    };
    let kind = match kind {
        FailureKind::Refused => FailureKind::ProxyRefused,
        FailureKind::Unreachable | FailureKind::Prohibited => FailureKind::ProxyUnreachable,
        FailureKind::ConnectTimeout => FailureKind::ProxyTimeout,
        _ => FailureKind::ProxyClosed,
    };
    EarlyEnd {
        origin: kind.into(),
        ..stop
    }
}

/// The failure of a response that only a proxy sends.
pub(super) fn authentication_required(phase: Phase) -> EarlyEnd {
    EarlyEnd::new(phase, FailureKind::ProxyAuthentication)
        .with_status(StatusCode::PROXY_AUTHENTICATION_REQUIRED.as_u16())
        .with_detail("the proxy answered 407; set proxyCredential, or check its credential")
}

/// Asks the proxy for a tunnel. The time until its answer belongs to the connect phase: the connection to the server is
/// established only then.
pub(super) async fn open_tunnel(
    tcp: TcpStream,
    tunnel: TunnelRequest<'_>,
    deadline: Deadline,
) -> Result<TcpStream, EarlyEnd> {
    match deadline.timeout(connect(tcp, tunnel)).await {
        Ok(opened) => opened,
        Err(DeadlineExceeded) => Err(EarlyEnd::new(Phase::Connect, FailureKind::ProxyTimeout)
            .with_detail("the proxy did not answer CONNECT in time")),
    }
}

async fn connect(tcp: TcpStream, tunnel: TunnelRequest<'_>) -> Result<TcpStream, EarlyEnd> {
    let request = connect_request(tunnel)?;
    let closed = |error: hyper::Error| {
        EarlyEnd::new(Phase::Connect, FailureKind::ProxyClosed).with_detail(error.to_string())
    };
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(tcp))
        .await
        .map_err(closed)?;
    let connection = pin!(connection.with_upgrades());
    let mut driver = ConnectionDriver::new(connection, SpawnedTasks::default());
    let response = driver.drive(sender.send_request(request)).await.map_err(closed)?;
    match response.status() {
        status if status.is_success() => {}
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => return Err(authentication_required(Phase::Connect)),
        status => {
            return Err(EarlyEnd::new(Phase::Connect, FailureKind::ProxyDenied)
                .with_status(status.as_u16())
                .with_detail(format!("the proxy answered {} to CONNECT", status.as_u16())));
        }
    }
    let upgraded = driver.drive(hyper::upgrade::on(response)).await.map_err(closed)?;
    let parts = upgraded.downcast::<TokioIo<TcpStream>>().map_err(|_| {
        EarlyEnd::new(Phase::Connect, OwnFault::NoResources).with_detail("the tunnel is no TCP connection")
    })?;
    // In TLS the client speaks first, so these bytes do not come from a tunnel.
    if !parts.read_buf.is_empty() {
        return Err(EarlyEnd::new(Phase::Connect, FailureKind::ProxyClosed)
            .with_detail("the proxy sent more than the answer to CONNECT"));
    }
    Ok(parts.io.into_inner())
}

fn connect_request(tunnel: TunnelRequest<'_>) -> Result<Request<Empty<Bytes>>, EarlyEnd> {
    let mut builder = Request::builder()
        .method(Method::CONNECT)
        .uri(tunnel.authority)
        .header(header::HOST, tunnel.authority)
        .header(header::USER_AGENT, USER_AGENT);
    if let Some(value) = tunnel.authorization {
        builder = builder.header(header::PROXY_AUTHORIZATION, value);
    }
    builder.body(Empty::new()).map_err(|error| {
        EarlyEnd::new(Phase::Connect, OwnFault::InvalidAssignment).with_detail(error.to_string())
    })
}
