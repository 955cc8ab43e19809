//! Facts about the certificates of a TLS server, whether or not they verify.

use std::net::{Ipv4Addr, Ipv6Addr};

use parallax_model::{Digest, FailureKind, TlsVersion};
use rustls::pki_types::CertificateDer;
use x509_parser::{
    extensions::ParsedExtension,
    oid_registry::{OID_PKIX_ACCESS_DESCRIPTOR_CA_ISSUERS, OID_PKIX_AUTHORITY_INFO_ACCESS, OID_SIG_ED25519},
    prelude::{FromDer, GeneralName, X509Certificate},
    public_key::PublicKey,
    x509::SubjectPublicKeyInfo,
};

use crate::sanitize::sanitized;

/// Maximum number of certificates read per chain; a server may send any number.
const MAX_CERTIFICATES: usize = 8;

/// Maximum number of names kept per certificate.
const MAX_NAMES: usize = 32;

/// Facts about a TLS handshake, as far as it got, also if the certificate was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFacts {
    /// The requested server name (SNI), or the literal address.
    pub server_name: String,
    /// The negotiated version; `None` if the handshake did not complete.
    pub version: Option<TlsVersion>,
    /// The application protocol that the server chose (`h2`, `http/1.1`), if any was offered and chosen.
    pub alpn: Option<String>,
    /// The chain as presented, the server's own certificate first; at most eight.
    pub chain: Vec<CertificateFacts>,
    /// Digest of the server's own certificate.
    pub leaf_digest: Option<Digest>,
    /// Number of certificates beyond those eight, or unreadable.
    pub left_out: usize,
    /// The reason why the chain does not verify on this machine; `None` if it does, or if it could not be verified.
    pub rejected: Option<FailureKind>,
}

/// One certificate of a chain. All text is bounded and free of control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Distinguished name of the subject.
    pub subject: String,
    /// Distinguished name of the issuer.
    pub issuer: String,
    /// DNS names and addresses for which it is valid; at most 32.
    pub names: Vec<String>,
    /// Number of names beyond those.
    pub names_left_out: usize,
    /// Start of its validity, in seconds since the Unix epoch.
    pub not_before: i64,
    /// End of its validity, in seconds since the Unix epoch.
    pub not_after: i64,
    /// Whether it is signed with its own key, as verified by the signature, not only by the names.
    pub self_signed: bool,
    /// Kind and size of its key in bits: `RSA 2048`, `ECDSA 256`, `Ed25519`; the object identifier for other kinds.
    pub key: String,
}

impl CertificateFacts {
    /// Returns the first of its names that covers a host: the name itself, or a wildcard in place of its first label.
    #[must_use]
    pub fn name_for(&self, host: &str) -> Option<&str> {
        self.names
            .iter()
            .map(String::as_str)
            .find(|name| covers(name, host))
    }

    fn parse(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let alternative = certificate.subject_alternative_name().ok().flatten();
        let all = alternative.map_or(&[][..], |extension| extension.value.general_names.as_slice());
        let mut names: Vec<String> = all.iter().filter_map(general_name).collect();
        let names_left_out = names.len().saturating_sub(MAX_NAMES);
        names.truncate(MAX_NAMES);
        Some(Self {
            subject: sanitized(&certificate.subject().to_string()),
            issuer: sanitized(&certificate.issuer().to_string()),
            names,
            names_left_out,
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            self_signed: certificate.subject() == certificate.issuer()
                && certificate.verify_signature(None).is_ok(),
            key: key_text(certificate.public_key()),
        })
    }
}

fn key_text(info: &SubjectPublicKeyInfo<'_>) -> String {
    match info.parsed() {
        Ok(PublicKey::RSA(rsa)) => format!("RSA {}", rsa.key_size()),
        Ok(PublicKey::EC(point)) => format!("ECDSA {}", point.key_size()),
        _ if info.algorithm.algorithm == OID_SIG_ED25519 => "Ed25519".to_owned(),
        _ => sanitized(&info.algorithm.algorithm.to_id_string()),
    }
}

/// Whether a name of a certificate covers a host; a wildcard stands for one whole label (RFC 6125 §6.4.3).
fn covers(pattern: &str, host: &str) -> bool {
    let host = host.trim_end_matches('.');
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    match (pattern.strip_prefix("*."), host.split_once('.')) {
        (Some(parent), Some((_, rest))) => parent.eq_ignore_ascii_case(rest),
        _ => false,
    }
}

fn general_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(dns) => Some(sanitized(dns)),
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(|v4| Ipv4Addr::from(v4).to_string())
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(|v6| Ipv6Addr::from(v6).to_string()))
            .ok(),
        _ => None,
    }
}

/// Reads a chain. Also returns the number of certificates that were left out.
pub(crate) fn read_chain(ders: &[CertificateDer<'_>]) -> (Vec<CertificateFacts>, usize) {
    let chain: Vec<_> = ders
        .iter()
        .take(MAX_CERTIFICATES)
        .filter_map(CertificateFacts::parse)
        .collect();
    let left_out = ders.len() - chain.len();
    (chain, left_out)
}

/// Returns the issuer of the server's own certificate, if the chain lacks it. `None` if the chain contains the issuer,
/// if the certificate is its own issuer, or if it does not name the location of its issuer.
///
/// A root need not be sent (RFC 8446 §4.4.2), so a chain that ends at an unknown CA certificate may be complete. A
/// server's certificate alone may be complete too, if a private root issued it. Authority Information Access (RFC 5280
/// §4.2.2.1) tells the two apart: public CAs issue from intermediates and name their location, while certificates
/// issued by the roots of `openssl`, `mkcert` or cert-manager name none.
pub(crate) fn missing_issuer(ders: &[CertificateDer<'_>]) -> Option<MissingIssuer> {
    let mut chain = ders.iter().take(MAX_CERTIFICATES);
    let (_, leaf) = X509Certificate::from_der(chain.next()?).ok()?;
    if leaf.subject() == leaf.issuer() {
        return None;
    }
    let issues = |der: &CertificateDer<'_>| {
        X509Certificate::from_der(der).is_ok_and(|(_, other)| other.subject() == leaf.issuer())
    };
    if chain.any(issues) {
        return None;
    }
    Some(MissingIssuer {
        name: sanitized(&leaf.issuer().to_string()),
        url: issuer_url(&leaf)?,
    })
}

/// The issuer of a server's certificate, which the server did not send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingIssuer {
    /// Its distinguished name.
    pub(crate) name: String,
    /// Its URL according to the server's certificate. Never fetched.
    pub(crate) url: String,
}

/// The first `caIssuers` URL of a certificate.
fn issuer_url(certificate: &X509Certificate<'_>) -> Option<String> {
    let access = certificate
        .get_extension_unique(&OID_PKIX_AUTHORITY_INFO_ACCESS)
        .ok()??;
    let ParsedExtension::AuthorityInfoAccess(access) = access.parsed_extension() else {
        return None;
    };
    access
        .iter()
        .find_map(|description| match &description.access_location {
            GeneralName::URI(url) if description.access_method == OID_PKIX_ACCESS_DESCRIPTOR_CA_ISSUERS => {
                Some(sanitized(url))
            }
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn der(names: Vec<String>, common: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_reads_as_names_issuer_and_absolute_times() {
        let names = vec!["shop.example.test".to_owned(), "192.0.2.7".to_owned()];
        let (chain, left_out) = read_chain(&[der(names.clone(), "shop")]);
        let [facts] = chain.as_slice() else {
            panic!("one certificate")
        };
        assert_eq!(
            (facts.subject.as_str(), facts.issuer.as_str()),
            ("CN=shop", "CN=shop")
        );
        assert_eq!(facts.names, names);
        assert_eq!(
            (facts.not_before, facts.not_after),
            (1_577_836_800, 1_609_459_200)
        );
        assert!(facts.self_signed);
        assert_eq!(facts.key, "ECDSA 256");
        assert_eq!(left_out, 0);
    }

    #[test]
    fn names_and_chain_are_bounded_and_control_characters_tamed() {
        let names = (0..50).map(|i| format!("h{i}.example.test")).collect();
        let one = der(names, "\u{1b}[31mred");
        let (read, left_out) = read_chain(&vec![one; 20]);
        assert_eq!((read.len(), left_out), (8, 12));
        assert_eq!((read[0].names.len(), read[0].names_left_out), (32, 18));
        assert!(!read[0].subject.contains('\u{1b}'), "{}", read[0].subject);
    }

    #[test]
    fn what_is_no_certificate_is_left_out_and_counted() {
        let (read, left_out) = read_chain(&[CertificateDer::from(vec![1, 2, 3])]);
        assert_eq!((read, left_out), (vec![], 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let der = [CertificateDer::from(bytes)];
            let _ = (read_chain(&der), missing_issuer(&der));
        }
    }
}
