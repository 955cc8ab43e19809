//! The clock, the resolver, the trusted roots and the credentials that all probes of a process share.

use std::path::PathBuf;

use rustls::pki_types::CertificateDer;

use crate::{clock::Clock, credentials::CredentialStore, resolve::Resolver, tls::TlsConfigs};

/// The state that all probes of a process share.
#[derive(Debug)]
pub struct ProbeContext {
    pub(crate) clock: Clock,
    pub(crate) resolver: Resolver,
    pub(crate) tls: TlsConfigs,
    pub(crate) credentials: CredentialStore,
}

impl ProbeContext {
    /// Starts the clock, follows changes of a resolv.conf and loads the roots of this machine. `extra_roots` are
    /// trusted in addition.
    #[must_use]
    pub fn new(resolv_conf: PathBuf, extra_roots: &[CertificateDer<'static>]) -> Self {
        Self::with_tls(resolv_conf, TlsConfigs::with_native_roots(extra_roots))
    }

    /// Like [`ProbeContext::new`], with the given roots instead of the machine's.
    #[must_use]
    pub fn with_tls(resolv_conf: PathBuf, tls: TlsConfigs) -> Self {
        Self {
            clock: Clock::start(),
            resolver: Resolver::new(resolv_conf),
            tls,
            credentials: CredentialStore::default(),
        }
    }

    /// Sets the credentials that probes may use.
    #[must_use]
    pub fn with_credentials(mut self, credentials: CredentialStore) -> Self {
        self.credentials = credentials;
        self
    }

    /// The clock of [`crate::ProbeResult::started`].
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }
}
