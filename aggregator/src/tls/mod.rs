//! TLS for probers, without a Secret: the aggregator creates its own CA and publishes the CA certificate.

mod authority;
mod metrics;
mod options;
mod publish;

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::ring::default_provider,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use authority::AuthorityError;
pub(crate) use metrics::TlsMetrics;
pub use options::TlsOptions;
pub(crate) use publish::CaPublisher;

use authority::CertificateAuthority;

/// Renewal interval of the server certificate. It is valid for a month, so repeated failures show in the log long
/// before probers are affected.
const RENEWAL_INTERVAL: Duration = Duration::from_hours(24);

/// Server side of TLS.
#[derive(Debug)]
pub(crate) struct ServerTls {
    authority: CertificateAuthority,
    hosts: Vec<String>,
    current: Arc<ServingCertificate>,
}

/// The current server certificate.
#[derive(Debug)]
struct ServingCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

impl ServerTls {
    /// Creates or loads the authority, and issues the first certificate.
    pub(crate) fn new(options: &TlsOptions) -> Result<Self, AuthorityError> {
        let authority = match &options.ca_folder {
            Some(folder) => CertificateAuthority::load_or_create(folder)?,
            None => CertificateAuthority::generate()?,
        };
        let first = authority.issue(&options.hosts)?;
        Ok(Self {
            authority,
            hosts: options.hosts.clone(),
            current: Arc::new(ServingCertificate(RwLock::new(Arc::new(first)))),
        })
    }

    /// Returns the CA certificate as PEM.
    pub(crate) fn ca_certificate(&self) -> &str {
        self.authority.certificate()
    }

    /// Creates the acceptor for connections.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, AuthorityError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Renews the certificate until cancelled.
    pub(crate) async fn renew(self, cancelled: CancellationToken) {
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(RENEWAL_INTERVAL) => {}
            }
            match self.authority.issue(&self.hosts) {
                Ok(fresh) => *self.current.0.write() = Arc::new(fresh),
                Err(error) => {
                    tracing::error!(%error, "cannot renew the certificate for probers; still serving the last one");
                }
            }
        }
    }
}
