//! What a preflight may be asked for, and the token it makes up.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parallax_model::HostName;
use url::Host;

/// A name that no HTTP-01 challenge is for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    /// `*.example.test`.
    #[error(
        "{0}: a wildcard is never validated by HTTP-01 (Let's Encrypt offers DNS-01 only); preflight the names below it that have certificates of their own"
    )]
    Wildcard(String),
    /// An address.
    #[error(
        "{0}: an address as identifier (RFC 8738) is issued by special profiles only and matched by no host rule of an Ingress; preflight a name"
    )]
    Address(String),
    /// Letters outside ASCII.
    #[error("{name}: in DNS and in certificates this name is written {ascii}; ask for that")]
    Unicode {
        /// As given.
        name: String,
        /// In ASCII.
        ascii: String,
    },
    /// No name in public.
    #[error(
        "{0}: a name without a dot, or below a name that is reserved for private use, gets no public certificate"
    )]
    Private(String),
    /// Not a name at all.
    #[error("{0}: expected a host name such as shop.example.com, without scheme, port and path")]
    Malformed(String),
}

/// Top-level names that never exist in public (RFC 6761, RFC 8375 and ICANN's resolution of 2024). `.test`, `.example`
/// and `.invalid` are left in: authorities of tests issue for them.
const PRIVATE: [&str; 5] = ["local", "localhost", "internal", "onion", "arpa"];

/// A name that a challenge could be for.
///
/// # Errors
/// See [`InvalidHost`].
pub fn preflight_host(text: &str) -> Result<HostName, InvalidHost> {
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
    if !name.contains('.') || PRIVATE.contains(&top) {
        return Err(InvalidHost::Private(given()));
    }
    HostName::new(name).map_err(|_| InvalidHost::Malformed(given()))
}

/// A token as an authority makes them: 256 bits, base64url.
#[must_use]
pub fn token(random: [u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(random)
}

/// The answer to a token, in the form of a real one (RFC 8555 §8.1): the token, a dot, and 43 characters. There is no
/// account whose thumbprint it could be, so those are random.
#[must_use]
pub fn key_authorization(token: &str, random: [u8; 32]) -> String {
    format!("{token}.{}", URL_SAFE_NO_PAD.encode(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_challenge_over_http_is_for_is_refused_with_a_reason_of_its_own() {
        let refused = |text: &str| preflight_host(text).unwrap_err().to_string();
        for (text, said) in [
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
            assert!(refused(text).contains(said), "{text}: {}", refused(text));
        }
        for (text, name) in [
            ("shop.example.test", "shop.example.test"),
            ("Shop.Example.TEST.", "shop.example.test"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(preflight_host(text).unwrap().as_str(), name);
        }
    }

    #[test]
    fn a_key_authorization_has_the_form_and_the_length_of_a_real_one() {
        let token = token([7; 32]);
        let key = key_authorization(&token, [9; 32]);
        assert_eq!((token.len(), key.len()), (43, 87));
        assert!(key.starts_with(&format!("{token}.")));
    }
}
