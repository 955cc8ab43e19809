//! Access to an aggregator inside a cluster: a port forwarded through the API server into one of its Pods, as `kubectl
//! port-forward` does.
//!
//! The API server's Service proxy is no alternative. Its requests arrive over the network, which the installation's
//! NetworkPolicies deny, and it strips the `Authorization` header, so the aggregator could not authenticate the
//! caller. A forwarded port ends inside the Pod, and its traffic is encrypted up to the kubelet.

mod credential;
mod pods;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    task::JoinSet,
};

use self::pods::PodAccess;
use crate::exit::Failure;

/// Default namespace of Parallax.
pub(crate) const DEFAULT_NAMESPACE: &str = "parallax";
/// Timeout of requests to the API server.
pub(crate) const API_SERVER_TIMEOUT: Duration = Duration::from_secs(15);

/// The cluster to connect to, and the credentials.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster options")]
pub(crate) struct ClusterArgs {
    /// Query the aggregator in the cluster of this kubeconfig context.
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
    /// Path of the kubeconfig [default: the same as kubectl's].
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// Authenticate to the aggregator as this ServiceAccount, with a token for the aggregator only, valid for ten minutes.
    #[arg(long, value_name = "[NAMESPACE/]NAME", global = true)]
    account: Option<String>,
}

impl ClusterArgs {
    /// Reports whether an option selects an aggregator in a cluster.
    pub(super) const fn is_selected(&self) -> bool {
        self.context.is_some() || self.kubeconfig.is_some() || self.account.is_some()
    }

    /// Reports whether an option selects the user that the aggregator sees.
    pub(super) const fn selects_account(&self) -> bool {
        self.account.is_some()
    }

    /// Loads the configuration of the selected cluster.
    pub(crate) async fn config(&self) -> Result<kube::Config, Failure> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let read = match (&self.kubeconfig, &self.context) {
            (Some(path), _) => Kubeconfig::read_from(path),
            (None, Some(_)) => Kubeconfig::read(),
            // Inside a Pod there is no kubeconfig; use the Pod's ServiceAccount.
            (None, None) => {
                return kube::Config::infer().await.map_err(|error| {
                    Failure::Usage(format!(
                        "cannot find the cluster: {error}; set --kubeconfig or KUBECONFIG, or give the aggregator's URL with --server"
                    ))
                });
            }
        };
        let unusable = |error| Failure::Usage(format!("cannot use the kubeconfig: {error}"));
        kube::Config::from_custom_kubeconfig(read.map_err(unusable)?, &options)
            .await
            .map_err(unusable)
    }
}

/// A forwarded port that is open until this is dropped.
#[derive(Debug)]
pub(super) struct PortForward {
    /// Runs the connections; shut down on drop.
    runtime: Option<Runtime>,
    pub(super) local: SocketAddr,
    /// Token for the aggregator, if an account was given.
    pub(super) token: Option<String>,
    /// Last error of a connection.
    last_error: Arc<Mutex<Option<String>>>,
}

impl Drop for PortForward {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl PortForward {
    /// Finds the aggregator and opens a local port that leads to it. `token` is whether the caller already has a token.
    /// Must not be called inside a runtime, because it blocks on its own.
    pub(super) fn open(cluster: &ClusterArgs, namespace: &str, token: bool) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(Failure::indeterminate)?;
        let last_error = Arc::new(Mutex::new(None));
        let opening = async {
            let config = cluster.config().await?;
            let server = config.cluster_url.to_string();
            let client = kube::Client::try_from(config).map_err(Failure::indeterminate)?;
            // The kubeconfig's own credentials are for the API server, and go nowhere else.
            let shown = match &cluster.account {
                Some(account) if !token => {
                    Some(credential::service_account_token(&client, &server, namespace, account).await?)
                }
                Some(_) | None => None,
            };
            let way = PodAccess::find(client, server, namespace).await?;
            // Connect now, so that a missing permission or an unreachable Pod is reported before the first request.
            let first = way.connect().await?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .await
                .map_err(Failure::indeterminate)?;
            let local = listener.local_addr().map_err(Failure::indeterminate)?;
            Ok::<_, Failure>((way, first, listener, local, shown))
        };
        let (way, first, listener, local, token) = runtime.block_on(opening)?;
        drop(runtime.spawn(forward_connections(way, first, listener, last_error.clone())));
        Ok(Self {
            runtime: Some(runtime),
            local,
            token,
            last_error,
        })
    }

    /// Returns the last error of a connection.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Forwards each accepted connection over its own stream, until the runtime shuts down.
async fn forward_connections(
    way: PodAccess,
    first: pods::PodStream,
    listener: TcpListener,
    last_error: Arc<Mutex<Option<String>>>,
) {
    let way = Arc::new(way);
    let (mut first, mut connections) = (Some(first), JoinSet::new());
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((local, _)) = accepted else { continue };
                let (way, first, last_error) = (way.clone(), first.take(), last_error.clone());
                connections.spawn(async move {
                    let stream = match first {
                        Some(first) => Ok(first),
                        // The set of Pods may have changed since.
                        None => way.connect().await,
                    };
                    let outcome = match stream {
                        Ok(stream) => forward_connection(local, stream).await,
                        Err(failure) => Some(failure.to_string()),
                    };
                    *last_error.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Forwards one connection until it ends, and returns the kubelet's error, if any.
async fn forward_connection(mut local: TcpStream, mut stream: pods::PodStream) -> Option<String> {
    // Either end may close at any time; the client sees that itself.
    let _ = copy_bidirectional(&mut local, &mut stream.bytes).await;
    stream.error()
}
