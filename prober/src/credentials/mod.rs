//! Credentials of probes: files on the prober's machine, which a plan refers to by name.
//!
//! A secret is read when a probe needs it, because mounted Secrets rotate, and leaves this module only as a sensitive
//! header value or as a key inside a TLS configuration. Nothing is cached: the files are small and local, and a copy
//! in memory would outlive a rotation. A probe whose credential cannot be used is not made.

mod header;
mod host_rule;
mod secret;
mod source;

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderName, HeaderValue, header::AUTHORIZATION};
use parallax_model::{CredentialName, HostName, OwnFault, Phase};
use parking_lot::Mutex;
use rustls::sign::CertifiedKey;

pub use self::{
    header::{CredentialHeader, InvalidCredentialHeader},
    host_rule::{HostRule, InvalidHostRule},
    source::CredentialFiles,
};
use crate::{failure::EarlyEnd, logged_reason::LoggedReason};

/// Maximum number of credentials of a prober.
const MAX_CREDENTIALS: usize = 256;

/// Maximum number of uses of credentials whose last problem is remembered.
const MAX_LOGGED: usize = 256;

/// A credential that a prober may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialSource {
    /// The name that targets refer to.
    pub name: CredentialName,
    /// The files with the secret.
    pub files: CredentialFiles,
    /// The request header that carries the secret as it is. Without it, the secret is sent as `Authorization` with its
    /// scheme.
    pub header: Option<CredentialHeader>,
    /// The hosts that the credential is for. It is never sent to any other.
    pub hosts: Vec<HostRule>,
    /// Whether the credential may be sent without TLS, or to a server whose certificate is not verified.
    pub allow_plaintext: bool,
}

/// Why the credentials of a prober are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCredentials {
    /// Two credentials have the same name.
    #[error("the credential {0} is listed twice")]
    Duplicate(CredentialName),
    /// The credential may not be sent to any host.
    #[error("the credential {0} has no hosts; list the hosts that it is for")]
    NoHosts(CredentialName),
    /// There are too many credentials.
    #[error("expected at most {MAX_CREDENTIALS} credentials, got {0}")]
    TooMany(usize),
}

/// The credentials that the probes of a process may use; none by default.
#[derive(Debug, Default)]
pub struct CredentialStore {
    sources: BTreeMap<CredentialName, CredentialSource>,
    /// The problem of each use of a credential as last logged.
    logged: Mutex<BTreeMap<CredentialUse, LoggedReason>>,
}

/// A use of a credential: its name, the host, and how it is shown there. One host may have targets over http and https.
type CredentialUse = (CredentialName, String, &'static str);

/// Where a credential is about to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipient<'a> {
    pub(crate) host: &'a HostName,
    /// Whether the connection is encrypted, and the server's certificate verified by the prober's own roots.
    pub(crate) authenticated: bool,
}

/// A client certificate with its key.
#[derive(Clone)]
pub(crate) struct ClientCertificate(pub(crate) Arc<CertifiedKey>);

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientCertificate(redacted)")
    }
}

impl CredentialStore {
    /// Accepts the credentials. Their files are read when a probe needs them.
    pub fn new(sources: Vec<CredentialSource>) -> Result<Self, InvalidCredentials> {
        if sources.len() > MAX_CREDENTIALS {
            return Err(InvalidCredentials::TooMany(sources.len()));
        }
        let mut store = Self::default();
        for source in sources {
            if source.hosts.is_empty() {
                return Err(InvalidCredentials::NoHosts(source.name));
            }
            if let Some(earlier) = store.sources.insert(source.name.clone(), source) {
                return Err(InvalidCredentials::Duplicate(earlier.name));
            }
        }
        Ok(store)
    }

    /// The request header with this credential for an origin.
    pub(crate) fn request_header(
        &self,
        name: &CredentialName,
        to: Recipient<'_>,
    ) -> Result<(HeaderName, HeaderValue), EarlyEnd> {
        let shown = if to.authenticated { "verified" } else { "plain" };
        self.logging((name, to.host, shown), || {
            let source = self.permitted_for(name, to)?;
            let (header, value) = match &source.header {
                Some(header) => (header.name().clone(), source.files.header_value()),
                None => (AUTHORIZATION, source.files.authorization()),
            };
            Ok((header, value.map_err(|reason| unusable(name, &reason))?))
        })
    }

    /// The value of the header `Proxy-Authorization` for a proxy.
    pub(crate) fn proxy_authorization(
        &self,
        name: &CredentialName,
        to: Recipient<'_>,
    ) -> Result<HeaderValue, EarlyEnd> {
        self.logging((name, to.host, "proxy"), || {
            let source = self.permitted_for(name, to)?;
            if let Some(header) = &source.header {
                return Err(refused(format!(
                    "the credential {name} is sent as {header}, and a proxy expects Proxy-Authorization; use a \
                     credential without a header as proxyCredential"
                )));
            }
            source.files.authorization().map_err(|reason| unusable(name, &reason))
        })
    }

    /// The client certificate for this host. Its key never leaves the prober, and the certificate is presented in the
    /// TLS handshake only.
    pub(crate) fn client_certificate(
        &self,
        name: &CredentialName,
        host: &HostName,
    ) -> Result<ClientCertificate, EarlyEnd> {
        self.logging((name, host, "certificate"), || {
            let source = self.permitted(name, host)?;
            source
                .files
                .client_certificate()
                .map_err(|reason| unusable(name, &reason))
        })
    }

    fn permitted_for(&self, name: &CredentialName, to: Recipient<'_>) -> Result<&CredentialSource, EarlyEnd> {
        let source = self.permitted(name, to.host)?;
        if !to.authenticated && !source.allow_plaintext {
            return Err(refused(format!(
                "the credential {name} would be sent to {} in plain text or to a server that the prober's own roots do not \
                 verify; use https without tlsVerify: false and extraRoots, or set allowPlaintext for it",
                to.host
            )));
        }
        Ok(source)
    }

    fn permitted(&self, name: &CredentialName, host: &HostName) -> Result<&CredentialSource, EarlyEnd> {
        let source = self.sources.get(name).ok_or_else(|| {
            EarlyEnd::new(Phase::Request, OwnFault::NoCredential).with_detail(format!(
                "this prober has no credential {name}; add it to the file of --credentials"
            ))
        })?;
        if source.hosts.iter().any(|rule| rule.matches(host)) {
            Ok(source)
        } else {
            Err(refused(format!(
                "the credential {name} is not for {host}; list the host in its hosts"
            )))
        }
    }

    /// Logs a problem when it begins and when it changes. Every probe would repeat it.
    fn logging<T>(
        &self,
        (name, host, shown): (&CredentialName, &HostName, &'static str),
        obtain: impl FnOnce() -> Result<T, EarlyEnd>,
    ) -> Result<T, EarlyEnd> {
        let obtained = obtain();
        let mut logged = self.logged.lock();
        let key = (name.clone(), host.as_str().to_owned(), shown);
        match &obtained {
            Ok(_) => {
                if logged.remove(&key).is_some() {
                    tracing::info!(credential = %name, %host, "the credential can be used again");
                }
            }
            Err(problem) => {
                let reason = problem.detail.as_deref().unwrap_or_default();
                let known = logged.len() < MAX_LOGGED || logged.contains_key(&key);
                if known && logged.entry(key).or_default().is_new(reason) {
                    tracing::warn!(credential = %name, %host, reason, "not making probes that need a credential");
                }
            }
        }
        obtained
    }
}

fn refused(detail: String) -> EarlyEnd {
    EarlyEnd::new(Phase::Request, OwnFault::CredentialRefused).with_detail(detail)
}

fn unusable(name: &CredentialName, reason: &str) -> EarlyEnd {
    EarlyEnd::new(Phase::Request, OwnFault::NoCredential)
        .with_detail(format!("the credential {name} cannot be used: {reason}"))
}

#[cfg(test)]
mod tests;
