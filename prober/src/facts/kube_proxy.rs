//! Facts that kube-proxy serves over HTTP.

use std::{net::SocketAddr, time::Duration};

use parallax_model::HealthCheck;
use reqwest::{Client, Response, StatusCode, redirect};
use serde_json::Value;

use crate::tls::TlsConfigs;

/// Timeout of one request. kube-proxy responds from memory.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of a response; kube-proxy sends a few hundred bytes.
const MAX_RESPONSE: usize = 4 << 10;
/// Maximum number of health check ports per collection.
pub(super) const MAX_HEALTH_CHECKS: usize = 64;

#[derive(Debug)]
pub(super) struct KubeProxy(Client);

impl KubeProxy {
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        // kube-proxy serves plain HTTP, but the client requires a TLS configuration, so it gets an empty one.
        Client::builder()
            .tls_backend_preconfigured(TlsConfigs::with_roots([]).for_aggregator())
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .build()
            .map(Self)
    }

    async fn get(&self, address: SocketAddr, path: &str) -> Option<Response> {
        self.0.get(format!("http://{address}{path}")).send().await.ok()
    }

    /// Returns the proxy mode as kube-proxy names it.
    pub(super) async fn mode(&self, address: SocketAddr) -> Option<String> {
        let response = self.get(address, "/proxyMode").await?;
        if response.status() != StatusCode::OK {
            return None;
        }
        mode(&body(response).await?)
    }

    /// Returns whether kube-proxy reports itself healthy; `None` without a response, as with another Service
    /// implementation.
    pub(super) async fn healthy(&self, address: SocketAddr) -> Option<bool> {
        match self.get(address, "/healthz").await?.status() {
            StatusCode::OK => Some(true),
            StatusCode::SERVICE_UNAVAILABLE => Some(false),
            _ => None,
        }
    }

    /// Returns the response on the health check port of a Service. Status 503 means that there is no local endpoint and
    /// is parsed like any other.
    pub(super) async fn health_check(&self, address: SocketAddr) -> Option<HealthCheck> {
        let response = self.get(address, "/").await?;
        health_check(address.port(), &body(response).await?)
    }
}

async fn body(mut response: Response) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.ok()? {
        if body.len() + part.len() > MAX_RESPONSE {
            return None;
        }
        body.extend_from_slice(&part);
    }
    Some(body)
}

/// Parses the mode, a single word. Anything else is not kube-proxy.
pub(super) fn mode(body: &[u8]) -> Option<String> {
    let word = std::str::from_utf8(body).ok()?.trim();
    let plain = !word.is_empty() && word.len() <= 32 && word.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then(|| word.to_owned())
}

/// Parses `{"service": {…}, "localEndpoints": 1, "serviceProxyHealthy": true}`; the last field since Kubernetes 1.28.
pub(super) fn health_check(port: u16, body: &[u8]) -> Option<HealthCheck> {
    let status: Value = serde_json::from_slice(body).ok()?;
    Some(HealthCheck {
        port,
        local_endpoints: u32::try_from(status.get("localEndpoints")?.as_u64()?).ok()?,
        proxy_healthy: status.get("serviceProxyHealthy").and_then(Value::as_bool),
    })
}
