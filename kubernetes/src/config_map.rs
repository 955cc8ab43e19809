//! A `ConfigMap` that the manifests made and the aggregator keeps: reading it, changing it, and why either failed.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use tokio::time::timeout;

use crate::{api_client::ApiClient, object_key::ObjectKey};

/// What helps where the right to get it is missing.
pub const GET: &str = "get it; apply the manifests (its Role names configmaps)";
/// What helps where the right to update it is missing.
pub const UPDATE: &str = "update it; apply the manifests (its Role names configmaps)";

/// Why the object cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigMapError {
    /// The object does not exist.
    #[error("the ConfigMap is not there; apply the manifests")]
    Missing,
    /// RBAC denies the call; the text says which permission is missing and where it comes from.
    #[error("the aggregator may not {0}")]
    Forbidden(&'static str),
    /// The object changed between reading and writing.
    #[error("somebody else changed it meanwhile")]
    Conflict,
    /// The API server did not answer in time.
    #[error("the API server does not answer")]
    Silent,
    /// Any other failure of the call.
    #[error("{0}")]
    Other(kube::Error),
}

/// The `ConfigMaps` of the object's namespace.
#[must_use]
pub fn api(client: &ApiClient, key: &ObjectKey) -> Api<ConfigMap> {
    Api::namespaced(client.0.clone(), key.namespace.as_str())
}

/// Changes the object as it was read just before, so that of two writers one is refused and looks again, at most `tries`
/// times. `change` returns whether there is anything to write; each call has as long as `patience`.
pub async fn change(
    (client, key): (&ApiClient, &ObjectKey),
    (patience, tries): (Duration, u32),
    mut change: impl FnMut(&mut ConfigMap) -> bool,
) -> Result<(), ConfigMapError> {
    let (api, name) = (api(client, key), key.name.as_str());
    for _ in 0..tries {
        let mut map = within(patience, GET, api.get(name)).await?;
        if !change(&mut map) {
            return Ok(());
        }
        match within(patience, UPDATE, api.replace(name, &PostParams::default(), &map)).await {
            Err(ConfigMapError::Conflict) => {}
            done => return done.map(|_| ()),
        }
    }
    Err(ConfigMapError::Conflict)
}

/// Waits so long for a call. `forbidden` says what it is that may not be done, and what would help.
pub async fn within<T>(
    patience: Duration,
    forbidden: &'static str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ConfigMapError> {
    match timeout(patience, call).await {
        Err(_) => Err(ConfigMapError::Silent),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => Err(match status.code {
            403 => ConfigMapError::Forbidden(forbidden),
            404 => ConfigMapError::Missing,
            409 => ConfigMapError::Conflict,
            _ => ConfigMapError::Other(kube::Error::Api(status)),
        }),
        Ok(Err(error)) => Err(ConfigMapError::Other(error)),
    }
}
