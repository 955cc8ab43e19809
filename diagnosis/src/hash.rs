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

/// As [`stable`], with the bits mixed: FNV alone leaves texts that differ in their last letters close to each other, and
/// an order by it is hardly another than that of the names. The last step of `MurmurHash3`.
pub(crate) fn scattered(parts: &[&str]) -> u64 {
    let mut hash = stable(parts);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
