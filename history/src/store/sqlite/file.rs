//! Opens the file: settings, ownership and integrity checks, and moving a corrupt file aside.

use std::{fs, io, path::Path};

use parallax_model::EventTime;
use rusqlite::{Connection, OpenFlags};

use super::{StoreError, StoreErrorKind, StoreOptions, schema, store_error, with_suffix};

/// SQLite's busy timeout, for a reader or a backup that locks the file.
const BUSY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// Suffixes of the main file and of SQLite's files next to it.
const FILE_SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// Number of corrupt files that are kept for inspection; older ones are deleted.
const MAX_CORRUPT_FILES: usize = 3;

pub(super) fn open_connection(options: &StoreOptions) -> Result<Connection, StoreError> {
    let path = &options.path;
    let failed = |error: rusqlite::Error| store_error(&error, "open", path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    schema::check_ownership(&connection, path)?;
    check_integrity(&connection, path)?;
    apply_pragmas(&connection, options).map_err(failed)?;
    // SQLite silently opens a file without write permission as read-only.
    if connection.is_readonly("main").map_err(failed)? {
        return Err(StoreError::new(
            StoreErrorKind::ReadOnly,
            format!(
                "cannot write to the store {}: it is read-only; make the file and its folder writable for this user, or name another store.path",
                path.display()
            ),
        ));
    }
    schema::migrate(&mut connection, schema::MIGRATIONS).map_err(failed)?;
    Ok(connection)
}

fn apply_pragmas(connection: &Connection, options: &StoreOptions) -> rusqlite::Result<()> {
    // Takes effect only before the first table is created: free pages can then be returned step by step.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // The container image may have no writable folder for temporary files.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -4_096)?;
    connection.pragma_update(None, "journal_size_limit", 8 << 20)?;
    set_size_limit(connection, options.max_bytes)
}

/// Limits the size of the file, in pages; SQLite never sets the limit below the current size.
pub(super) fn set_size_limit(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / size.max(1);
    connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
}

fn check_integrity(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let result: rusqlite::Result<String> =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match result {
        Ok(result) if result == "ok" => Ok(()),
        Ok(result) => Err(StoreError::new(
            StoreErrorKind::Corrupt,
            format!(
                "the store {} is corrupt: {}",
                path.display(),
                result.replace('\n', " ")
            ),
        )),
        Err(error) => Err(store_error(&error, "check", path)),
    }
}

/// Moves a corrupt file aside and returns a text that reports it.
pub(super) fn move_aside(path: &Path, now: EventTime, cause: &StoreError) -> Result<String, StoreError> {
    let aside = with_suffix(path, &format!(".corrupt-{}", now.0 / 1_000_000));
    for companion in FILE_SUFFIXES {
        match fs::rename(with_suffix(path, companion), with_suffix(&aside, companion)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::new(
                    StoreErrorKind::Corrupt,
                    format!(
                        "cannot move the corrupt store {} aside: {error}; remove it manually",
                        path.display()
                    ),
                ));
            }
            _ => {}
        }
    }
    delete_old_corrupt_files(path);
    Ok(format!(
        "{}; it was moved aside to {} and replaced by a new file, without the previous history",
        cause.message,
        aside.display()
    ))
}

/// Deletes old corrupt files: a disk that corrupts every file must not be filled by them.
fn delete_old_corrupt_files(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let prefix = format!("{}.corrupt-", name.to_string_lossy());
    let mut aside: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            name.strip_prefix(&prefix)
                .is_some_and(|time| time.bytes().all(|b| b.is_ascii_digit()))
        })
        .collect();
    aside.sort();
    let surplus = aside.len().saturating_sub(MAX_CORRUPT_FILES);
    for name in aside.into_iter().take(surplus) {
        for companion in FILE_SUFFIXES {
            // A file that cannot be deleted is tried again next time.
            let _ = fs::remove_file(with_suffix(&folder.join(&name), companion));
        }
    }
}

/// Size in bytes of the file and of SQLite's files next to it.
pub(super) fn size_bytes(path: &Path) -> u64 {
    FILE_SUFFIXES
        .iter()
        .filter_map(|companion| fs::metadata(with_suffix(path, companion)).ok())
        .map(|metadata| metadata.len())
        .sum()
}
