//! The header that a credential is sent as.

use std::{fmt, str::FromStr};

use http::HeaderName;
use parallax_model::reserved_header_reason;

/// Maximum length of a name in bytes.
const MAX_BYTES: usize = 64;

/// A request header that the prober does not set itself, for example `X-Api-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialHeader(HeaderName);

/// The text is no name of such a header. It is not quoted: it may be a secret by mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCredentialHeader {
    /// The text is no name of a header, or too long.
    #[error(
        "expected a header name (RFC 9110 §5.1) of at most {MAX_BYTES} letters, digits and -, such as X-Api-Key"
    )]
    Name,
    /// The prober sets the header itself.
    #[error("the header {name} cannot carry a credential: {reason}")]
    Reserved {
        /// The header.
        name: HeaderName,
        /// The reason, with what to do instead.
        reason: &'static str,
    },
}

impl CredentialHeader {
    pub(super) fn name(&self) -> &HeaderName {
        &self.0
    }
}

impl fmt::Display for CredentialHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CredentialHeader {
    type Err = InvalidCredentialHeader;

    fn from_str(text: &str) -> Result<Self, InvalidCredentialHeader> {
        if text.len() > MAX_BYTES {
            return Err(InvalidCredentialHeader::Name);
        }
        let name = HeaderName::from_str(text).map_err(|_| InvalidCredentialHeader::Name)?;
        match reserved_header_reason(name.as_str()) {
            Some(reason) => Err(InvalidCredentialHeader::Reserved { name, reason }),
            None => Ok(Self(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_the_prober_sets_itself_carries_no_credential() {
        for name in [
            "X-Api-Key",
            "x-auth-token",
            "Cookie",
            "Authorization",
            "PRIVATE-TOKEN",
        ] {
            let header: CredentialHeader = name.parse().unwrap();
            assert_eq!(header.to_string(), name.to_ascii_lowercase());
        }
        for (name, expected) in [
            ("Host", "the host of the url is sent"),
            ("Proxy-Authorization", "use httpProxy and proxyCredential"),
            ("content-length", "frames the body"),
            ("connection", "applies to one connection"),
        ] {
            let error = name.parse::<CredentialHeader>().unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
        for name in ["", "X Key", "X-Key: s3cret", "x\r\ny", &"x".repeat(65)] {
            assert_eq!(
                name.parse::<CredentialHeader>(),
                Err(InvalidCredentialHeader::Name)
            );
        }
    }
}
