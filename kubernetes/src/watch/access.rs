//! How to reach the API server.

use std::{path::PathBuf, time::Duration};

use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::watch::{WatchBackoff, WatchTiming};

/// How to reach the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiServerAccess {
    /// As a Pod's ServiceAccount; outside of a cluster as `$KUBECONFIG` or `~/.kube/config` says.
    Inferred {
        /// Context of the kubeconfig.
        context: Option<String>,
    },
    /// As a kubeconfig says.
    File {
        /// The kubeconfig.
        path: PathBuf,
        /// Its context; the current one where absent.
        context: Option<String>,
    },
}

/// A client of the API server, as soon as one can be made; what stands in the way is handed out each time.
pub async fn connect(access: &ApiServerAccess, pace: WatchTiming, trouble: impl Fn(String)) -> Client {
    let mut backoff = WatchBackoff::new(pace.first_retry, pace.longest_retry);
    loop {
        match client(access).await {
            Ok(client) => return client,
            Err(message) => {
                tracing::warn!(%message, "no way to the API server");
                trouble(message);
                tokio::time::sleep(backoff.next(None)).await;
            }
        }
    }
}

async fn client(access: &ApiServerAccess) -> Result<Client, String> {
    let options = |context: &Option<String>| KubeConfigOptions {
        context: context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match access {
        ApiServerAccess::Inferred { context: None } => {
            kube::Config::infer().await.map_err(|e| e.to_string())?
        }
        ApiServerAccess::Inferred { context } => kube::Config::from_kubeconfig(&options(context))
            .await
            .map_err(|e| e.to_string())?,
        ApiServerAccess::File { path, context } => {
            let file = Kubeconfig::read_from(path).map_err(|e| format!("{}: {e}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &options(context))
                .await
                .map_err(|e| format!("{}: {e}", path.display()))?
        }
    };
    // Retries are ours: what is retried below is not to be seen above.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(10));
    Client::try_from(config).map_err(|error| error.to_string())
}
