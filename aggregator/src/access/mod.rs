//! Which people may do what: read, ask for runs, handle incidents.
//!
//! | `access` in the configuration | who somebody is | what they may do |
//! |---|---|---|
//! | absent, with `identity` | nobody for reading; a token of the cluster else | reading is open; else as RBAC says |
//! | absent, with `tokenFile` | whoever shows that secret | reading is open; everything with the secret |
//! | absent | – | everything, while only this machine can connect; else reading |
//! | `kubernetes` | a token of the cluster, by TokenReview | as RBAC says, by SubjectAccessReview |
//! | `tokenFile` | whoever shows the secret | everything |
//! | `proxy` | whom the proxy names, which shows its own secret | as the proxy's groups say |

mod options;
mod review;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};

pub(crate) use options::{AccessMode, AccessOptions, ProxyOptions};
pub(crate) use review::ReviewCache;

use crate::{api_error::ApiError, token::BearerToken};

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Permission {
    /// See page and API.
    Read,
    /// Ask for a run.
    Run,
    /// Acknowledge and silence.
    Handle,
}

impl Permission {
    /// Verb and resource of the group `parallax.dev` that RBAC is asked about. Incidents are no custom resource; a rule
    /// about them is one all the same.
    pub(crate) const fn rule(self) -> (&'static str, &'static str) {
        match self {
            Self::Read => ("list", "incidents"),
            Self::Run => ("create", "runs"),
            Self::Handle => ("update", "incidents"),
        }
    }
}

/// Somebody who may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthorizedUser {
    pub(crate) name: String,
}

/// How people are known.
#[derive(Debug, Clone)]
pub(crate) enum UserAuthentication {
    /// Not at all; `local` where only this machine can connect.
    Nobody { local: bool },
    /// By a secret.
    Secret(BearerToken),
    /// By a token of the cluster.
    Cluster(Arc<ReviewCache>),
    /// By a proxy before us.
    Proxy(Arc<ProxyOptions>),
}

/// The gate for people.
#[derive(Debug, Clone)]
pub(crate) struct AccessControl {
    pub(crate) known: UserAuthentication,
    /// Whether reading needs nothing.
    pub(crate) open_read: bool,
}

impl AccessControl {
    /// Who asks, if they may.
    pub(crate) async fn allow(
        &self,
        headers: &HeaderMap,
        deed: Permission,
    ) -> Result<AuthorizedUser, ApiError> {
        if deed == Permission::Read && self.open_read {
            return Ok(AuthorizedUser {
                name: "anybody".to_owned(),
            });
        }
        match &self.known {
            UserAuthentication::Nobody { local: true } => {
                same_machine(headers)?;
                Ok(AuthorizedUser {
                    name: "this machine".to_owned(),
                })
            }
            UserAuthentication::Nobody { local: false } => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "nobody is known here, so nobody may do this: set access.tokenFile, access.kubernetes or access.proxy in the aggregator's configuration",
            )),
            UserAuthentication::Secret(token) => headers
                .get(header::AUTHORIZATION)
                .filter(|shown| token.opens(shown.as_bytes()))
                .map(|_| AuthorizedUser {
                    name: "holder of the token".to_owned(),
                })
                .ok_or_else(|| {
                    unknown(
                        "the secret of access.tokenFile (or tokenFile); `parallax` takes it by --token-file",
                    )
                }),
            UserAuthentication::Cluster(reviews) => {
                let token = bearer(headers).ok_or_else(|| {
                    unknown("a token of the cluster, as from `kubectl create token ACCOUNT`; `parallax` takes it by --token-file or PARALLAX_TOKEN")
                })?;
                reviews.allow(token, deed).await
            }
            UserAuthentication::Proxy(options) => behind_proxy(options, headers, deed),
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let shown = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    shown
        .strip_prefix("Bearer ")
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

fn unknown(wanted: &str) -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        format!("expected the header authorization: Bearer TOKEN with {wanted}"),
    )
}

/// A page of elsewhere can make a browser of this machine ask under a name of its own that resolves to us (DNS
/// rebinding); the `Host` header betrays it.
fn same_machine(headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let literal = name.parse::<std::net::IpAddr>().is_ok();
    if literal || name.eq_ignore_ascii_case("localhost") {
        Ok(())
    } else {
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "expected to be asked by address or as localhost; behind a name, set access in the configuration",
        ))
    }
}

fn behind_proxy(
    options: &ProxyOptions,
    headers: &HeaderMap,
    deed: Permission,
) -> Result<AuthorizedUser, ApiError> {
    let shown = headers.get(&options.secret_header).map(|shown| {
        let mut bearer = b"Bearer ".to_vec();
        bearer.extend_from_slice(shown.as_bytes());
        options.secret.opens(&bearer)
    });
    if shown != Some(true) {
        return Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            format!(
                "expected to be asked by the authenticating proxy, which shows its secret in the header {}",
                options.secret_header
            ),
        ));
    }
    // A proxy that adds to what a client sent, instead of replacing it, would let the client choose.
    for name in [
        &options.secret_header,
        &options.user_header,
        &options.groups_header,
    ] {
        if headers.get_all(name).iter().count() > 1 {
            return Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                format!(
                    "expected the header {name} once; the proxy must replace what a client sends, not add to it"
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
            format!("the proxy named nobody in the header {}", options.user_header),
        ));
    };
    let groups = text(&options.groups_header).unwrap_or_default();
    let mut groups = groups.split(',').map(str::trim);
    if deed != Permission::Read
        && !options.writers.is_empty()
        && !groups.any(|group| options.writers.iter().any(|w| w == group))
    {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            format!(
                "{} may read only: none of their groups is in access.proxy.writers",
                tamed(name)
            ),
        ));
    }
    Ok(AuthorizedUser { name: tamed(name) })
}

/// A name for tables and logs.
fn tamed(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(128).collect()
}
