//! The way to an aggregator inside a cluster: through the API server to one of its Pods, as `kubectl port-forward` goes.
//!
//! Not by the API server's proxy of Services: that comes over the network, which the installation's network policies deny,
//! and it takes the `Authorization` header away, so the aggregator would not know who asks. A forwarded port ends inside
//! the Pod, and what travels in it is encrypted up to the kubelet.

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

/// Where Parallax is where nobody says so.
pub(crate) const NAMESPACE: &str = "parallax";
/// An API server that takes longer to answer is not waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// Which cluster, and who asks.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Cluster options")]
pub(crate) struct ClusterArgs {
    /// Reach the aggregator in the cluster of this context of the kubeconfig.
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
    /// The kubeconfig [default: as kubectl finds it].
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// Ask as this ServiceAccount, by a token good for ten minutes, instead of by the kubeconfig's own.
    #[arg(long, value_name = "[NAMESPACE/]NAME", global = true)]
    account: Option<String>,
}

impl ClusterArgs {
    /// Whether something here says that an aggregator in a cluster is meant.
    pub(super) const fn is_meant(&self) -> bool {
        self.context.is_some() || self.kubeconfig.is_some() || self.account.is_some()
    }

    /// The cluster that is meant, as its kubeconfig says.
    pub(crate) async fn config(&self) -> Result<kube::Config, Failure> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let read = match (&self.kubeconfig, &self.context) {
            (Some(path), _) => Kubeconfig::read_from(path),
            (None, Some(_)) => Kubeconfig::read(),
            // In a Pod there is none, and its account is meant.
            (None, None) => {
                return kube::Config::infer().await.map_err(|error| {
                    Failure::Usage(format!(
                        "cannot find the cluster: {error}; name a kubeconfig by --kubeconfig or KUBECONFIG, or the aggregator by --server"
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

/// A way that is open as long as this is kept.
#[derive(Debug)]
pub(super) struct PortForward {
    /// Carries the connections; ends with this.
    runtime: Option<Runtime>,
    pub(super) local: SocketAddr,
    /// What is shown to the aggregator, where the kubeconfig has something that it can check.
    pub(super) token: Option<String>,
    /// What went wrong last with a connection.
    trouble: Arc<Mutex<Option<String>>>,
}

impl Drop for PortForward {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl PortForward {
    /// Finds the aggregator and opens a port of this machine that leads to it. `token` says whether somebody has one
    /// already. Not from inside a runtime: it has its own.
    pub(super) fn open(cluster: &ClusterArgs, namespace: &str, token: bool) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(Failure::could_not)?;
        let trouble = Arc::new(Mutex::new(None));
        let opening = async {
            let config = cluster.config().await?;
            let shown = match (token, &cluster.account) {
                (true, _) => None,
                (false, None) => credential::own(&config).await?,
                (false, Some(_)) => Some(String::new()),
            };
            let server = config.cluster_url.to_string();
            let client = kube::Client::try_from(config).map_err(Failure::could_not)?;
            let shown = match (&cluster.account, shown) {
                (Some(account), Some(_)) => {
                    Some(credential::of_account(&client, &server, namespace, account).await?)
                }
                (_, shown) => shown,
            };
            let way = PodAccess::find(client, server, namespace).await?;
            // Whoever may not, or a Pod that cannot be reached, is known before anything is asked.
            let first = way.connect().await?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .await
                .map_err(Failure::could_not)?;
            let local = listener.local_addr().map_err(Failure::could_not)?;
            Ok::<_, Failure>((way, first, listener, local, shown))
        };
        let (way, first, listener, local, token) = runtime.block_on(opening)?;
        drop(runtime.spawn(carry(way, first, listener, trouble.clone())));
        Ok(Self {
            runtime: Some(runtime),
            local,
            token,
            trouble,
        })
    }

    /// What went wrong last.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Carries each connection through one of its own, until the runtime ends.
async fn carry(
    way: PodAccess,
    first: pods::PodStream,
    listener: TcpListener,
    trouble: Arc<Mutex<Option<String>>>,
) {
    let way = Arc::new(way);
    let (mut first, mut connections) = (Some(first), JoinSet::new());
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((local, _)) = accepted else { continue };
                let (way, first, trouble) = (way.clone(), first.take(), trouble.clone());
                connections.spawn(async move {
                    let stream = match first {
                        Some(first) => Ok(first),
                        // The Pods may be others by now.
                        None => way.connect().await,
                    };
                    let said = match stream {
                        Ok(stream) => pass(local, stream).await,
                        Err(failure) => Some(failure.to_string()),
                    };
                    *trouble.lock().unwrap_or_else(PoisonError::into_inner) = said;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries one connection to its end; what the kubelet said about it.
async fn pass(mut local: TcpStream, mut stream: pods::PodStream) -> Option<String> {
    // Either end may break off at any time; whoever asked sees that.
    let _ = copy_bidirectional(&mut local, &mut stream.bytes).await;
    stream.said()
}
