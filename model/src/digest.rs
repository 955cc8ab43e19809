//! A short digest that compares what two servers presented without transmitting it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first 16 bytes of a SHA-256, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(u128);

/// The string is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected 32 hexadecimal digits, got {0:?}")]
pub struct InvalidDigest(String);

impl Digest {
    /// Keeps the first 16 bytes of a SHA-256 hash; a shorter hash is padded with zeros.
    #[must_use]
    pub fn from_sha256(hash: &[u8]) -> Self {
        let byte = |i: usize| u128::from(hash.get(i).copied().unwrap_or(0));
        Self((0..16).fold(0, |sum, i| sum << 8 | byte(i)))
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(&text, 16) {
            Ok(value) if digits => Ok(Self(value)),
            _ => Err(InvalidDigest(text.chars().take(40).collect())),
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_as_written_and_anything_else_is_refused() {
        let digest = Digest::from_sha256(&[0x0a; 32]);
        assert_eq!(digest.to_string(), "0a".repeat(16));
        assert_eq!(Digest::try_from(digest.to_string()), Ok(digest));
        for wrong in ["", "0a", "+a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a", &"0a".repeat(17)] {
            assert!(Digest::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
    }
}
