//! Configuration of the connection to the API server.

use std::{path::PathBuf, time::Duration};

use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::watch::{WatchBackoff, WatchTiming};

/// How to connect to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiServerAccess {
    /// With the Pod's ServiceAccount; outside a cluster with `$KUBECONFIG` or `~/.kube/config`.
    Inferred {
        /// Context of the kubeconfig; the current one if absent.
        context: Option<String>,
    },
    /// With a kubeconfig file.
    File {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// Its context; the current one if absent.
        context: Option<String>,
    },
}

/// Creates a client of the API server, retrying until it succeeds. Reports each failure to `on_error`.
pub async fn connect(access: &ApiServerAccess, timing: WatchTiming, on_error: impl Fn(String)) -> Client {
    let mut backoff = WatchBackoff::new(timing.first_retry_delay, timing.max_retry_delay);
    loop {
        match create_client(access).await {
            Ok(client) => return client,
            Err(message) => {
                tracing::warn!(%message, "cannot create a client for the API server; retrying");
                on_error(message);
                tokio::time::sleep(backoff.next(None)).await;
            }
        }
    }
}

async fn create_client(access: &ApiServerAccess) -> Result<Client, String> {
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
    // Retries happen in the reflectors; a retry in the client would hide failures from them.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(10));
    Client::try_from(config).map_err(|error| error.to_string())
}
