//! Certificates signed by a CA of our own (a certificate as both anchor and leaf is another error), and a TLS server.

use std::sync::Arc;

use parallax_prober::Tls;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use super::{Server, request};

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Ca {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    /// What a client trusts that knows this CA.
    pub(crate) fn trusted(&self) -> Tls {
        Tls::with_roots([self.certificate.clone()])
    }

    /// A server certificate for a name, valid in these years.
    pub(crate) fn server(&self, name: &str, years: (i32, i32)) -> Arc<ServerConfig> {
        Arc::new(self.config(name, years, false))
    }

    /// A server that demands a certificate of the client.
    pub(crate) fn demanding(&self, name: &str) -> Arc<ServerConfig> {
        Arc::new(self.config(name, VALID, true))
    }

    fn config(&self, name: &str, years: (i32, i32), demand: bool) -> ServerConfig {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if demand {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        builder.with_single_cert(vec![leaf], key).unwrap()
    }
}

/// Valid now and for long.
pub(crate) const VALID: (i32, i32) = (2020, 2090);

/// An HTTPS server with one fixed answer.
pub(crate) async fn https(config: Arc<ServerConfig>, answer: &'static str) -> Server {
    let acceptor = TlsAcceptor::from(config);
    Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            // A client that refuses the certificate ends the handshake; that is what most tests are about.
            let Ok(mut tls) = acceptor.accept(stream).await else {
                return;
            };
            request(&mut tls).await;
            // A client that refuses the certificate goes right after the handshake.
            let _ = tls.write_all(answer.as_bytes()).await;
            let _ = tls.shutdown().await;
        }
    })
    .await
}
