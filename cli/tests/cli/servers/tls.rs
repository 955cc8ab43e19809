//! Certificates of an authority of our own, and a server that shows them.

use std::{io::Write, path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use super::{Server, request};

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
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
            folder,
        }
    }

    /// The file that makes a client trust it.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// An HTTPS server for these names, its certificate valid in these years.
    pub(crate) fn server(
        &self,
        names: &[&str],
        years: (i32, i32),
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> Server {
        let config = Arc::new(self.config(names, years));
        Server::start(move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut tls = StreamOwned::new(connection, stream);
            // A client that refuses the certificate ends it here.
            if let Some(path) = request(&mut tls) {
                let _ = tls.write_all(answer(&path).as_bytes());
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        })
    }

    fn config(&self, names: &[&str], years: (i32, i32)) -> ServerConfig {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "shop");
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf], key)
            .unwrap()
    }
}

/// Valid now and for long.
pub(crate) const VALID: (i32, i32) = (2020, 2090);
