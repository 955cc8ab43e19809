//! The files of a credential: a mounted Kubernetes Secret in its usual shapes, or single files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::HeaderValue;
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use zeroize::Zeroizing;

use super::{ClientCertificate, secret::Secret};

/// The files of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialFiles {
    /// A mounted Secret: `token`, `username` and `password` (`kubernetes.io/basic-auth`), or `tls.crt` and `tls.key`
    /// (`kubernetes.io/tls`).
    Directory(PathBuf),
    /// A file with a bearer token.
    BearerToken(PathBuf),
    /// A file with `USER:PASSWORD`.
    BasicAuth(PathBuf),
    /// PEM files with a client certificate and its key.
    ClientCertificate {
        /// The certificate, then its intermediates.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

impl CredentialFiles {
    /// Reads the secret and builds the value of an `Authorization` header. No error contains a secret.
    pub(super) fn authorization(&self) -> Result<HeaderValue, String> {
        match self {
            Self::BearerToken(path) => bearer(path),
            Self::BasicAuth(path) => basic(path, Secret::read(path)?.bytes()),
            Self::Directory(directory) => authorization_in(directory),
            Self::ClientCertificate { certificate, .. } => Err(format!(
                "{} is a client certificate; refer to it as clientCertificate",
                certificate.display()
            )),
        }
    }

    /// Reads the secret and builds the value of a header of its own, as it is. No error contains a secret.
    pub(super) fn header_value(&self) -> Result<HeaderValue, String> {
        let path = match self {
            Self::BearerToken(path) => path.clone(),
            Self::Directory(directory) => {
                let (token, username) = (directory.join("token"), directory.join("username"));
                if !token.exists() || username.exists() {
                    return Err(format!(
                        "expected the key token, without username and password, in {} for a credential with a header",
                        directory.display()
                    ));
                }
                token
            }
            Self::BasicAuth(path)
            | Self::ClientCertificate {
                certificate: path, ..
            } => {
                return Err(format!(
                    "expected a token for a header, and {} is none",
                    path.display()
                ));
            }
        };
        let secret = Secret::read(&path)?;
        // A `Cookie` or an `Authorization` with its scheme contains spaces.
        let visible = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let inner = secret.bytes().trim_ascii();
        if inner.is_empty() || inner.len() < secret.bytes().len() || !inner.iter().all(visible) {
            return Err(format!(
                "expected one line of visible ASCII characters, without a space at either end, in {}",
                path.display()
            ));
        }
        header(&path, "", secret.bytes())
    }

    /// Reads the certificate and its key. No error contains a secret.
    pub(super) fn client_certificate(&self) -> Result<ClientCertificate, String> {
        match self {
            Self::Directory(directory) => {
                certified_key(&directory.join("tls.crt"), &directory.join("tls.key"))
            }
            Self::ClientCertificate { certificate, key } => certified_key(certificate, key),
            Self::BearerToken(path) | Self::BasicAuth(path) => Err(format!(
                "{} is no client certificate; refer to it as credential",
                path.display()
            )),
        }
    }
}

fn authorization_in(directory: &Path) -> Result<HeaderValue, String> {
    let [token, username, password] = ["token", "username", "password"].map(|key| directory.join(key));
    match (token.exists(), username.exists()) {
        (true, true) => Err(format!(
            "{} has both the keys token and username; remove one of them",
            directory.display()
        )),
        (true, false) => bearer(&token),
        (false, true) => {
            let (user, password) = (Secret::read(&username)?, Secret::read(&password)?);
            if user.bytes().contains(&b':') {
                // RFC 7617 §2: the first colon ends the user name.
                return Err(format!(
                    "expected a user name without a colon in {}",
                    username.display()
                ));
            }
            let mut pair = Zeroizing::new(Vec::with_capacity(
                user.bytes().len() + password.bytes().len() + 1,
            ));
            pair.extend_from_slice(user.bytes());
            pair.push(b':');
            pair.extend_from_slice(password.bytes());
            basic(directory, &pair)
        }
        (false, false) => Err(format!(
            "{} has neither the key token nor the keys username and password",
            directory.display()
        )),
    }
}

fn bearer(path: &Path) -> Result<HeaderValue, String> {
    let token = Secret::read(path)?;
    if token.bytes().is_empty() || !token.bytes().iter().all(u8::is_ascii_graphic) {
        return Err(format!(
            "expected a token of one line of printable ASCII in {}",
            path.display()
        ));
    }
    header(path, "Bearer ", token.bytes())
}

fn basic(path: &Path, pair: &[u8]) -> Result<HeaderValue, String> {
    if !pair.contains(&b':') || pair.iter().any(u8::is_ascii_control) {
        return Err(format!(
            "expected a user name and a password, USER:PASSWORD, without control characters in {}",
            path.display()
        ));
    }
    let encoded = Zeroizing::new(BASE64_STANDARD.encode(pair));
    header(path, "Basic ", encoded.as_bytes())
}

/// Marked as sensitive: `Debug` does not print it, and HTTP/2 does not put it into its compression table (RFC 7541
/// §7.1.3).
fn header(path: &Path, scheme: &str, secret: &[u8]) -> Result<HeaderValue, String> {
    let mut text = Zeroizing::new(Vec::with_capacity(scheme.len() + secret.len()));
    text.extend_from_slice(scheme.as_bytes());
    text.extend_from_slice(secret);
    let mut value = HeaderValue::from_bytes(&text)
        .map_err(|_| format!("the content of {} is no valid header value", path.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn certified_key(certificate: &Path, key: &Path) -> Result<ClientCertificate, String> {
    let chain = Secret::read(certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain.bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| format!("expected PEM certificates in {}", certificate.display()))?;
    if chain.is_empty() {
        return Err(format!("expected PEM certificates in {}", certificate.display()));
    }
    let secret = Secret::read(key)?;
    // The library's error could quote what it read.
    let der = PrivateKeyDer::from_pem_slice(secret.bytes())
        .map_err(|_| format!("expected a private key in PEM form in {}", key.display()))?;
    let provider = rustls::crypto::ring::default_provider();
    let certified = CertifiedKey::from_der(chain, der, &provider).map_err(|_| {
        format!(
            "expected a private key of a supported kind in {} that belongs to the certificate in {}",
            key.display(),
            certificate.display()
        )
    })?;
    Ok(ClientCertificate(Arc::new(certified)))
}
