//! Text in the form that Go's libraries produce.

use std::fmt::Write as _;

use crate::timestamped_stream::FIRST_BYTES;

/// Returns Go's name for the TLS alert in an error text of rustls.
pub(super) fn alert_name(detail: &str) -> Option<&'static str> {
    const NAMES: &[(&str, &str)] = &[
        ("AccessDenied", "access denied"),
        ("BadCertificate", "bad certificate"),
        ("BadRecordMac", "bad record MAC"),
        ("CertificateExpired", "expired certificate"),
        ("CertificateRequired", "certificate required"),
        ("CertificateUnknown", "unknown certificate"),
        ("CloseNotify", "close notify"),
        ("DecodeError", "error decoding message"),
        ("DecryptError", "error decrypting message"),
        ("HandshakeFailure", "handshake failure"),
        ("IllegalParameter", "illegal parameter"),
        ("InsufficientSecurity", "insufficient security level"),
        ("InternalError", "internal error"),
        ("MissingExtension", "missing extension"),
        ("NoApplicationProtocol", "no application protocol"),
        ("ProtocolVersion", "protocol version not supported"),
        ("UnexpectedMessage", "unexpected message"),
        ("UnknownCA", "unknown certificate authority"),
        ("UnrecognisedName", "unrecognized name"),
        ("UnsupportedCertificate", "unsupported certificate"),
        ("UnsupportedExtension", "unsupported extension"),
        ("UserCanceled", "user canceled"),
    ];
    let (_, name) = detail.rsplit_once("alert: ")?;
    NAMES.iter().find_map(|(own, gos)| (*own == name).then_some(*gos))
}

/// Whether the bytes start with a SETTINGS frame on stream 0, by Boulder's test: it compares the text that Go quotes,
/// and so recognizes only lengths that Go writes as `\x…`.
pub(super) fn speaks_http2(first: [u8; FIRST_BYTES]) -> bool {
    let [a, b, length, kind, rest @ ..] = first;
    (a, b, kind, rest) == (0, 0, 4, [0; FIRST_BYTES - 4]) && matches!(length, 0..=6 | 0x0e..=0x1f | 0x7f..)
}

/// Quotes text as Go's `%q` does.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\u{7}' => text.push_str("\\a"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{b}' => text.push_str("\\v"),
                c if c.is_ascii_control() => escaped(&mut text, "\\x", u32::from(c), 2),
                c if c != ' ' && (c.is_control() || c.is_whitespace()) => {
                    escaped(&mut text, "\\u", u32::from(c), 4);
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            escaped(&mut text, "\\x", u32::from(*byte), 2);
        }
    }
    text.push('"');
    text
}

fn escaped(text: &mut String, escape: &str, value: u32, width: usize) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{escape}{value:0width$x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        for (bytes, expected) in [
            (&b"a \"b\"\\\n\r\t"[..], r#""a \"b\"\\\n\r\t""#),
            (b"\x00\x1b\x7f\xff", r#""\x00\x1b\x7f\xff""#),
            ("é\u{a0}".as_bytes(), "\"é\\u00a0\""),
        ] {
            assert_eq!(quoted(bytes), expected);
        }
    }
}
