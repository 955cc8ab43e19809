//! The suite's own CA, and certificates with one defect each.

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

use crate::step::CertificateKind;

/// Two CAs: clients and probers trust only the first one.
#[derive(Debug)]
pub struct Authority {
    root: String,
    known: Issuer<'static, KeyPair>,
    private: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both as PEM.
#[derive(Debug, Clone)]
pub struct PemPair {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// Creates both CAs.
    ///
    /// # Errors
    /// No random numbers available.
    pub fn new() -> anyhow::Result<Self> {
        let (root, known) = authority("Parallax real-cluster suite").context("creating a CA")?;
        let (_, private) = authority("A private authority").context("creating a CA")?;
        Ok(Self { root, known, private })
    }

    /// Returns the CA certificate that clients and probers trust, as PEM.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Issues a certificate for a host.
    ///
    /// # Errors
    /// A host that is not valid in a certificate.
    pub fn issue(&self, host: &str, kind: CertificateKind) -> anyhow::Result<PemPair> {
        let named = if kind == CertificateKind::OtherName {
            "elsewhere.example.net"
        } else {
            host
        };
        let mut leaf = CertificateParams::new(vec![named.to_owned()]).with_context(|| named.to_owned())?;
        leaf.distinguished_name = common_name(named);
        leaf.not_before = date_time_ymd(2024, 1, 1);
        leaf.not_after = date_time_ymd(2100, 1, 1);
        if kind == CertificateKind::Expired {
            leaf.not_after = date_time_ymd(2025, 1, 1);
        }
        let issuer = if kind == CertificateKind::PrivateAuthority {
            &self.private
        } else {
            &self.known
        };
        let key = KeyPair::generate()?;
        Ok(PemPair {
            certificate: leaf.signed_by(&key, issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn authority(name: &str) -> Result<(String, Issuer<'static, KeyPair>), rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let root = params.self_signed(&key)?.pem();
    Ok((root, Issuer::new(params, key)))
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use rustls::{
        RootCertStore,
        client::{WebPkiServerVerifier, danger::ServerCertVerifier},
        pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    };

    use super::*;

    #[test]
    fn each_kind_is_wrong_in_its_own_way() {
        let authority = Authority::new().unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.root().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        // 2026-06-01.
        let now = UnixTime::since_unix_epoch(Duration::from_hours(494_520));
        let host = ServerName::try_from("secure.example.com").unwrap();
        let verdict = |kind| {
            let pair = authority.issue("secure.example.com", kind).unwrap();
            let leaf = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
            verifier
                .verify_server_cert(&leaf, &[], &host, &[], now)
                .map(|_| ())
                .map_err(|error| format!("{error:?}"))
        };
        assert_eq!(verdict(CertificateKind::Valid), Ok(()));
        for (kind, word) in [
            (CertificateKind::Expired, "Expired"),
            (CertificateKind::OtherName, "NotValidForName"),
            (CertificateKind::PrivateAuthority, "UnknownIssuer"),
        ] {
            let error = verdict(kind).unwrap_err();
            assert!(error.contains(word), "{kind:?}: {error}");
        }
    }
}
