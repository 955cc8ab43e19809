//! The tables, and the migration from one version to the next. A released step never changes.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::{StoreError, StoreErrorKind, store_error};

/// "Prlx": the `application_id`, which identifies the file as a Parallax store.
pub(super) const APPLICATION_ID: i32 = 0x5072_6c78;

/// `STEPS[n]` migrates version n to n + 1; the last one leads to the current version.
pub(in crate::store) const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE incidents (
    id TEXT NOT NULL PRIMARY KEY,
    subject TEXT NOT NULL,
    region TEXT NOT NULL,
    sentence TEXT NOT NULL,
    probability REAL NOT NULL,
    since INTEGER NOT NULL,       -- times in microseconds of event time
    opened INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    ended INTEGER,
    ending TEXT,                  -- judged, restart, continued
    continued_by TEXT,
    incident TEXT NOT NULL        -- JSON, as the API says it
) STRICT;
CREATE INDEX incidents_ended ON incidents (ended, id);

CREATE TABLE verdicts (
    incident TEXT NOT NULL,
    at INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    PRIMARY KEY (incident, at)
) STRICT;

CREATE TABLE targets (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE rollups (
    target INTEGER NOT NULL,
    step INTEGER NOT NULL,        -- in seconds
    start INTEGER NOT NULL,       -- in seconds of event time
    channel TEXT NOT NULL,
    placement TEXT NOT NULL,
    results TEXT NOT NULL,        -- JSON: result to count
    latency TEXT NOT NULL,        -- JSON: bucket of native schema 3 to count
    PRIMARY KEY (target, step, start, channel, placement)
) STRICT, WITHOUT ROWID;

CREATE TABLE failures (
    number INTEGER PRIMARY KEY,   -- in the order they came: the oldest first
    target INTEGER NOT NULL,
    at INTEGER NOT NULL,
    recorded TEXT NOT NULL        -- JSON of the wire
) STRICT;
CREATE INDEX failures_of_target ON failures (target, at);
",
    "
CREATE TABLE documents (
    sort TEXT NOT NULL,           -- handling, window, run
    id TEXT NOT NULL,
    at INTEGER NOT NULL,          -- when it was last changed, in microseconds of event time
    document TEXT NOT NULL,       -- JSON, as the API says it
    PRIMARY KEY (sort, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX documents_at ON documents (at);
",
];

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

/// Checks that the file belongs to Parallax and has no newer version.
pub(super) fn check_ownership(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error: rusqlite::Error| store_error(&error, "open", path);
    let application: i32 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(failed)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    if application != APPLICATION_ID && (application != 0 || tables > 0) {
        return Err(StoreError::new(
            StoreErrorKind::Foreign,
            format!(
                "cannot use {} as the store: it is another program's database; name another store.path",
                path.display()
            ),
        ));
    }
    let version = version(connection).map_err(failed)?;
    if version > MIGRATIONS.len() {
        return Err(StoreError::new(
            StoreErrorKind::Foreign,
            format!(
                "cannot use the store {}: a newer version wrote it (schema {version}, this one knows {}); use that version, or name another store.path",
                path.display(),
                MIGRATIONS.len()
            ),
        ));
    }
    Ok(())
}

/// Runs the missing steps in one transaction.
pub(in crate::store) fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let from = version(connection)?;
    if from >= steps.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in &steps[from..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(
        None,
        "user_version",
        i64::try_from(steps.len()).unwrap_or(i64::MAX),
    )?;
    transaction.commit()
}
