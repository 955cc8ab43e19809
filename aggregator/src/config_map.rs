//! A `ConfigMap` that the manifests made and the aggregator keeps: why a call about it came to nothing.

use std::time::Duration;

use tokio::time::timeout;

/// Why the object cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("the ConfigMap is not there; apply the manifests")]
    Missing,
    #[error("the aggregator may not {0}")]
    Forbidden(&'static str),
    #[error("somebody else changed it meanwhile")]
    Conflict,
    #[error("the API server does not answer")]
    Silent,
    #[error("{0}")]
    Other(kube::Error),
}

/// Waits so long for a call. `forbidden` says what it is that may not be done, and what would help.
pub(crate) async fn within<T>(
    patience: Duration,
    forbidden: &'static str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Trouble> {
    match timeout(patience, call).await {
        Err(_) => Err(Trouble::Silent),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => Err(match status.code {
            403 => Trouble::Forbidden(forbidden),
            404 => Trouble::Missing,
            409 => Trouble::Conflict,
            _ => Trouble::Other(kube::Error::Api(status)),
        }),
        Ok(Err(error)) => Err(Trouble::Other(error)),
    }
}
