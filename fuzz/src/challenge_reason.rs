//! `status.reason` of a Challenge, which contains text of the probed server and of the CA.

use parallax_preflight::parse_reason;

use crate::work::bounded;

/// Bytes allocated for each byte of a reason.
const FACTOR: u64 = 64;

/// Parses the bytes as a reason.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let reason = bounded(bytes, FACTOR, |_| parse_reason(text));
    // What surrounds a reason does not change its meaning.
    assert_eq!(parse_reason(&format!("  {text}\n")), reason);
}
