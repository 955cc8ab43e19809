//! Validates the host of a preflight, and generates its token.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parallax_model::HostName;
use url::Host;

/// A name that cannot have an HTTP-01 challenge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    /// `*.example.test`.
    #[error(
        "{0}: a wildcard is never validated by HTTP-01 (Let's Encrypt validates wildcards by DNS-01 only); run the preflight for names below it that have their own certificates"
    )]
    Wildcard(String),
    /// An IP address.
    #[error(
        "{0}: certificates for IP addresses (RFC 8738) require a special profile, and no host rule of an Ingress matches an address; give a host name"
    )]
    Address(String),
    /// A name with letters outside ASCII.
    #[error("{name}: DNS and certificates use the ASCII form of this name; give {ascii}")]
    Unicode {
        /// As given.
        name: String,
        /// The ASCII form.
        ascii: String,
    },
    /// A name that does not exist in public DNS.
    #[error(
        "{0}: a name without a dot or below a name reserved for private use cannot get a public certificate; give a public name"
    )]
    Private(String),
    /// Not a host name.
    #[error("{0}: expected a host name such as shop.example.com, without scheme, port and path")]
    Malformed(String),
}

/// Top-level names that never exist in public DNS (RFC 6761, RFC 8375 and ICANN's resolution of 2024). `.test`,
/// `.example` and `.invalid` are accepted, because test CAs issue certificates for them.
const PRIVATE_SUFFIXES: [&str; 5] = ["local", "localhost", "internal", "onion", "arpa"];

/// Parses a host name that can have an HTTP-01 challenge.
///
/// # Errors
/// See [`InvalidHost`].
pub fn parse_host(text: &str) -> Result<HostName, InvalidHost> {
    let given = || text.to_owned();
    if text.contains('*') {
        return Err(InvalidHost::Wildcard(given()));
    }
    let bare = text.trim_matches(['[', ']']);
    if bare.parse::<IpAddr>().is_ok() {
        return Err(InvalidHost::Address(given()));
    }
    let Ok(Host::Domain(ascii)) = Host::parse(text) else {
        return Err(InvalidHost::Malformed(given()));
    };
    if !text.is_ascii() {
        return Err(InvalidHost::Unicode { name: given(), ascii });
    }
    let name = ascii.trim_end_matches('.');
    let labels_fit = name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    if !labels_fit || name.len() > 253 {
        return Err(InvalidHost::Malformed(given()));
    }
    let top = name.rsplit('.').next().unwrap_or_default();
    if !name.contains('.') || PRIVATE_SUFFIXES.contains(&top) {
        return Err(InvalidHost::Private(given()));
    }
    HostName::new(name).map_err(|_| InvalidHost::Malformed(given()))
}

/// Returns a token in the form that CAs use: 256 bits, base64url.
#[must_use]
pub fn encode_token(random: [u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(random)
}

/// Returns a key authorization in the form of a real one (RFC 8555 §8.1): the token, a dot, and 43 characters. The
/// 43 characters are random, because there is no account whose thumbprint they could be.
#[must_use]
pub fn encode_key_authorization(token: &str, random: [u8; 32]) -> String {
    format!("{token}.{}", URL_SAFE_NO_PAD.encode(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_challenge_over_http_is_for_is_refused_with_a_reason_of_its_own() {
        let refused = |text: &str| parse_host(text).unwrap_err().to_string();
        for (text, expected) in [
            ("*.example.test", "wildcard"),
            ("shop.*.test", "wildcard"),
            ("203.0.113.10", "RFC 8738"),
            ("2001:db8::1", "RFC 8738"),
            ("[2001:db8::1]", "RFC 8738"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("localhost", "without a dot"),
            ("db.local", "private use"),
            ("web.shop.svc.cluster.local", "private use"),
            ("http://shop.example.test/", "without scheme"),
            ("shop.example.test:80", "without scheme"),
            ("shop_1.example.test", "without scheme"),
            ("-a.example.test", "without scheme"),
            ("", "without scheme"),
        ] {
            assert!(refused(text).contains(expected), "{text}: {}", refused(text));
        }
        for (text, name) in [
            ("shop.example.test", "shop.example.test"),
            ("Shop.Example.TEST.", "shop.example.test"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(parse_host(text).unwrap().as_str(), name);
        }
    }

    #[test]
    fn a_key_authorization_has_the_form_and_the_length_of_a_real_one() {
        let token = encode_token([7; 32]);
        let key = encode_key_authorization(&token, [9; 32]);
        assert_eq!((token.len(), key.len()), (43, 87));
        assert!(key.starts_with(&format!("{token}.")));
    }
}
