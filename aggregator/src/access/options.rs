//! What a configuration says of people.

use axum::http::HeaderName;

use crate::token::BearerToken;

/// Knowing people by a proxy that authenticates them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxyOptions {
    /// What the proxy shows, so that nobody passes it by.
    pub(crate) secret: BearerToken,
    pub(crate) secret_header: HeaderName,
    pub(crate) user_header: HeaderName,
    pub(crate) groups_header: HeaderName,
    /// Groups that may do more than read; everybody where empty.
    pub(crate) writers: Vec<String>,
}

/// How people are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// By a shared secret.
    Secret(BearerToken),
    /// By tokens of the cluster.
    Cluster,
    /// By a proxy.
    Proxy(ProxyOptions),
}

/// `access`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessOptions {
    pub(crate) mode: AccessMode,
    /// Whether reading needs nothing.
    pub(crate) open_read: bool,
}
