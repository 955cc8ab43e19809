//! TLS of the probes: one shared configuration, a verifier that remembers what it was shown, ring as the provider.

use std::sync::{Arc, OnceLock};

use parallax_model::{FailureKind, OwnFault, Phase};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    classify::{Fault, Stop},
    clock::{Deadline, Passed},
};

/// Trusted roots and the configuration made of them; built once, as reading the roots takes longer than a probe (R17).
#[derive(Debug)]
pub struct Tls {
    /// Absent without a single root: then nothing can be said of anybody's certificate.
    trust: Option<Trust>,
}

#[derive(Debug)]
struct Trust {
    config: ClientConfig,
    verifier: Arc<WebPkiServerVerifier>,
}

impl Tls {
    /// The roots installed on this machine and the extra ones.
    #[must_use]
    pub fn with_native_roots(extra: &[CertificateDer<'static>]) -> Self {
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::debug!(%error, "skipping a root certificate store that cannot be read");
        }
        Self::with_roots(native.certs.into_iter().chain(extra.iter().cloned()))
    }

    /// Only these roots.
    #[must_use]
    pub fn with_roots(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates);
        Self {
            trust: Trust::new(roots),
        }
    }

    /// A configuration of the same roots for the control path.
    pub(crate) fn control(&self) -> ClientConfig {
        match &self.trust {
            Some(trust) => trust.config.clone(),
            None => without_roots(),
        }
    }

    /// Shakes hands under the deadline.
    pub(crate) async fn connect(
        &self,
        host: &str,
        tcp: TcpStream,
        deadline: Deadline,
    ) -> Result<TlsStream<TcpStream>, Stop> {
        let Some(trust) = &self.trust else {
            return Err(Stop::new(Phase::Tls, OwnFault::NoRoots)
                .because("no root certificates are installed; mount them or set SSL_CERT_FILE"));
        };
        let name = ServerName::try_from(host.trim_end_matches('.').to_owned()).map_err(|_| {
            Stop::new(Phase::Tls, OwnFault::Unaskable).because("the host cannot be a TLS server name")
        })?;
        let record = Arc::new(Recording::new(trust));
        let mut config = trust.config.clone();
        config
            .dangerous()
            .set_certificate_verifier(Arc::clone(&record) as Arc<dyn ServerCertVerifier>);
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, tcp);
        match deadline.bound(handshake).await {
            Err(Passed) => Err(Stop::timeout(Phase::Tls)),
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(record.explain(Stop::io(Phase::Tls, &error))),
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

fn base(roots: RootCertStore) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        // ring serves both TLS 1.2 and 1.3, which are the default versions.
        .unwrap_or_else(|error| unreachable!("ring lacks a default protocol version: {error}"));
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    // A resumed handshake shows no certificate, and an expired one would go unseen until the ticket ends.
    config.resumption = Resumption::disabled();
    config
}

/// Trusts nobody: an aggregator over plain HTTP can still be reached.
fn without_roots() -> ClientConfig {
    base(RootCertStore::empty())
}

impl Trust {
    fn new(roots: RootCertStore) -> Option<Self> {
        let roots = Arc::new(roots);
        // The builder refuses an empty store, which is just the case "no roots".
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider())
            .build()
            .ok()?;
        Some(Self {
            config: base(RootCertStore::clone(&roots)),
            verifier,
        })
    }
}

/// Verifies as ever and remembers what the server showed, which the error alone does not tell.
#[derive(Debug)]
struct Recording {
    verifier: Arc<WebPkiServerVerifier>,
    /// Number of certificates beside the server's own.
    intermediates: OnceLock<usize>,
}

impl Recording {
    fn new(trust: &Trust) -> Self {
        Self {
            verifier: Arc::clone(&trust.verifier),
            intermediates: OnceLock::new(),
        }
    }

    /// A chain without intermediates is the most common reason for "untrusted" on a machine with proper roots.
    fn explain(&self, stop: Stop) -> Stop {
        let detail = stop.detail.clone().unwrap_or_default();
        match (&stop.fault, self.intermediates.get()) {
            (Fault::Target(FailureKind::CertificateUntrusted), Some(0)) => {
                stop.because(format!("{detail}; the server sent no intermediate certificate"))
            }
            (Fault::Target(FailureKind::CertificateUntrusted), Some(sent)) => {
                stop.because(format!("{detail}; intermediate certificates sent: {sent}"))
            }
            _ => stop,
        }
    }
}

impl ServerCertVerifier for Recording {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // One handshake shows one chain; a second call could only repeat it.
        let _ = self.intermediates.set(intermediates.len());
        self.verifier
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
