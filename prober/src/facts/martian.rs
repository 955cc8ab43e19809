//! `/proc/net/stat/rt_cache`: a line of names, then a line of hexadecimal counters per CPU.

use std::path::Path;

use super::read_text;

/// Returns the number of packets dropped so far because their source is an address of the node.
pub(super) fn read(root: &Path) -> Option<u64> {
    parse(&read_text(&root.join("proc/net/stat/rt_cache"))?)
}

pub(super) fn parse(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let column = lines
        .next()?
        .split_whitespace()
        .position(|name| name == "in_martian_src")?;
    let counts: Option<Vec<u64>> = lines
        .map(|line| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok())
        .collect();
    // Each counter is 32 bits wide and wraps separately.
    counts
        .filter(|counts| !counts.is_empty())
        .map(|counts| counts.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)))
}
