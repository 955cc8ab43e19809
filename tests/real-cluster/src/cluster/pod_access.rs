//! Access to a Pod's port: directly if this machine has a route, otherwise through a port forwarded by its kubelet.
//!
//! The API server's Pod proxy is no alternative: its connections come from outside the namespaces that the
//! installation's NetworkPolicies admit, and a CNI that enforces them drops these connections. A forwarded port starts
//! inside the Pod.

use std::{cell::Cell, time::Duration};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

use super::PodView;
use crate::exchange::{Answer, exchange};

/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// Method of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodRoute {
    /// Directly.
    Direct,
    /// Ports forwarded through the API server.
    Forwarded,
}

/// A connection to a pod.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Access to Pods.
pub struct PodAccess {
    client: Client,
    way: Cell<PodRoute>,
}

impl PodAccess {
    pub(super) const fn new(client: Client) -> Self {
        Self {
            client,
            way: Cell::new(PodRoute::Direct),
        }
    }

    /// Returns the current method.
    #[must_use]
    pub fn route(&self) -> PodRoute {
        self.way.get()
    }

    /// Checks whether a Pod's address is reachable from here, and otherwise uses forwarded ports from now on.
    pub async fn choose_route(&self, pod: &PodView, port: u16) -> PodRoute {
        let way = match direct(pod, port).await {
            Ok(_) => PodRoute::Direct,
            Err(_) => PodRoute::Forwarded,
        };
        self.way.set(way);
        way
    }

    /// Connects to a port of a Pod.
    ///
    /// # Errors
    /// The Pod has no address, or the port does not respond within two seconds.
    pub async fn connect(&self, pod: &PodView, port: u16) -> anyhow::Result<Box<dyn Stream>> {
        match self.way.get() {
            PodRoute::Direct => Ok(Box::new(direct(pod, port).await?)),
            PodRoute::Forwarded => {
                let api = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace);
                let mut forwarded = timeout(CONNECT_TIMEOUT, api.portforward(&pod.name, &[port]))
                    .await
                    .with_context(|| format!("forwarding port {port} of {}: timeout", pod.name))?
                    .with_context(|| format!("forwarding port {port} of {}", pod.name))?;
                let stream = forwarded
                    .take_stream(port)
                    .with_context(|| format!("no stream to port {port} of {}", pod.name))?;
                Ok(Box::new(stream))
            }
        }
    }

    /// Sends a GET request and reads the whole response.
    ///
    /// # Errors
    /// Like [`Self::connect`], or no response within four seconds.
    pub async fn get(
        &self,
        pod: &PodView,
        port: u16,
        path: &str,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        self.request(pod, port, (Method::GET, path), headers, Bytes::new())
            .await
    }

    /// Sends JSON in a PUT request.
    ///
    /// # Errors
    /// Like [`Self::get`], and any status other than 2xx.
    pub async fn put(
        &self,
        pod: &PodView,
        port: u16,
        path: &str,
        json: &impl serde::Serialize,
    ) -> anyhow::Result<()> {
        let body = serde_json::to_vec(json)?.into();
        let headers = [("content-type", "application/json")];
        let answer = self
            .request(pod, port, (Method::PUT, path), &headers, body)
            .await?;
        if !answer.status.is_success() {
            bail!(
                "PUT {path} of {}: {}: {}",
                pod.name,
                answer.status,
                String::from_utf8_lossy(&answer.body)
            );
        }
        Ok(())
    }

    async fn request(
        &self,
        pod: &PodView,
        port: u16,
        (method, path): (Method, &str),
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let stream = self.connect(pod, port).await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &pod.name);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body))?;
        timeout(REQUEST_TIMEOUT, exchange(stream, request))
            .await
            .with_context(|| format!("{path} of {}: no response within {REQUEST_TIMEOUT:?}", pod.name))?
    }
}

async fn direct(pod: &PodView, port: u16) -> anyhow::Result<TcpStream> {
    let address = pod
        .address
        .with_context(|| format!("{} has no address", pod.name))?;
    ensure!(pod.running, "{} is not running", pod.name);
    timeout(CONNECT_TIMEOUT, TcpStream::connect((address, port)))
        .await
        .with_context(|| format!("connecting to {address}:{port}: timeout"))?
        .with_context(|| format!("connecting to {address}:{port}"))
}
