//! A bound on work: what a decoder allocates grows with its input, and not with the square of it.

use allocation_counter::measure;

/// Bytes that any input may allocate.
const BASE_BYTES: u64 = 256 << 10;

/// Runs a decoder on `bytes` and asserts that it allocates at most `factor` bytes in total for each byte of them.
pub(crate) fn bounded<T>(bytes: &[u8], factor: u64, decode: impl FnOnce(&[u8]) -> T) -> T {
    bounded_by(factor * bytes.len() as u64, || decode(bytes))
}

/// Runs a decoder and asserts that it allocates at most this number of bytes in total, besides those that any input
/// may allocate.
pub(crate) fn bounded_by<T>(bytes: u64, decode: impl FnOnce() -> T) -> T {
    let mut decoded = None;
    let allocated = measure(|| decoded = Some(decode())).bytes_total;
    let limit = BASE_BYTES + bytes;
    assert!(
        allocated <= limit,
        "{allocated} bytes are allocated, at most {limit} are allowed"
    );
    decoded.expect("the decoder has run")
}
