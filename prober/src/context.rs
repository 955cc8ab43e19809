//! What all probes of a process share: the clock, the resolver and the trusted roots.

use std::path::PathBuf;

use rustls::pki_types::CertificateDer;

use crate::{clock::Clock, resolve::Resolver, tls::TlsConfigs};

/// What all probes of a process share.
#[derive(Debug)]
pub struct ProbeContext {
    pub(crate) clock: Clock,
    pub(crate) resolver: Resolver,
    pub(crate) tls: TlsConfigs,
}

impl ProbeContext {
    /// Starts the clock, follows a resolv.conf and loads the roots of this machine; the extra ones are trusted too.
    #[must_use]
    pub fn new(resolv_conf: PathBuf, extra_roots: &[CertificateDer<'static>]) -> Self {
        Self::with_tls(resolv_conf, TlsConfigs::with_native_roots(extra_roots))
    }

    /// As [`ProbeContext::new`], with a given set of roots instead of the machine's.
    #[must_use]
    pub fn with_tls(resolv_conf: PathBuf, tls: TlsConfigs) -> Self {
        Self {
            clock: Clock::start(),
            resolver: Resolver::new(resolv_conf),
            tls,
        }
    }

    /// The clock of [`crate::ProbeResult::at`].
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }
}
