//! Ways into a pod's port: its address where this machine has a route, else a port forwarded by its kubelet.
//!
//! The API server's pod proxy is none of them: its connections come from outside the namespaces that the installation's
//! network policies let in, and a CNI that enforces these drops them. A forwarded port begins inside the pod.

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

/// The longest that a connection takes.
const CONNECT: Duration = Duration::from_secs(2);
/// The longest that a request takes.
const ANSWER: Duration = Duration::from_secs(4);

/// How pods are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodRoute {
    /// By their addresses.
    Direct,
    /// By ports forwarded through the API server.
    Forwarded,
}

/// A connection to a pod.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The way into pods.
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

    /// How pods are reached.
    #[must_use]
    pub fn way(&self) -> PodRoute {
        self.way.get()
    }

    /// Finds out whether a pod's address can be reached from here, and otherwise has ports forwarded from now on.
    pub async fn choose(&self, pod: &PodView, port: u16) -> PodRoute {
        let way = match direct(pod, port).await {
            Ok(_) => PodRoute::Direct,
            Err(_) => PodRoute::Forwarded,
        };
        self.way.set(way);
        way
    }

    /// A connection to a port of a pod.
    ///
    /// # Errors
    /// The pod has no address, or the port does not answer within two seconds.
    pub async fn connect(&self, pod: &PodView, port: u16) -> anyhow::Result<Box<dyn Stream>> {
        match self.way.get() {
            PodRoute::Direct => Ok(Box::new(direct(pod, port).await?)),
            PodRoute::Forwarded => {
                let api = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace);
                let mut forwarded = timeout(CONNECT, api.portforward(&pod.name, &[port]))
                    .await
                    .with_context(|| format!("forwarding port {port} of {}: no answer", pod.name))?
                    .with_context(|| format!("forwarding port {port} of {}", pod.name))?;
                let stream = forwarded
                    .take_stream(port)
                    .with_context(|| format!("no stream to port {port} of {}", pod.name))?;
                Ok(Box::new(stream))
            }
        }
    }

    /// Asks for a path and reads the whole answer.
    ///
    /// # Errors
    /// As [`Self::connect`], or no answer within four seconds.
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

    /// Sends JSON.
    ///
    /// # Errors
    /// As [`Self::get`], and any other status than 2xx.
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
        timeout(ANSWER, exchange(stream, request))
            .await
            .with_context(|| format!("{path} of {}: no answer within {ANSWER:?}", pod.name))?
    }
}

async fn direct(pod: &PodView, port: u16) -> anyhow::Result<TcpStream> {
    let address = pod
        .address
        .with_context(|| format!("{} has no address", pod.name))?;
    ensure!(pod.running, "{} does not run", pod.name);
    timeout(CONNECT, TcpStream::connect((address, port)))
        .await
        .with_context(|| format!("connecting to {address}:{port}: no answer"))?
        .with_context(|| format!("connecting to {address}:{port}"))
}
