//! Reads and updates `ConfigMaps` that the manifests create and the aggregator maintains.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use tokio::time;

use crate::{api_client::ApiClient, object_key::ObjectKey};

/// Completes [`ConfigMapError::Forbidden`] if the permission to get the object is missing.
pub const GET_DENIED: &str = "get it; apply the manifests (they contain the Role for configmaps)";
/// Completes [`ConfigMapError::Forbidden`] if the permission to update the object is missing.
pub const UPDATE_DENIED: &str = "update it; apply the manifests (they contain the Role for configmaps)";

/// Why the object cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigMapError {
    /// The object does not exist.
    #[error("the ConfigMap does not exist; apply the manifests")]
    Missing,
    /// RBAC denies the call; the text names the missing permission and where it comes from.
    #[error("the aggregator may not {0}")]
    Forbidden(&'static str),
    /// The object changed between reading and writing.
    #[error("another client changed it in the meantime")]
    Conflict,
    /// The API server did not respond in time.
    #[error("the API server does not respond")]
    Timeout,
    /// Any other failure of the call.
    #[error("{0}")]
    Other(kube::Error),
}

/// The API for `ConfigMaps` in the object's namespace.
#[must_use]
pub fn api(client: &ApiClient, key: &ObjectKey) -> Api<ConfigMap> {
    Api::namespaced(client.0.clone(), key.namespace.as_str())
}

/// Updates the object with optimistic concurrency: on a conflict, reads it again and retries, up to `tries`
/// times. `change` returns whether there is anything to write. Each call to the API server times out after
/// `patience`.
pub async fn update(
    (client, key): (&ApiClient, &ObjectKey),
    (patience, tries): (Duration, u32),
    mut change: impl FnMut(&mut ConfigMap) -> bool,
) -> Result<(), ConfigMapError> {
    let (api, name) = (api(client, key), key.name.as_str());
    for _ in 0..tries {
        let mut map = with_timeout(patience, GET_DENIED, api.get(name)).await?;
        if !change(&mut map) {
            return Ok(());
        }
        match with_timeout(
            patience,
            UPDATE_DENIED,
            api.replace(name, &PostParams::default(), &map),
        )
        .await
        {
            Err(ConfigMapError::Conflict) => {}
            done => return done.map(|_| ()),
        }
    }
    Err(ConfigMapError::Conflict)
}

/// Runs a call with a timeout. `forbidden` completes [`ConfigMapError::Forbidden`]: the denied action and how
/// to permit it.
pub async fn with_timeout<T>(
    timeout: Duration,
    denied: &'static str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ConfigMapError> {
    match time::timeout(timeout, call).await {
        Err(_) => Err(ConfigMapError::Timeout),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => Err(match status.code {
            403 => ConfigMapError::Forbidden(denied),
            404 => ConfigMapError::Missing,
            409 => ConfigMapError::Conflict,
            _ => ConfigMapError::Other(kube::Error::Api(status)),
        }),
        Ok(Err(error)) => Err(ConfigMapError::Other(error)),
    }
}
