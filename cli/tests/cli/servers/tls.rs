//! A test CA, and servers with its certificates.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ConfigBuilder, RootCertStore, ServerConfig, ServerConnection, StreamOwned, WantsVerifier,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};

use super::{RequestHeads, Server, head, request};

type Tls = StreamOwned<ServerConnection, TcpStream>;

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    folder: tempfile::TempDir,
}

impl Ca {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "Test Authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            certificate: certificate.der().clone(),
            folder,
        }
    }

    /// Returns the PEM file with which a client trusts it.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Starts an HTTPS server for these names, with a certificate valid in these years.
    pub(crate) fn server(
        &self,
        names: &[&str],
        years: (i32, i32),
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> Server {
        serving(self.config(names, years), move |tls| {
            // A client that rejects the certificate closes the connection here.
            if let Some(path) = request(tls) {
                let _ = tls.write_all(answer(&path).as_bytes());
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        })
    }

    /// Starts an HTTPS server that answers 200 and records the heads of its requests.
    pub(crate) fn recording(&self, names: &[&str], heads: RequestHeads) -> Server {
        serving(self.config(names, VALID), move |tls| record_request(tls, &heads))
    }

    /// Writes a client certificate and its key into a folder, as `tls.crt` and `tls.key`.
    pub(crate) fn write_client_certificate(&self, folder: &Path) {
        let params = CertificateParams::new(vec!["client.example.test".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    }

    /// Starts an HTTPS server that requires a client certificate of this CA.
    pub(crate) fn demanding(&self, names: &[&str]) -> Server {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let (chain, key) = self.issue(names, VALID);
        let config = builder()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        serving(config, |tls| record_request(tls, &RequestHeads::default()))
    }

    /// Starts an HTTP/2 server that answers each request with 200 and no body.
    pub(crate) fn http2(&self, names: &[&str]) -> Server {
        let mut config = self.config(names, VALID);
        config.alpn_protocols = vec![b"h2".to_vec()];
        serving(config, |tls| {
            // A client may disconnect before its request.
            let _ = answer_http2(tls);
        })
    }

    fn config(&self, names: &[&str], years: (i32, i32)) -> ServerConfig {
        let (chain, key) = self.issue(names, years);
        builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap()
    }

    /// Issues a server certificate.
    fn issue(
        &self,
        names: &[&str],
        years: (i32, i32),
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "shop");
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        (vec![leaf], key)
    }
}

fn builder() -> ConfigBuilder<ServerConfig, WantsVerifier> {
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
}

/// Answers a request with 200. A client that rejects the certificate sends none.
fn record_request(tls: &mut Tls, heads: &RequestHeads) {
    if let Some(head) = head(tls) {
        heads.lock().unwrap().push(head);
        let _ = tls.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        tls.conn.send_close_notify();
        let _ = tls.flush();
    }
}

fn serving(config: ServerConfig, talk: impl Fn(&mut Tls) + Send + 'static) -> Server {
    let config = Arc::new(config);
    Server::start(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        talk(&mut StreamOwned::new(connection, stream));
    })
}

/// A minimal HTTP/2 response (RFC 9113 §4.1, §6.2, §6.5; the status is entry 8 of RFC 7541's static table).
fn answer_http2(tls: &mut Tls) -> io::Result<()> {
    const PREFACE: usize = 24;
    const HEADERS: u8 = 1;
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    const STATUS_200_AND_NOTHING_MORE: [u8; 10] = [0, 0, 1, HEADERS, 5, 0, 0, 0, 1, 0x88];
    tls.read_exact(&mut [0; PREFACE])?;
    tls.write_all(&SETTINGS)?;
    loop {
        let mut head = [0; 9];
        tls.read_exact(&mut head)?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        tls.read_exact(&mut vec![0; length])?;
        if head[3] == HEADERS {
            break;
        }
    }
    tls.write_all(&SETTINGS_ACK)?;
    tls.write_all(&STATUS_200_AND_NOTHING_MORE)?;
    tls.flush()?;
    // Wait until the client disconnects.
    tls.read_to_end(&mut Vec::new()).map(drop)
}

/// Years in which a certificate is valid now.
pub(crate) const VALID: (i32, i32) = (2020, 2090);
