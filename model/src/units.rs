//! Numbers with a unit suffix: `90d`, `256MiB`.

/// Suffixes of seconds, minutes, hours and days, with their length in seconds.
pub const SECONDS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

/// Suffixes of milliseconds, seconds and minutes, with their length in milliseconds. A number without a
/// suffix is in seconds.
pub const MILLISECONDS: [(&str, u64); 4] = [("ms", 1), ("", 1_000), ("s", 1_000), ("m", 60_000)];

/// Binary multiples of bytes.
pub const BYTES: [(&str, u64); 4] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Parses a whole number with one of the suffixes and multiplies them. The suffix `""` stands for a number
/// without one. Returns `None` if the text is not a number, has another suffix, or overflows.
#[must_use]
pub fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit.trim())?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_by_its_unit() {
        assert_eq!(parse_with_unit("90d", &SECONDS), Some(7_776_000));
        assert_eq!(parse_with_unit("500ms", &MILLISECONDS), Some(500));
        assert_eq!(parse_with_unit("5", &MILLISECONDS), Some(5_000));
        assert_eq!(parse_with_unit("256 MiB", &BYTES), Some(268_435_456));
        for wrong in ["", "d", "1.5h", "-1s", "1w", "99999999999999999999d"] {
            assert_eq!(parse_with_unit(wrong, &SECONDS), None, "{wrong}");
        }
    }
}
