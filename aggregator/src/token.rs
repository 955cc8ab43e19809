//! Shared secret of a standalone mesh.

use std::{fmt, path::Path};

/// Minimum length; shorter secrets can be guessed.
const MIN_LENGTH: usize = 16;

/// A secret that probers send as `Authorization: Bearer …`. Never printed.
#[derive(Clone)]
pub struct BearerToken(Box<str>);

impl BearerToken {
    /// Validates a secret: at least 16 printable ASCII characters, surrounding whitespace trimmed.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn new(secret: &str) -> Result<Self, String> {
        let secret = secret.trim();
        if secret.len() < MIN_LENGTH {
            return Err(format!(
                "expected a token of at least {MIN_LENGTH} characters, found {}",
                secret.len()
            ));
        }
        if !secret.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("expected printable ASCII without spaces (it travels in a header)".to_owned());
        }
        Ok(Self(secret.into()))
    }

    /// Returns the secret, for a prober in the same process.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }

    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::new(&text)
    }

    /// Reports whether an `Authorization` header contains the secret. Compares in constant time.
    pub(crate) fn matches_header(&self, header: &[u8]) -> bool {
        let Some(shown) = header.strip_prefix(b"Bearer ") else {
            return false;
        };
        self.matches(shown)
    }

    fn matches(&self, shown: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        shown.len() == secret.len() && secret.iter().zip(shown).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
    }
}

/// Compares in constant time.
impl PartialEq for BearerToken {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.0.as_bytes())
    }
}

impl Eq for BearerToken {}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_opens_and_nothing_prints_it() {
        let token = BearerToken::new("correct-horse-battery\n").unwrap();
        assert!(token.matches_header(b"Bearer correct-horse-battery"));
        assert!(!token.matches_header(b"Bearer correct-horse-batter"));
        assert!(!token.matches_header(b"Bearer correct-horse-batterz"));
        assert!(!token.matches_header(b"correct-horse-battery"));
        assert!(!format!("{token:?}").contains("horse"));
        assert!(BearerToken::new("short").unwrap_err().contains("at least 16"));
    }
}
