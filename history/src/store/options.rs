//! Where the store is and how much of what it keeps.

use std::path::PathBuf;

use parallax_model::Micros;

/// A store on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// The file. Its folder must exist.
    pub path: PathBuf,
    /// Most bytes of the file; the least valuable goes first.
    pub max_bytes: u64,
    /// How long incidents are kept after their end, with the history of their verdicts.
    pub keep_incidents: Micros,
    /// How long raw failures are kept.
    pub keep_failures: Micros,
    /// How long roll-ups by the hour are kept; those by five minutes a week at most.
    pub keep_rollups: Micros,
}

impl StoreOptions {
    /// Fewer bytes than these do not hold a day.
    pub const LEAST_BYTES: u64 = 1 << 20;

    const DAY: Micros = Micros::from_secs(24 * 3_600);

    /// A file with the default limits: 256 MiB, incidents a year, failures a week, roll-ups ninety days.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let days = |n: u64| Micros(Self::DAY.0 * n);
        Self {
            path: path.into(),
            max_bytes: 256 << 20,
            keep_incidents: days(365),
            keep_failures: days(7),
            keep_rollups: days(90),
        }
    }

    /// How long roll-ups by five minutes are kept.
    pub(crate) fn keep_fine(&self) -> Micros {
        self.keep_rollups.min(Micros(Self::DAY.0 * 7))
    }
}
