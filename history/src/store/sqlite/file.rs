//! Opening the file: its settings, whose it is, whether it is sound, and moving it aside where it is not.

use std::{fs, io, path::Path};

use parallax_model::EventTime;
use rusqlite::{Connection, OpenFlags};

use super::{StoreError, StoreErrorKind, StoreOptions, beside, schema, trouble};

/// How long SQLite itself waits for a reader or a backup that holds the file.
const BUSY: std::time::Duration = std::time::Duration::from_secs(2);

/// Files that SQLite keeps beside the main one.
const COMPANIONS: [&str; 3] = ["", "-wal", "-shm"];

/// Corrupt files that are left for somebody to look at; older ones make room.
const ASIDE: usize = 3;

pub(super) fn connect(options: &StoreOptions) -> Result<Connection, StoreError> {
    let path = &options.path;
    let failed = |error: rusqlite::Error| trouble(&error, "open", path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    schema::admit(&connection, path)?;
    sound(&connection, path)?;
    set(&connection, options).map_err(failed)?;
    // SQLite opens a file without write permission silently for reading.
    if connection.is_readonly("main").map_err(failed)? {
        return Err(StoreError::new(
            StoreErrorKind::ReadOnly,
            format!(
                "cannot write to the store {}: it can be read only; make the file and its folder writable for this user, or name another store.path",
                path.display()
            ),
        ));
    }
    schema::migrate(&mut connection, schema::STEPS).map_err(failed)?;
    Ok(connection)
}

fn set(connection: &Connection, options: &StoreOptions) -> rusqlite::Result<()> {
    // Only before the first table: free pages can then be given back bit by bit.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // An image may have no writable folder for temporary files.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -4_096)?;
    connection.pragma_update(None, "journal_size_limit", 8 << 20)?;
    limit(connection, options.max_bytes)
}

/// Sets the most pages of the file; SQLite takes what is there already as the least.
pub(super) fn limit(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / size.max(1);
    connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
}

fn sound(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let said: rusqlite::Result<String> = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match said {
        Ok(said) if said == "ok" => Ok(()),
        Ok(said) => Err(StoreError::new(
            StoreErrorKind::Corrupt,
            format!(
                "the store {} is corrupt: {}",
                path.display(),
                said.replace('\n', " ")
            ),
        )),
        Err(error) => Err(trouble(&error, "check", path)),
    }
}

/// Moves a corrupt file out of the way and says so.
pub(super) fn move_aside(path: &Path, now: EventTime, why: &StoreError) -> Result<String, StoreError> {
    let aside = beside(path, &format!(".corrupt-{}", now.0 / 1_000_000));
    for companion in COMPANIONS {
        match fs::rename(beside(path, companion), beside(&aside, companion)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::new(
                    StoreErrorKind::Corrupt,
                    format!(
                        "cannot move the corrupt store {} aside: {error}; remove it by hand",
                        path.display()
                    ),
                ));
            }
            _ => {}
        }
    }
    forget_old(path);
    Ok(format!(
        "{}; it was moved aside to {} and a new one begun: what it held is not shown",
        why.message,
        aside.display()
    ))
}

/// A disk that corrupts every file must not be filled by them.
fn forget_old(path: &Path) {
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
    let surplus = aside.len().saturating_sub(ASIDE);
    for name in aside.into_iter().take(surplus) {
        for companion in COMPANIONS {
            // What cannot be removed stays; the next time may be luckier.
            let _ = fs::remove_file(beside(&folder.join(&name), companion));
        }
    }
}

/// Bytes of the file and of what SQLite keeps beside it.
pub(super) fn bytes(path: &Path) -> u64 {
    COMPANIONS
        .iter()
        .filter_map(|companion| fs::metadata(beside(path, companion)).ok())
        .map(|metadata| metadata.len())
        .sum()
}
