//! CA certificates that a probe trusts in addition to those of its machine.

use std::{fmt, sync::Arc};

use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde::{Deserialize, Serialize};

/// Maximum number of certificates per target.
const MAX_CERTIFICATES: usize = 16;

/// Maximum length of the text in bytes. The text is part of every assignment of the target.
const MAX_BYTES: usize = 32 * 1024;

/// One to sixteen certificates in PEM form (RFC 7468), at most 32 KiB of text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RootCertificates {
    pem: Arc<str>,
    certificates: Arc<[CertificateDer<'static>]>,
}

/// Why a text is rejected as CA certificates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRoots {
    /// The text is not PEM or contains no certificate.
    #[error("expected one or more CA certificates in PEM form (-----BEGIN CERTIFICATE-----): {0}")]
    Pem(String),
    /// The text contains a private key, which would be sent to every prober.
    #[error("expected certificates only, got a private key; remove it from the configuration and rotate it")]
    PrivateKey,
    /// The text contains too many certificates.
    #[error("expected at most {MAX_CERTIFICATES} certificates, got {0}")]
    TooMany(usize),
    /// The text is too long.
    #[error("expected at most {MAX_BYTES} bytes, got {0}")]
    TooLong(usize),
}

impl RootCertificates {
    /// The certificates, DER-encoded.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }
}

impl TryFrom<String> for RootCertificates {
    type Error = InvalidRoots;

    fn try_from(pem: String) -> Result<Self, InvalidRoots> {
        if pem.len() > MAX_BYTES {
            return Err(InvalidRoots::TooLong(pem.len()));
        }
        if pem.contains("PRIVATE KEY-----") {
            return Err(InvalidRoots::PrivateKey);
        }
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| InvalidRoots::Pem(format!("the text cannot be read: {error}")))?;
        match certificates.len() {
            0 => Err(InvalidRoots::Pem("got none".to_owned())),
            1..=MAX_CERTIFICATES => Ok(Self {
                pem: pem.into(),
                certificates: certificates.into(),
            }),
            many => Err(InvalidRoots::TooMany(many)),
        }
    }
}

impl From<RootCertificates> for String {
    fn from(roots: RootCertificates) -> Self {
        roots.pem.as_ref().to_owned()
    }
}

impl PartialEq for RootCertificates {
    fn eq(&self, other: &Self) -> bool {
        self.pem == other.pem
    }
}

impl Eq for RootCertificates {}

impl fmt::Debug for RootCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} root certificates", self.certificates.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PEM around arbitrary bytes; only the verifier parses the certificate itself.
    const ONE: &str = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";

    fn read(text: &str) -> Result<RootCertificates, InvalidRoots> {
        RootCertificates::try_from(text.to_owned())
    }

    #[test]
    fn certificates_are_read_and_written_back_as_they_stood() {
        let two = format!("# the CA of the shop\n{ONE}{ONE}");
        let roots = read(&two).unwrap();
        assert_eq!(roots.certificates().len(), 2);
        assert_eq!(roots.certificates()[0].as_ref(), [0x30, 3, 2, 1, 1]);
        assert_eq!(String::from(roots), two);
    }

    #[test]
    fn whatever_else_is_refused_with_what_was_expected() {
        for (text, expected) in [
            ("", "got none"),
            ("/etc/ssl/ca.crt", "got none"),
            ("-----BEGIN CERTIFICATE-----\nMAMC", "cannot be read"),
            (
                "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n",
                "cannot be read",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMAMCAQE=\n-----END PRIVATE KEY-----\n",
                "a private key",
            ),
            (&ONE.repeat(17), "at most 16 certificates, got 17"),
            (&" ".repeat(40_000), "at most 32768 bytes, got 40000"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
