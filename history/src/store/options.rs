//! Location, size limit and retention of the store.

use std::path::PathBuf;

use parallax_model::Micros;

/// A store on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// The file. Its folder must exist.
    pub path: PathBuf,
    /// Maximum size of the file in bytes; the least valuable data is deleted first.
    pub max_bytes: u64,
    /// How long incidents and the changes of their verdicts are kept after their end.
    pub keep_incidents: Micros,
    /// How long raw failures are kept.
    pub keep_failures: Micros,
    /// How long roll-ups per hour are kept; those per five minutes are kept a week at most.
    pub keep_rollups: Micros,
}

impl StoreOptions {
    /// Minimum of `max_bytes`; less does not hold a day.
    pub const MIN_BYTES: u64 = 1 << 20;

    const DAY: Micros = Micros::from_secs(24 * 3_600);

    /// The default limits: 256 MiB, incidents a year, failures a week, roll-ups ninety days.
    #[must_use]
    pub fn with_defaults(path: impl Into<PathBuf>) -> Self {
        let days = |n: u64| Micros(Self::DAY.0 * n);
        Self {
            path: path.into(),
            max_bytes: 256 << 20,
            keep_incidents: days(365),
            keep_failures: days(7),
            keep_rollups: days(90),
        }
    }

    /// How long roll-ups per five minutes are kept.
    pub(crate) fn keep_fine_rollups(&self) -> Micros {
        self.keep_rollups.min(Micros(Self::DAY.0 * 7))
    }
}
