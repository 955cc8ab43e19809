//! Bytes written as text with escape sequences.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum number of bytes that a TCP probe sends or expects.
const MAX_BYTES: usize = 4096;

/// Bytes written as text with `\r`, `\n`, `\t`, `\0`, `\\` and `\xNN`; at most 4 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EscapedBytes(Vec<u8>);

/// Why a text does not encode bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBytes {
    /// A backslash is followed by an unknown escape.
    #[error("expected \\r, \\n, \\t, \\0, \\\\ or \\xNN after a backslash, got {0:?}")]
    Escape(String),
    /// There is nothing to send or to expect.
    #[error("expected at least one byte")]
    Empty,
    /// The bytes exceed the maximum.
    #[error("expected at most {MAX_BYTES} bytes, got {0}")]
    TooLong(usize),
}

impl EscapedBytes {
    /// The decoded bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<String> for EscapedBytes {
    type Error = InvalidBytes;

    fn try_from(text: String) -> Result<Self, InvalidBytes> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find('\\') {
            bytes.extend_from_slice(&rest.as_bytes()[..at]);
            rest = &rest[at + 1..];
            let wrong = || InvalidBytes::Escape(rest.chars().take(3).collect());
            let (byte, length) = match rest.as_bytes().first() {
                Some(b'r') => (b'\r', 1),
                Some(b'n') => (b'\n', 1),
                Some(b't') => (b'\t', 1),
                Some(b'0') => (0, 1),
                Some(b'\\') => (b'\\', 1),
                Some(b'x') => {
                    let hex = rest
                        .get(1..3)
                        .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
                    (
                        u8::from_str_radix(hex.ok_or_else(wrong)?, 16).map_err(|_| wrong())?,
                        3,
                    )
                }
                _ => return Err(wrong()),
            };
            bytes.push(byte);
            rest = &rest[length..];
        }
        bytes.extend_from_slice(rest.as_bytes());
        match bytes.len() {
            0 => Err(InvalidBytes::Empty),
            len if len > MAX_BYTES => Err(InvalidBytes::TooLong(len)),
            _ => Ok(Self(bytes)),
        }
    }
}

impl fmt::Display for EscapedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0 {
            match byte {
                b'\r' => f.write_str("\\r")?,
                b'\n' => f.write_str("\\n")?,
                b'\t' => f.write_str("\\t")?,
                b'\\' => f.write_str("\\\\")?,
                b' '..=b'~' => write!(f, "{}", char::from(*byte))?,
                other => write!(f, "\\x{other:02x}")?,
            }
        }
        Ok(())
    }
}

impl From<EscapedBytes> for String {
    fn from(bytes: EscapedBytes) -> Self {
        bytes.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<EscapedBytes, InvalidBytes> {
        EscapedBytes::try_from(text.to_owned())
    }

    #[test]
    fn escapes_are_written_as_people_write_them() {
        assert_eq!(read(r"PING\r\n").unwrap().as_bytes(), b"PING\r\n");
        assert_eq!(read(r"\x00\xfF\\\0").unwrap().as_bytes(), [0, 255, b'\\', 0]);
        for wrong in ["", r"\", r"\q", r"\x1", r"\x+1", "\\xé"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(read(&"x".repeat(5000)), Err(InvalidBytes::TooLong(5000)));
    }

    proptest! {
        #[test]
        fn any_bytes_read_back_as_written(bytes in proptest::collection::vec(any::<u8>(), 1..100)) {
            let written = EscapedBytes(bytes.clone()).to_string();
            prop_assert_eq!(read(&written).unwrap().0, bytes);
        }

        #[test]
        fn any_text_is_read_without_panic(text in "(?s).{0,60}") {
            let _ = read(&text);
        }
    }
}
