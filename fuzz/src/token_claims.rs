//! The claims of a bearer token, before any trust. The aggregator's decoder is private and has no other dependencies, so its file
//! is included here.

use crate::work::bounded;

#[path = "../../aggregator/src/identity/claims.rs"]
mod claims;

use claims::TokenClaims;

/// Bytes allocated for each byte of a token.
const FACTOR: u64 = 64;

/// Parses the bytes as a token.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Some(claims) = bounded(bytes, FACTOR, |_| TokenClaims::parse(text)) else {
        return;
    };
    assert!(text.len() <= 16 << 10, "a long token was decoded");
    assert_eq!(text.matches('.').count(), 2, "not a JWT");
    let _ = (claims.pod_uid(), claims.expires, claims.has_audience("parallax"));
}
