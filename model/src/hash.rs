//! Hashes that are stable across machines and versions, which the standard library's hasher does not
//! guarantee. They do not resist an adversary.

/// 64-bit FNV-1a of several strings (<http://www.isthe.com/chongo/tech/comp/fnv/>). A separator distinguishes
/// `("ab", "c")` from `("a", "bc")`.
#[must_use]
pub fn fnv1a(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain(std::iter::once(0)) {
            hash ^= u64::from(byte);
            hash = hash.wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// [`fnv1a`], with its bits mixed by the finalizer of `MurmurHash3`. FNV alone maps strings that differ only
/// in their last characters to nearby values, so sorting by it resembles sorting by the strings.
#[must_use]
pub fn fnv1a_mixed(parts: &[&str]) -> u64 {
    let mut hash = fnv1a(parts);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_every_version() {
        assert_eq!(fnv1a(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(&["a"]), 0x089b_e207_b544_f1e4);
        assert_ne!(fnv1a(&["ab", "c"]), fnv1a(&["a", "bc"]));
        assert_ne!(fnv1a_mixed(&["n1"]) >> 56, fnv1a_mixed(&["n2"]) >> 56);
    }
}
