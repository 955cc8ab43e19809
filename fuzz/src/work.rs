//! A bound on work: what a decoder allocates grows with its input, and not with the square of it.

use allocation_counter::measure;

/// Bytes that any input may allocate.
const BASE_BYTES: u64 = 256 << 10;

/// Runs a decoder on `bytes` and asserts that it allocates at most `factor` bytes in total for each byte of them.
pub(crate) fn bounded<T>(bytes: &[u8], factor: u64, decode: impl FnOnce(&[u8]) -> T) -> T {
    let mut decoded = None;
    let allocated = measure(|| decoded = Some(decode(bytes))).bytes_total;
    let limit = BASE_BYTES + factor * bytes.len() as u64;
    assert!(
        allocated <= limit,
        "{} bytes of input allocate {allocated} bytes",
        bytes.len()
    );
    decoded.expect("the decoder has run")
}
