//! The CA's identity in CAA records (RFC 8555 §9.7.6: `caaIdentities` of its directory).
//!
//! No CA is queried: the directory's host determines the identity that its operator documents.

use url::Url;

/// Hosts of ACME directories, with the CAA identity that their operators document: letsencrypt.org/docs/caa,
/// pki.goog/faq, zerossl.com and sectigo.com (one issuer), ssl.com.
const KNOWN_DIRECTORIES: &[(&str, &str)] = &[
    ("acme-v02.api.letsencrypt.org", "letsencrypt.org"),
    ("acme-staging-v02.api.letsencrypt.org", "letsencrypt.org"),
    ("dv.acme-v02.api.pki.goog", "pki.goog"),
    ("dv.acme-v02.test-api.pki.goog", "pki.goog"),
    ("acme.zerossl.com", "sectigo.com"),
    ("acme.sectigo.com", "sectigo.com"),
    ("acme.ssl.com", "ssl.com"),
];

/// Returns the identities of the CA behind an ACME directory; empty if unknown.
#[must_use]
pub fn caa_identities(directory: &str) -> Vec<String> {
    let host = Url::parse(directory)
        .ok()
        .and_then(|url| url.host_str().map(str::to_ascii_lowercase));
    KNOWN_DIRECTORIES
        .iter()
        .filter(|(known, _)| host.as_deref() == Some(known))
        .map(|(_, identity)| (*identity).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_identifies_its_authority_by_its_whole_host_only() {
        let of = |directory: &str| caa_identities(directory).join(",");
        assert_eq!(
            of("https://acme-v02.api.letsencrypt.org/directory"),
            "letsencrypt.org"
        );
        assert_eq!(
            of("https://ACME-staging-v02.api.letsencrypt.org/directory"),
            "letsencrypt.org"
        );
        assert_eq!(of("https://acme.zerossl.com/v2/DV90"), "sectigo.com");
        for unknown in [
            "https://acme.example.test/dir",
            "https://letsencrypt.org.example.test/directory",
            "https://example.test/acme-v02.api.letsencrypt.org",
            "",
        ] {
            assert_eq!(of(unknown), "", "{unknown}");
        }
    }
}
