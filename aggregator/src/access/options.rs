//! Options of user access.

use axum::http::HeaderName;

use crate::token::BearerToken;

/// Authentication by a reverse proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxyOptions {
    /// Secret of the proxy, so that clients cannot bypass it.
    pub(crate) secret: BearerToken,
    pub(crate) secret_header: HeaderName,
    pub(crate) user_header: HeaderName,
    pub(crate) groups_header: HeaderName,
    /// Groups with more than read permission; empty for all users.
    pub(crate) writers: Vec<String>,
}

/// How users authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// A shared secret.
    Secret(BearerToken),
    /// Tokens of the cluster.
    Cluster,
    /// A reverse proxy.
    Proxy(ProxyOptions),
}

/// `access`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessOptions {
    pub(crate) mode: AccessMode,
    /// Whether reading needs no authentication.
    pub(crate) open_read: bool,
}
