//! Bytes as people read them.

use std::fmt::Write as _;

/// Bytes in hexadecimal digits, small letters.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
