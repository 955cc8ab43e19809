//! TLS of the probes: one shared configuration, a verifier that records the certificates, ring as the provider.
//!
//! The verifier lets a handshake with a bad certificate complete. Its verdict is applied afterwards, before the first
//! byte of a request is sent, so that version, protocol and chain are known even if the certificate is rejected.

use std::sync::{Arc, OnceLock};

use parallax_model::{Digest, FailureKind, OwnFault, Phase, TlsVersion};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, ProtocolVersion, RootCertStore, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::SingleCertAndKey,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    certificate::{self, TlsFacts},
    clock::{Deadline, DeadlineExceeded},
    credentials::ClientCertificate,
    failure::{EarlyEnd, FailureOrigin, classify_tls},
};

/// The trusted roots and the configuration built from them; built once, because loading the roots takes longer than a
/// probe.
#[derive(Debug)]
pub struct TlsConfigs {
    config: ClientConfig,
    /// `None` without any root: then no certificate can be verified.
    verifier: Option<Arc<WebPkiServerVerifier>>,
}

/// The options of a handshake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandshakeOptions<'a> {
    /// The server name (SNI) for which the certificate must be valid.
    pub(crate) host: &'a str,
    /// Application protocols to offer, the preferred one first; an empty list offers none.
    pub(crate) alpn: &'static [&'static [u8]],
    /// Whether a certificate that does not verify is a failure.
    pub(crate) verify: bool,
    /// Roots that are trusted for this target in addition to the common ones.
    pub(crate) extra_roots: &'a [CertificateDer<'static>],
    /// The certificate to present if the server requests one.
    pub(crate) client_certificate: Option<&'a ClientCertificate>,
}

/// The result of a handshake, with facts even if it failed.
#[derive(Debug)]
pub(crate) struct HandshakeResult {
    pub(crate) result: Result<TlsStream<TcpStream>, EarlyEnd>,
    pub(crate) facts: Option<TlsFacts>,
}

impl From<EarlyEnd> for HandshakeResult {
    fn from(stop: EarlyEnd) -> Self {
        Self {
            result: Err(stop),
            facts: None,
        }
    }
}

impl TlsConfigs {
    /// Trusts the roots installed on this machine and the extra ones.
    #[must_use]
    pub fn with_native_roots(extra: &[CertificateDer<'static>]) -> Self {
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::debug!(%error, "skipping an unreadable root certificate store");
        }
        Self::with_roots(native.certs.into_iter().chain(extra.iter().cloned()))
    }

    /// Trusts only these roots.
    #[must_use]
    pub fn with_roots(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates);
        Self {
            config: base_config(roots.clone()),
            verifier: verifier(roots),
        }
    }

    /// Returns a configuration with the same roots for connections to the aggregator.
    pub(crate) fn for_aggregator(&self) -> ClientConfig {
        self.config.clone()
    }

    /// Performs a handshake under the deadline.
    pub(crate) async fn connect(
        &self,
        handshake: HandshakeOptions<'_>,
        tcp: TcpStream,
        deadline: Deadline,
    ) -> HandshakeResult {
        let own = target_verifier(handshake.extra_roots);
        if handshake.verify && self.verifier.is_none() && own.is_none() {
            return EarlyEnd::new(Phase::Tls, OwnFault::NoRoots)
                .with_detail("no root certificates are installed; mount them or set SSL_CERT_FILE")
                .into();
        }
        let host = handshake.host.trim_end_matches('.');
        let Ok(name) = ServerName::try_from(host.to_owned()) else {
            return EarlyEnd::new(Phase::Tls, OwnFault::InvalidAssignment)
                .with_detail("the host is not a valid TLS server name")
                .into();
        };
        let record = Arc::new(RecordingVerifier::new(
            [self.verifier.clone(), own].into_iter().flatten().collect(),
        ));
        let mut config = self.config.clone();
        config.alpn_protocols = handshake.alpn.iter().map(|protocol| protocol.to_vec()).collect();
        config
            .dangerous()
            .set_certificate_verifier(Arc::clone(&record) as Arc<dyn ServerCertVerifier>);
        if let Some(certificate) = handshake.client_certificate {
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(Arc::clone(&certificate.0)));
        }
        let shaking = TlsConnector::from(Arc::new(config)).connect(name, tcp);
        let ended = match deadline.timeout(shaking).await {
            Err(DeadlineExceeded) => Err(EarlyEnd::timeout(Phase::Tls)),
            Ok(ended) => ended.map_err(|error| EarlyEnd::io(Phase::Tls, &error)),
        };
        let facts = record.facts(host, ended.as_ref().ok());
        let result = match (ended, record.rejection()) {
            // A rejected certificate came first, whatever failed later.
            (_, Some(refusal)) if handshake.verify => Err(refusal),
            (ended, _) => ended,
        };
        HandshakeResult {
            result,
            facts: Some(facts),
        }
    }
}

/// Returns a truncated SHA-256 digest.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest::from_sha256(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// Returns a verifier that trusts these roots; `None` without any root.
fn verifier(roots: RootCertStore) -> Option<Arc<WebPkiServerVerifier>> {
    // The builder fails on an empty store.
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .ok()
}

/// Returns a verifier for the roots of a target. It is built for each handshake, which costs little for a few roots and
/// avoids a cache that would outlive the plan.
fn target_verifier(certificates: &[CertificateDer<'static>]) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    verifier(roots)
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

fn base_config(roots: RootCertStore) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        // ring serves both TLS 1.2 and 1.3, which are the default versions.
        .unwrap_or_else(|error| unreachable!("ring lacks a default protocol version: {error}"));
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    // A resumed handshake shows no certificate, so an expired one would go unnoticed for the lifetime of the ticket.
    config.resumption = Resumption::disabled();
    config
}

const fn is_unknown_issuer(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)
    )
}

/// Whether no root of a verifier signed the chain. A root with the right name and another key, as after a CA was
/// created anew, yields a bad signature.
const fn is_untrusted(error: &rustls::Error) -> bool {
    is_unknown_issuer(error)
        || matches!(
            error,
            rustls::Error::InvalidCertificate(CertificateError::BadSignature)
        )
}

/// Records the chain of the server and the verdict of strict verifiers, and accepts every certificate.
#[derive(Debug)]
struct RecordingVerifier {
    /// The chain is trusted if any of them accepts it. Empty without any root: then no certificate is verified.
    verifiers: Vec<Arc<WebPkiServerVerifier>>,
    presented: OnceLock<PresentedChain>,
}

#[derive(Debug)]
struct PresentedChain {
    chain: Vec<CertificateDer<'static>>,
    rejected: Option<rustls::Error>,
}

impl RecordingVerifier {
    fn new(verifiers: Vec<Arc<WebPkiServerVerifier>>) -> Self {
        Self {
            verifiers,
            presented: OnceLock::new(),
        }
    }

    /// The reason why the certificate is rejected, if it is. A chain without intermediates is the most common reason
    /// for an unknown issuer on a machine with proper roots.
    fn rejection(&self) -> Option<EarlyEnd> {
        let shown = self.presented.get()?;
        let error = shown.rejected.as_ref()?;
        if is_unknown_issuer(error)
            && let Some(missing) = certificate::missing_issuer(&shown.chain)
        {
            let detail = format!(
                "{error}; the server did not send the certificate of its issuer {} (found at {})",
                missing.name, missing.url
            );
            return Some(
                EarlyEnd::new(Phase::Tls, FailureKind::CertificateChainIncomplete).with_detail(detail),
            );
        }
        let fault = classify_tls(error);
        let detail = match (&fault, shown.chain.len()) {
            (FailureOrigin::Target(FailureKind::CertificateUntrusted), 0 | 1) => {
                format!("{error}; the server sent no intermediate certificate")
            }
            (FailureOrigin::Target(FailureKind::CertificateUntrusted), sent) => {
                format!("{error}; intermediate certificates sent: {}", sent - 1)
            }
            _ => error.to_string(),
        };
        Some(EarlyEnd::new(Phase::Tls, fault).with_detail(detail))
    }

    fn facts(&self, host: &str, stream: Option<&TlsStream<TcpStream>>) -> TlsFacts {
        let connection = stream.map(|stream| stream.get_ref().1);
        let shown = self.presented.get();
        let (chain, left_out) =
            shown.map_or_else(Default::default, |shown| certificate::read_chain(&shown.chain));
        TlsFacts {
            server_name: host.to_owned(),
            version: connection.and_then(|c| match c.protocol_version()? {
                ProtocolVersion::TLSv1_2 => Some(TlsVersion::Tls12),
                ProtocolVersion::TLSv1_3 => Some(TlsVersion::Tls13),
                _ => None,
            }),
            alpn: connection
                .and_then(|c| c.alpn_protocol())
                .map(|protocol| String::from_utf8_lossy(protocol).into_owned()),
            chain,
            leaf_digest: shown
                .and_then(|shown| shown.chain.first())
                .map(|certificate| digest(certificate)),
            left_out,
            rejected: self.rejection().and_then(|stop| match stop.origin {
                FailureOrigin::Target(kind) => Some(kind),
                FailureOrigin::Own(_) => None,
            }),
        }
    }
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let mut refused: Option<rustls::Error> = None;
        for verifier in &self.verifiers {
            match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                Ok(_) => {
                    refused = None;
                    break;
                }
                // The error of a verifier that knows the issuer is more specific than "unknown issuer".
                Err(error) if refused.as_ref().is_none_or(is_untrusted) => refused = Some(error),
                Err(_) => {}
            }
        }
        let chain = std::iter::once(end_entity)
            .chain(intermediates)
            .map(|certificate| certificate.clone().into_owned())
            .collect();
        // A handshake has one chain; a second call could only repeat it.
        let _ = self.presented.set(PresentedChain {
            chain,
            rejected: refused,
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
