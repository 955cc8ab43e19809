//! Certificates signed by a test CA (a certificate that is both anchor and leaf is a different error), and a TLS
//! server.

use std::sync::Arc;

use parallax_prober::TlsConfigs;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use super::{RequestHeads, Server, request};

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// The part of its chain that a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chain {
    /// Its certificate and the intermediate.
    Whole,
    /// Only its certificate, which contains the URL of the intermediate.
    Alone,
    /// Only its certificate, without that URL.
    AloneAndSilent,
}

impl Ca {
    /// A server with a certificate issued by an intermediate CA.
    pub(crate) fn behind_intermediate(&self, name: &str, chain: Chain) -> Arc<ServerConfig> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params
            .distinguished_name
            .push(DnType::CommonName, "an intermediate");
        let key = KeyPair::generate().unwrap();
        let intermediate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if chain != Chain::AloneAndSilent {
            params
                .custom_extensions
                .push(issuer_found_at("http://ca.example.test/i1"));
        }
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &issuer).unwrap().der().clone();
        let sent = if chain == Chain::Whole {
            vec![leaf, intermediate]
        } else {
            vec![leaf]
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(sent, key)
            .unwrap();
        Arc::new(config)
    }

    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
        }
    }

    /// TLS configurations that trust this CA.
    pub(crate) fn trusted(&self) -> TlsConfigs {
        TlsConfigs::with_roots([self.certificate.clone()])
    }

    /// Its certificate in PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A client certificate and its key in PEM.
    pub(crate) fn client(&self) -> (String, String) {
        let params = CertificateParams::new(vec!["prober.example.test".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server certificate for a name, valid in these years.
    pub(crate) fn server(&self, name: &str, years: (i32, i32)) -> Arc<ServerConfig> {
        Arc::new(self.config(name, years, false))
    }

    /// A server that requires a client certificate.
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

/// Authority Information Access (RFC 5280 §4.2.2.1) with one `caIssuers` URL.
fn issuer_found_at(url: &str) -> CustomExtension {
    let tagged = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    // id-ad-caIssuers, 1.3.6.1.5.5.7.48.2.
    let method = tagged(0x06, &[0x2b, 6, 1, 5, 5, 7, 0x30, 2]);
    let location = tagged(0x86, url.as_bytes());
    let access = tagged(0x30, &tagged(0x30, &[method, location].concat()));
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], access)
}

/// A validity that includes now and many years.
pub(crate) const VALID: (i32, i32) = (2020, 2090);

/// An HTTPS server that records the heads of its requests.
pub(crate) async fn recording_https(config: Arc<ServerConfig>, answer: String) -> (Server, RequestHeads) {
    let heads = RequestHeads::default();
    let (acceptor, seen) = (TlsAcceptor::from(config), Arc::clone(&heads));
    let server = Server::start(move |stream| {
        let (acceptor, seen, answer) = (acceptor.clone(), Arc::clone(&seen), answer.clone());
        async move {
            let Ok(mut tls) = acceptor.accept(stream).await else {
                return;
            };
            let head = request(&mut tls).await;
            if !head.is_empty() {
                seen.lock().push(head);
            }
            let _ = tls.write_all(answer.as_bytes()).await;
            let _ = tls.shutdown().await;
        }
    })
    .await;
    (server, heads)
}

/// An HTTPS server with one fixed answer.
pub(crate) async fn https(config: Arc<ServerConfig>, answer: &'static str) -> Server {
    let acceptor = TlsAcceptor::from(config);
    Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            // A client that rejects the certificate ends the handshake, as most tests expect.
            let Ok(mut tls) = acceptor.accept(stream).await else {
                return;
            };
            request(&mut tls).await;
            // A client that rejects the certificate closes right after the handshake.
            let _ = tls.write_all(answer.as_bytes()).await;
            let _ = tls.shutdown().await;
        }
    })
    .await
}
