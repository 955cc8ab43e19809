//! FNV-1a, 64 bit: the same number on every machine and in every version, which the standard library's hasher does
//! not promise. Never used against an adversary.

/// Hash of several texts; a separator keeps `("ab","c")` and `("a","bc")` apart.
pub(crate) fn stable(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain(std::iter::once(0)) {
            hash ^= u64::from(byte);
            hash = hash.wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
