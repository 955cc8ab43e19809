//! What a prober reads of its node: netlink messages and tables of `/proc`. The parsers are private to the prober, so their files are
//! included here.

use std::{collections::BTreeSet, path::Path};

use crate::work::bounded;

#[path = "../../prober/src/facts/ipvs.rs"]
#[expect(dead_code, reason = "the parser without the socket that it reads from")]
mod ipvs;
#[path = "../../prober/src/facts/martian.rs"]
#[expect(dead_code, reason = "the parser without the file that it reads")]
mod martian;

/// Bytes allocated for each byte of a message or table.
const FACTOR: u64 = 64;

/// Reads the bytes as messages about the addresses of interface 7, and as a table of counters.
pub fn check(bytes: &[u8]) {
    let mut found = BTreeSet::new();
    let _ = bounded(bytes, FACTOR, |bytes| ipvs::parse_messages(bytes, 7, &mut found));
    // A message with an address of four bytes has at least 32 bytes.
    assert!(found.len() <= bytes.len() / 32, "an address is invented");
    if let Ok(text) = std::str::from_utf8(bytes) {
        let count = bounded(bytes, FACTOR, |_| martian::parse(text));
        assert!(count.is_none() || text.contains("in_martian_src"));
    }
}

fn read_text(_: &Path) -> Option<String> {
    None
}

fn read_number<T: std::str::FromStr>(_: &Path) -> Option<T> {
    None
}
