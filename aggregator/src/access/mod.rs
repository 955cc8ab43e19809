//! Authentication and authorization of users: reading, starting runs, actions on incidents.
//!
//! | `access` in the configuration | authentication | authorization |
//! |---|---|---|
//! | absent, with `identity` | a token of the cluster, except for reading | reading is open; otherwise RBAC |
//! | absent, with `tokenFile` | that secret | reading is open; everything with the secret |
//! | absent | none | everything if only this machine can connect; otherwise reading |
//! | `kubernetes` | a token of the cluster, by TokenReview | RBAC, by SubjectAccessReview |
//! | `tokenFile` | the secret | everything |
//! | `proxy` | headers of the proxy, which authenticates with its own secret | groups named by the proxy |

mod options;
mod review;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use axum::http::{HeaderMap, StatusCode, header};

pub(crate) use options::{AccessMode, AccessOptions, ProxyOptions};
pub(crate) use review::ReviewCache;

use crate::{api_error::ApiError, token::BearerToken};

/// A permission of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Permission {
    /// Read page and API.
    Read,
    /// Start a run.
    Run,
    /// Act on incidents, maintenance windows and baselines.
    Act,
}

impl Permission {
    /// Returns verb and resource of the group `parallax.dev` that RBAC must allow. Incidents are not a custom resource,
    /// but RBAC rules may name them.
    pub(crate) const fn rbac_rule(self) -> (&'static str, &'static str) {
        match self {
            Self::Read => ("list", "incidents"),
            Self::Run => ("create", "runs"),
            Self::Act => ("update", "incidents"),
        }
    }
}

/// An authorized user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthorizedUser {
    pub(crate) name: String,
}

/// How users authenticate.
#[derive(Debug, Clone)]
pub(crate) enum UserAuthentication {
    /// No authentication; `local` if only this machine can connect.
    Unauthenticated { local: bool },
    /// A shared secret.
    Secret(BearerToken),
    /// A token of the cluster.
    Cluster(Arc<ReviewCache>),
    /// An authenticating reverse proxy.
    Proxy(Arc<ProxyOptions>),
}

/// Access control for users.
#[derive(Debug, Clone)]
pub(crate) struct AccessControl {
    pub(crate) authentication: UserAuthentication,
    /// Whether reading needs no authentication.
    pub(crate) open_read: bool,
    /// Host names under which clients may read without authentication, in addition to [`is_own_host`].
    pub(crate) allowed_hosts: Arc<BTreeSet<String>>,
}

impl AccessControl {
    /// Authenticates the sender of a request and checks a permission.
    pub(crate) async fn allow(
        &self,
        headers: &HeaderMap,
        permission: Permission,
    ) -> Result<AuthorizedUser, ApiError> {
        if permission == Permission::Read && self.open_read {
            self.reject_foreign_host(headers)?;
            return Ok(AuthorizedUser {
                name: "anonymous".to_owned(),
            });
        }
        match &self.authentication {
            UserAuthentication::Unauthenticated { local: true } => {
                reject_dns_rebinding(headers)?;
                Ok(AuthorizedUser {
                    name: "this machine".to_owned(),
                })
            }
            UserAuthentication::Unauthenticated { local: false } => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "authentication is not configured and this action requires it: set access.tokenFile, access.kubernetes or access.proxy in the aggregator's configuration",
            )),
            UserAuthentication::Secret(token) => headers
                .get(header::AUTHORIZATION)
                .filter(|shown| token.matches_header(shown.as_bytes()))
                .map(|_| AuthorizedUser {
                    name: "holder of the token".to_owned(),
                })
                .ok_or_else(|| {
                    unauthorized(
                        "the secret of access.tokenFile (or tokenFile); pass it to `parallax` with --token-file",
                    )
                }),
            UserAuthentication::Cluster(reviews) => {
                let token = bearer(headers).ok_or_else(|| {
                    unauthorized("a token of the cluster, for example from `kubectl create token ACCOUNT --audience parallax-api`; pass it to `parallax` with --token-file or PARALLAX_TOKEN")
                })?;
                reviews.check_permission(token, permission).await
            }
            UserAuthentication::Proxy(options) => authenticate_proxied(options, headers, permission),
        }
    }

    /// Rejects reading under another site's host name, as after DNS rebinding: that site's page could read everything.
    pub(crate) fn reject_foreign_host(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(name) = host_name(headers) else {
            return Ok(());
        };
        if is_own_host(&name) || self.allowed_hosts.contains(&name) {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "reading needs no authentication here, so only known host names are accepted: use an IP address, localhost or the name of the Service, or list the name under allowedHosts in the aggregator's configuration",
        ))
    }
}

/// Returns the name in the `Host` header without its port, in lower case; `None` without the header.
fn host_name(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    Some(name.to_ascii_lowercase())
}

/// Reports whether no other site can own a host name: an address, this machine, or a name inside the cluster.
fn is_own_host(name: &str) -> bool {
    let is_label = !name.is_empty() && !name.contains('.');
    let inside = name.strip_suffix(".cluster.local").unwrap_or(name);
    let is_service = inside.strip_suffix(".svc").is_some();
    name.parse::<std::net::IpAddr>().is_ok() || is_label || is_service
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let shown = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    shown
        .strip_prefix("Bearer ")
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

fn unauthorized(wanted: &str) -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        format!("authentication failed; expected the header authorization: Bearer TOKEN with {wanted}"),
    )
}

/// Rejects DNS rebinding: another site's host name could resolve to this machine, so that a local browser sends its
/// requests here. The `Host` header gives the name away.
fn reject_dns_rebinding(headers: &HeaderMap) -> Result<(), ApiError> {
    let name = host_name(headers).unwrap_or_default();
    let literal = name.parse::<std::net::IpAddr>().is_ok();
    if literal || name == "localhost" {
        Ok(())
    } else {
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "without authentication, requests must use an IP address or localhost as host; to use another host name, set access in the aggregator's configuration",
        ))
    }
}

fn authenticate_proxied(
    options: &ProxyOptions,
    headers: &HeaderMap,
    permission: Permission,
) -> Result<AuthorizedUser, ApiError> {
    let shown = headers.get(&options.secret_header).map(|shown| {
        let mut bearer = b"Bearer ".to_vec();
        bearer.extend_from_slice(shown.as_bytes());
        options.secret.matches_header(&bearer)
    });
    if shown != Some(true) {
        return Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            format!(
                "the request did not come through the authenticating proxy; expected the proxy's secret in the header {}",
                options.secret_header
            ),
        ));
    }
    // A proxy that appends to a client's headers instead of replacing them would let the client choose its identity.
    for name in [
        &options.secret_header,
        &options.user_header,
        &options.groups_header,
    ] {
        if headers.get_all(name).iter().count() > 1 {
            return Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                format!(
                    "expected the header {name} once; the proxy must replace the client's header instead of adding another"
                ),
            ));
        }
    }
    let text = |name| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    let Some(name) = text(&options.user_header).filter(|name| !name.is_empty()) else {
        return Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            format!("the proxy set no user in the header {}", options.user_header),
        ));
    };
    let groups = text(&options.groups_header).unwrap_or_default();
    let mut groups = groups.split(',').map(str::trim);
    if permission != Permission::Read
        && !options.writers.is_empty()
        && !groups.any(|group| options.writers.iter().any(|w| w == group))
    {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            format!(
                "{} has read permission only: none of the user's groups is in access.proxy.writers",
                sanitize_name(name)
            ),
        ));
    }
    Ok(AuthorizedUser {
        name: sanitize_name(name),
    })
}

/// Sanitises a user name for tables and logs: no control characters, at most 128 characters.
fn sanitize_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(128).collect()
}
