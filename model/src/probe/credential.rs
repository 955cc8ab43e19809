//! Names of credentials. The secrets themselves are files that only the prober reads.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// Maximum length of a name in bytes: `credential-NAME` is the name of a volume, which has at most 63.
const MAX_LENGTH: usize = 50;

/// The name of a credential that a prober has files for. It is part of plans, target ids and recordings, so it must not
/// contain a secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CredentialName(Arc<str>);

/// Why a text is no name of a credential. The text may be a secret by mistake, so the message does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected the name of a credential: at most {MAX_LENGTH} lower-case letters, digits and -, with a letter or digit \
     at both ends"
)]
pub struct InvalidCredentialName;

impl CredentialName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CredentialName {
    type Err = InvalidCredentialName;

    fn from_str(text: &str) -> Result<Self, InvalidCredentialName> {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let ends = [text.bytes().next(), text.bytes().last()];
        let valid = text.len() <= MAX_LENGTH
            && text.bytes().all(|byte| letters(byte) || byte == b'-')
            && ends.iter().all(|end| end.is_some_and(letters));
        if valid {
            Ok(Self(text.into()))
        } else {
            Err(InvalidCredentialName)
        }
    }
}

impl TryFrom<String> for CredentialName {
    type Error = InvalidCredentialName;

    fn try_from(text: String) -> Result<Self, InvalidCredentialName> {
        text.parse()
    }
}

impl From<CredentialName> for String {
    fn from(name: CredentialName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Debug for CredentialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialName").field(&&*self.0).finish()
    }
}

impl fmt::Display for CredentialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_label_and_an_invalid_one_is_not_repeated() {
        for name in ["a", "shop-api", "9lives", &"a".repeat(MAX_LENGTH)] {
            assert_eq!(name.parse::<CredentialName>().unwrap().as_str(), name);
        }
        for text in ["", "-a", "a-", "Shop", "a.b", "a,b", &"a".repeat(MAX_LENGTH + 1)] {
            assert_eq!(
                text.parse::<CredentialName>(),
                Err(InvalidCredentialName),
                "{text}"
            );
        }
        let error = serde_json::from_str::<CredentialName>("\"Bearer s3cret\"").unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
