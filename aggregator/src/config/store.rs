//! `store`: path, size and retention of the history store.

use std::path::Path;

use parallax_history::store::StoreOptions;
use parallax_model::{Micros, units};

use super::raw::RawStore;

/// Minimum and maximum retention, in seconds: an hour, ten years.
const RETENTION_RANGE_S: (u64, u64) = (3_600, 10 * 365 * 86_400);

/// Maximum file size. SQLite supports larger files, but no history needs them.
const MAX_FILE_BYTES: u64 = 1 << 40;

/// Returns the options if every field is valid; reports invalid fields to `wrong`.
pub(super) fn validate(
    raw: RawStore,
    folder: &Path,
    mut wrong: impl FnMut(&str, String),
) -> Option<StoreOptions> {
    let mut options = StoreOptions::with_defaults(folder.join(&raw.path));
    let mut sound = true;
    if raw.path.file_name().is_none() {
        wrong("store.path", "expected the name of a file".to_owned());
        sound = false;
    }
    if let Some(text) = raw.max_size {
        match parse_size(&text) {
            Some(bytes) if (StoreOptions::MIN_BYTES..=MAX_FILE_BYTES).contains(&bytes) => {
                options.max_bytes = bytes;
            }
            _ => {
                wrong(
                    "store.maxSize",
                    format!("expected a size from 1MiB to 1024GiB such as 256MiB, found {text:?}"),
                );
                sound = false;
            }
        }
    }
    for (field, text, keep) in [
        ("keepIncidents", raw.keep_incidents, &mut options.keep_incidents),
        ("keepFailures", raw.keep_failures, &mut options.keep_failures),
        ("keepRollups", raw.keep_rollups, &mut options.keep_rollups),
    ] {
        let Some(text) = text else { continue };
        match parse_duration(&text) {
            Some(seconds) if (RETENTION_RANGE_S.0..=RETENTION_RANGE_S.1).contains(&seconds) => {
                *keep = Micros::from_secs(seconds);
            }
            _ => {
                wrong(
                    &format!("store.{field}"),
                    format!("expected a duration from 1h to 3650d such as 90d or 12h, found {text:?}"),
                );
                sound = false;
            }
        }
    }
    sound.then_some(options)
}

fn parse_size(text: &str) -> Option<u64> {
    units::parse_with_unit(text, &units::BYTES)
}

fn parse_duration(text: &str) -> Option<u64> {
    units::parse_with_unit(text, &units::SECONDS)
}
