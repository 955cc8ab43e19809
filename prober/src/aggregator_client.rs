//! The HTTP client for the aggregator, with pooled connections. Probes never use it: reqwest gives no exact phase
//! times.

use std::{fs, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use reqwest::{Client, RequestBuilder, redirect};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, pem::PemObject},
};
use url::{Host, Url};

use crate::tls::TlsConfigs;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The credential of the prober at the aggregator.
#[derive(Clone, PartialEq, Eq)]
pub enum ProberCredential {
    /// A token.
    Fixed(String),
    /// A file with the token, read for each request: projected `ServiceAccount` tokens are rotated during the process
    /// lifetime.
    File(PathBuf),
}

impl From<String> for ProberCredential {
    fn from(token: String) -> Self {
        Self::Fixed(token)
    }
}

impl std::fmt::Debug for ProberCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("Fixed(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl ProberCredential {
    fn read(&self) -> io::Result<String> {
        match self {
            Self::Fixed(token) => Ok(token.clone()),
            // Projected volumes are in memory, so this does not block.
            Self::File(path) => Ok(fs::read_to_string(path)?.trim().to_owned()),
        }
    }
}

/// The roots that the aggregator's certificate is verified with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AggregatorRoots {
    /// The roots that the probes trust.
    #[default]
    SameAsProbes,
    /// Only these.
    Only(Vec<CertificateDer<'static>>),
    /// The roots in PEM files, read for each request: a restarted aggregator may have a new CA, which reaches the
    /// prober through a mounted `ConfigMap`. The files may appear after the start of the prober.
    Files(Vec<PathBuf>),
}

/// A client of one aggregator. Clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct AggregatorClient {
    endpoint: AggregatorEndpoint,
    base_url: Url,
    credential: Option<ProberCredential>,
    /// The address to connect to instead of resolving the name.
    pinned: Option<SocketAddr>,
}

/// The underlying HTTP client, with fixed or reloaded roots.
#[derive(Debug, Clone)]
enum AggregatorEndpoint {
    Fixed {
        http: Client,
        tls: Box<ClientConfig>,
    },
    Reloaded {
        files: Vec<PathBuf>,
        current: Arc<Mutex<Option<CachedClient>>>,
    },
}

/// The client built from the last contents of the files.
#[derive(Debug)]
struct CachedClient {
    pem: Vec<u8>,
    http: Client,
}

/// The reason why no client can be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("expected http://HOST:PORT or https://HOST")]
    Url,
    #[error(transparent)]
    Client(#[from] reqwest::Error),
}

impl AggregatorClient {
    pub(crate) fn new(
        base: Url,
        token: Option<ProberCredential>,
        probes: &TlsConfigs,
        roots: &AggregatorRoots,
    ) -> Result<Self, ClientError> {
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(ClientError::Url);
        }
        let way = match roots {
            AggregatorRoots::SameAsProbes => AggregatorEndpoint::fixed(probes.for_aggregator(), None)?,
            AggregatorRoots::Only(roots) => AggregatorEndpoint::fixed(
                TlsConfigs::with_roots(roots.iter().cloned()).for_aggregator(),
                None,
            )?,
            AggregatorRoots::Files(files) => AggregatorEndpoint::Reloaded {
                files: files.clone(),
                current: Arc::default(),
            },
        };
        Ok(Self {
            endpoint: way,
            base_url: base,
            credential: token,
            pinned: None,
        })
    }

    /// Returns a client that connects to this address. The certificate must still be valid for the name.
    pub(crate) fn pinned_to(&self, address: SocketAddr) -> Result<Self, ClientError> {
        let pin = self.host_and_port().and_then(|(host, _)| match host {
            Host::Domain(name) => Some((name, address)),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        });
        let way = match &self.endpoint {
            AggregatorEndpoint::Fixed { tls, .. } => {
                AggregatorEndpoint::fixed(ClientConfig::clone(tls), pin)?
            }
            AggregatorEndpoint::Reloaded { files, .. } => AggregatorEndpoint::Reloaded {
                files: files.clone(),
                current: Arc::default(),
            },
        };
        Ok(Self {
            endpoint: way,
            base_url: self.base_url.clone(),
            credential: self.credential.clone(),
            pinned: Some(address),
        })
    }

    /// Host and port of the URL.
    pub(crate) fn host_and_port(&self) -> Option<(Host<&str>, u16)> {
        Some((self.base_url.host()?, self.base_url.port_or_known_default()?))
    }

    fn pin(&self) -> Option<(&str, SocketAddr)> {
        match (self.base_url.host()?, self.pinned) {
            (Host::Domain(name), Some(address)) => Some((name, address)),
            _ => None,
        }
    }

    /// Returns the HTTP client, rebuilt if the files have changed.
    fn http(&self) -> io::Result<Client> {
        let (files, current) = match &self.endpoint {
            AggregatorEndpoint::Fixed { http, .. } => return Ok(http.clone()),
            AggregatorEndpoint::Reloaded { files, current } => (files, current),
        };
        let mut current = current.lock();
        let read = read_all(files);
        match (read, &*current) {
            (Ok(pem), Some(known)) if known.pem == pem => Ok(known.http.clone()),
            // While a file is being replaced, the last contents stay in force.
            (Err(_), Some(known)) => Ok(known.http.clone()),
            (Err(error), None) => Err(error),
            (Ok(pem), known) => {
                let roots: Vec<_> = CertificateDer::pem_slice_iter(&pem)
                    .filter_map(Result::ok)
                    .collect();
                if roots.is_empty() {
                    return known.as_ref().map(|known| known.http.clone()).ok_or_else(|| {
                        io::Error::new(
                            io::ErrorKind::InvalidData,
                            "the files of --aggregator-roots contain no certificate of the aggregator's CA yet",
                        )
                    });
                }
                if known.is_some() {
                    tracing::info!("the CA of the aggregator has changed");
                }
                let http = build_client(TlsConfigs::with_roots(roots).for_aggregator(), self.pin())
                    .map_err(|error| io::Error::other(error_chain(&error)))?;
                *current = Some(CachedClient {
                    pem,
                    http: http.clone(),
                });
                Ok(http)
            }
        }
    }

    pub(crate) fn get(&self, path: [&str; 2], query: &[(&str, &str)]) -> io::Result<RequestBuilder> {
        let mut url = self.url(path);
        url.query_pairs_mut().extend_pairs(query);
        self.authorized(self.http()?.get(url))
    }

    pub(crate) fn post(&self, path: [&str; 2]) -> io::Result<RequestBuilder> {
        self.authorized(self.http()?.post(self.url(path)))
    }

    fn url(&self, path: [&str; 2]) -> Url {
        let mut url = self.base_url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    fn authorized(&self, request: RequestBuilder) -> io::Result<RequestBuilder> {
        Ok(match &self.credential {
            Some(token) => request.bearer_auth(token.read()?),
            None => request,
        })
    }
}

impl AggregatorEndpoint {
    fn fixed(tls: ClientConfig, pin: Option<(&str, SocketAddr)>) -> Result<Self, reqwest::Error> {
        Ok(Self::Fixed {
            http: build_client(tls.clone(), pin)?,
            tls: Box::new(tls),
        })
    }
}

fn build_client(tls: ClientConfig, pin: Option<(&str, SocketAddr)>) -> Result<Client, reqwest::Error> {
    let builder = Client::builder();
    let builder = match pin {
        Some((name, address)) => builder.resolve(name, address),
        None => builder,
    };
    builder
        .tls_backend_preconfigured(tls)
        .http1_only()
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("parallax-prober/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Returns the concatenated contents of all files. Mounted `ConfigMaps` are small and in memory, so this does not
/// block.
fn read_all(files: &[PathBuf]) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    for file in files {
        let read = fs::read(file).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot read the aggregator's CA from {}: {error}", file.display()),
            )
        })?;
        all.extend(read);
        all.push(b'\n');
    }
    Ok(all)
}

/// Formats an error with its causes: the text of a reqwest error names only the outermost one.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
#[path = "aggregator_client_tests.rs"]
mod tests;
