//! Client of the aggregator's API. Its errors say what to do next.

use std::{path::PathBuf, time::Duration};

use reqwest::{Method, RequestBuilder, Response, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use super::cluster::{self, ClusterArgs, PortForward};
use crate::{
    commands::{invoked_as_kubectl_plugin, server_text::root_cause},
    exit::Failure,
};

/// Limit for the time until the head of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The aggregator to query, and the caller's credentials.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Namespace of Parallax in the cluster [default: parallax].
    #[arg(
        short,
        long,
        value_name = "NAME",
        global = true,
        help_heading = "Cluster options"
    )]
    namespace: Option<String>,
}

impl ServerArgs {
    /// Returns the cluster of the installation and its namespace, unless only the URL of an aggregator is known.
    pub(crate) fn cluster(&self) -> Option<(&ClusterArgs, &str)> {
        let ConnectionArgs { url, cluster, .. } = &self.connection;
        let plugin = url.is_none() && invoked_as_kubectl_plugin();
        let namespace = self.namespace.as_deref();
        (cluster.is_selected() || namespace.is_some() || plugin)
            .then(|| (cluster, namespace.unwrap_or(cluster::DEFAULT_NAMESPACE)))
    }
}

/// The same without the namespace, for commands whose `--namespace` means something else.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConnectionArgs {
    /// URL of the aggregator [default: the one in the cluster if called as `kubectl parallax` or with a cluster option,
    /// otherwise port 8080 of this machine].
    #[arg(
        id = "server",
        long = "server",
        value_name = "URL",
        env = "PARALLAX_SERVER",
        global = true
    )]
    url: Option<Url>,
    /// File with the token to send; alternatively, `PARALLAX_TOKEN` contains the token itself.
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// PEM file with CAs to trust in addition to the system's.
    #[arg(long, value_name = "FILE", global = true)]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Default server URL.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8080/";

/// Connection to one aggregator.
#[derive(Debug)]
pub(crate) struct ApiClient {
    http: reqwest::Client,
    server: Url,
    token: Option<String>,
    /// Forwarded port, if the aggregator is in a cluster.
    tunnel: Option<PortForward>,
}

impl ApiClient {
    pub(crate) fn new(server: &ServerArgs) -> Result<Self, Failure> {
        Self::connect(&server.connection, server.namespace.as_deref())
    }

    /// Connects for a command that queries the API server, too: the URL of the aggregator and its cluster may be given
    /// together.
    pub(crate) fn beside_cluster(server: &ServerArgs) -> Result<Self, Failure> {
        let ServerArgs {
            connection,
            namespace,
        } = server;
        if connection.url.is_none() || connection.cluster.selects_account() {
            return Self::connect(connection, namespace.as_deref());
        }
        let direct = ConnectionArgs {
            cluster: ClusterArgs::default(),
            ..connection.clone()
        };
        Self::connect(&direct, None)
    }

    /// Connects with the given namespace of Parallax in the cluster, if any.
    pub(crate) fn connect(server: &ConnectionArgs, namespace: Option<&str>) -> Result<Self, Failure> {
        let mut token = read_token(server)?;
        let in_cluster = server.cluster.is_selected() || namespace.is_some();
        let tunnel = match &server.url {
            Some(_) if in_cluster => {
                return Err(Failure::Usage(
                    "--server (or PARALLAX_SERVER) cannot be combined with --context, --kubeconfig, --namespace or --account; give either the URL of the aggregator or its cluster"
                        .to_owned(),
                ));
            }
            None if in_cluster || invoked_as_kubectl_plugin() => {
                let namespace = namespace.unwrap_or(cluster::DEFAULT_NAMESPACE);
                Some(PortForward::open(&server.cluster, namespace, token.is_some())?)
            }
            _ => None,
        };
        let url = match (&server.url, &tunnel) {
            (Some(url), _) => url.clone(),
            (None, Some(tunnel)) => format!("http://{}/", tunnel.local)
                .parse()
                .map_err(Failure::indeterminate)?,
            (None, None) => DEFAULT_SERVER.parse().map_err(Failure::indeterminate)?,
        };
        if let Some(tunnel) = &tunnel {
            token = token.or_else(|| tunnel.token.clone());
        }
        let url = &url;
        let local = url.host().is_some_and(|host| match host {
            url::Host::Domain(name) => name == "localhost",
            url::Host::Ipv4(address) => address.is_loopback(),
            url::Host::Ipv6(address) => address.is_loopback(),
        });
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(Failure::Usage(format!(
                "--server: expected http://HOST[:PORT]/ or https://HOST[:PORT]/, found {url}"
            )));
        }
        if token.is_some() && url.scheme() == "http" && !local {
            return Err(Failure::Usage(format!(
                "refusing to send the token unencrypted to {url}; use https, or kubectl -n parallax port-forward service/parallax 8080:80"
            )));
        }
        let mut http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("parallax/", env!("CARGO_PKG_VERSION")));
        if local {
            http = http.no_proxy();
        }
        if let Some(path) = &server.ca_file {
            let pem = std::fs::read(path).map_err(|error| {
                Failure::Usage(format!("--ca-file: cannot read {}: {error}", path.display()))
            })?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| {
                Failure::Usage(format!(
                    "--ca-file: expected PEM certificates in {}: {error}",
                    path.display()
                ))
            })?;
            for certificate in certificates {
                http = http.add_root_certificate(certificate);
            }
        }
        Ok(Self {
            http: http.build().map_err(Failure::indeterminate)?,
            server: url.clone(),
            token,
            tunnel,
        })
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, Failure> {
        let mut url = self.server.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::Usage(format!("--server: {} cannot be a base URL", self.server)))?
            .pop_if_empty()
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let sent = tokio::time::timeout(RESPONSE_TIMEOUT, request.send()).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.connection_error(&error)),
            Err(_) => {
                return Err(Failure::Indeterminate(format!(
                    "no response from {} within {} s; check whether it is overloaded: {}healthz",
                    self.server,
                    RESPONSE_TIMEOUT.as_secs(),
                    self.server
                )));
            }
        };
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.error_response(response).await)
    }

    fn connection_error(&self, error: &reqwest::Error) -> Failure {
        let reason = root_cause(error);
        if let Some(tunnel_error) = self.tunnel.as_ref().and_then(PortForward::last_error) {
            return Failure::Indeterminate(format!(
                "the forwarded connection to the aggregator failed: {tunnel_error}"
            ));
        }
        if self.tunnel.is_some() {
            return Failure::Indeterminate(format!(
                "the aggregator's Pod closed the connection ({reason}); it may have just terminated: try again"
            ));
        }
        Failure::Indeterminate(format!(
            "cannot reach the aggregator at {}: {reason}; set --server or PARALLAX_SERVER, or query the one in a cluster: kubectl parallax, or --context NAME",
            self.server
        ))
    }

    async fn error_response(&self, response: Response) -> Failure {
        let status = response.status();
        let body = response.text().await.unwrap_or_default();
        let message = serde_json::from_str::<Value>(&body)
            .ok()
            .and_then(|body| body["error"].as_str().map(ToOwned::to_owned));
        let Some(message) = message else {
            return Failure::Indeterminate(format!(
                "{} answered {status} without an aggregator's error body; check that it is a Parallax aggregator",
                self.server
            ));
        };
        let message: String = message.chars().filter(|c| !c.is_control()).take(1_000).collect();
        match status {
            StatusCode::UNAUTHORIZED if self.token.is_none() && self.tunnel.is_some() => {
                Failure::Usage(format!(
                    "not authenticated: the kubeconfig's credentials are for the API server only, and are not sent to the aggregator; use a ServiceAccount (--account [NAMESPACE/]NAME) or a token for the audience parallax-api (--token-file) ({message})"
                ))
            }
            StatusCode::UNAUTHORIZED if self.token.is_none() => {
                Failure::Usage(format!("not authenticated, no token was sent: {message}"))
            }
            StatusCode::NOT_FOUND if message == "no such path" => Failure::Usage(format!(
                "the aggregator at {} does not know this request; use the parallax version of the aggregator",
                self.server
            )),
            StatusCode::BAD_REQUEST
            | StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND => Failure::Usage(message),
            StatusCode::SERVICE_UNAVAILABLE => Failure::Unavailable(format!("{message} ({status})")),
            _ => Failure::Indeterminate(format!("{message} ({status})")),
        }
    }

    /// Sends a GET request and deserializes the response.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let response = self.send(self.request(Method::GET, path, query)?).await?;
        self.parse(response).await
    }

    /// Posts JSON and deserializes the response.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let request = self.request(Method::POST, path, &[])?.json(body);
        let response = self.send(request).await?;
        self.parse(response).await
    }

    async fn parse<T: DeserializeOwned>(&self, response: Response) -> Result<T, Failure> {
        let body = response
            .bytes()
            .await
            .map_err(|error| self.connection_error(&error))?;
        serde_json::from_slice(&body).map_err(|error| {
            Failure::Indeterminate(format!(
                "cannot parse the response of {}: {error}; check that its version is {}",
                self.server,
                env!("CARGO_PKG_VERSION")
            ))
        })
    }

    /// Opens a stream of lines.
    pub(crate) async fn lines(&self, path: &[&str]) -> Result<LineStream, Failure> {
        let request = self
            .request(Method::GET, path, &[])?
            .header(header::ACCEPT, "application/x-ndjson");
        Ok(LineStream {
            response: self.send(request).await?,
            buffer: Vec::new(),
        })
    }
}

/// Stream of lines from the server.
#[derive(Debug)]
pub(crate) struct LineStream {
    response: Response,
    buffer: Vec<u8>,
}

impl LineStream {
    /// Returns the next line, or `None` when the stream ends or breaks.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Some(line);
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.buffer.extend_from_slice(&chunk);
        }
    }
}

fn read_token(server: &ConnectionArgs) -> Result<Option<String>, Failure> {
    let text = match &server.token_file {
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            Failure::Usage(format!("--token-file: cannot read {}: {error}", path.display()))
        })?,
        None => match std::env::var("PARALLAX_TOKEN") {
            Ok(token) => token,
            Err(_) => return Ok(None),
        },
    };
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Failure::Usage(
            "expected a token of printable ASCII without spaces, as `kubectl create token ACCOUNT --audience parallax-api` prints it"
                .to_owned(),
        ));
    }
    Ok(Some(token.to_owned()))
}
