//! A forward proxy on loopback, for programs that address Pods by IP: Prometheus and a browser.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, uri::PathAndQuery};
use http_body_util::Full;
use hyper::{body::Incoming, server, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{PodAccess, Pods};

/// The proxy; its connections are closed on drop.
pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    pods: Rc<Pods>,
    reach: Rc<PodAccess>,
}

impl Proxy {
    /// Binds a free port.
    ///
    /// # Errors
    /// No free port.
    pub async fn bind(pods: Rc<Pods>, reach: Rc<PodAccess>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("a port for the proxy")?;
        Ok(Self {
            address: listener.local_addr().context("the proxy's port")?,
            listener,
            pods,
            reach,
        })
    }

    /// Returns its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        connections.spawn_local(serve(stream, Rc::clone(&self.pods), Rc::clone(&self.reach)));
                    }
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }
}

async fn serve(stream: TcpStream, pods: Rc<Pods>, reach: Rc<PodAccess>) {
    let service = service_fn(|request| {
        let (pods, reach) = (Rc::clone(&pods), Rc::clone(&reach));
        async move {
            let answer = pass_on(request, &pods, &reach).await;
            Ok::<_, hyper::Error>(answer.unwrap_or_else(|error| refused(&error)))
        }
    });
    // Errors of a connection are reported to its client.
    let _ = server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Request headers that influence the response.
const FORWARDED_REQUEST_HEADERS: [&str; 2] = ["accept", "accept-encoding"];
/// Response headers needed to read it.
const FORWARDED_RESPONSE_HEADERS: [&str; 2] = ["content-type", "content-encoding"];

async fn pass_on(
    request: Request<Incoming>,
    pods: &Pods,
    reach: &PodAccess,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let uri = request.uri();
    ensure!(request.method() == Method::GET, "only GET is supported");
    let address: IpAddr = uri
        .host()
        .context("a request without a host")?
        .trim_matches(['[', ']'])
        .parse()
        .with_context(|| format!("{uri}: expected the address of a pod"))?;
    let pod = pods
        .with_address(address)
        .with_context(|| format!("no pod has the address {address}"))?;
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let headers: Vec<(&str, &str)> = FORWARDED_REQUEST_HEADERS
        .into_iter()
        .filter_map(|name| Some((name, request.headers().get(name)?.to_str().ok()?)))
        .collect();
    let answer = reach
        .get(&pod, uri.port_u16().unwrap_or(80), path, &headers)
        .await?;
    let mut passed = Response::new(Full::new(answer.body));
    *passed.status_mut() = answer.status;
    for name in FORWARDED_RESPONSE_HEADERS {
        if let Some(value) = answer.headers.get(name) {
            passed.headers_mut().insert(name, value.clone());
        }
    }
    Ok(passed)
}

fn refused(error: &anyhow::Error) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(format!("{error:#}\n"))));
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer
}
