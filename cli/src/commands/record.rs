//! The `--record` options that `up` and `aggregator` share.

use std::path::PathBuf;

use parallax_history::recording::RecordOptions;
use parallax_model::units;

/// Recording options.
#[derive(Debug, clap::Args)]
// Without `skip`, the group would have the same name as the command's own arguments.
#[group(skip)]
pub(crate) struct Args {
    /// Record every input of the diagnosis into this directory; `parallax replay DIR` then reaches the same verdicts.
    #[arg(long = "record", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Maximum size of all recordings in the directory, such as 64MiB or 2GiB; the oldest are deleted first.
    #[arg(
        long = "record-max-size",
        value_name = "SIZE",
        requires = "dir",
        value_parser = parse_size,
        default_value = "256MiB"
    )]
    max_size: u64,
    /// Replace names and addresses by pseudonyms and omit free text, so that the recording can be shared.
    #[arg(long = "record-pseudonyms", requires = "dir")]
    pseudonyms: bool,
}

impl Args {
    /// Returns the options if recording is enabled.
    pub(crate) fn options(&self) -> Option<RecordOptions> {
        Some(RecordOptions {
            dir: self.dir.clone()?,
            max_bytes: self.max_size,
            pseudonyms: self.pseudonyms,
        })
    }
}

/// Bytes, and common abbreviations of binary units.
const UNITS: [(&str, u64); 6] = [
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

/// Parses a number of bytes with an optional unit.
fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = units::parse_with_unit(text, &UNITS)
        .or_else(|| units::parse_with_unit(text, &units::BYTES))
        .ok_or("expected a number of bytes, optionally with KiB, MiB, GiB or TiB")?;
    if bytes < RecordOptions::MIN_BYTES {
        return Err(format!(
            "expected at least {} bytes (1MiB)",
            RecordOptions::MIN_BYTES
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_with_or_without_a_binary_unit_and_at_least_a_mebibyte() {
        assert_eq!(parse_size("256MiB"), Ok(RecordOptions::DEFAULT_BYTES));
        assert_eq!(parse_size("2 GiB"), Ok(2 << 30));
        assert_eq!(parse_size("1048576"), Ok(1 << 20));
        for wrong in ["", "much", "1MB", "-1", "99999999TiB", "1000"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?}");
        }
    }
}
