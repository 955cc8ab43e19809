//! The store in one SQLite file.
//!
//! WAL and `synchronous = NORMAL`: a killed process loses no committed data, a power failure at most the last seconds,
//! and neither corrupts the file. A lock file next to it ensures a single writer and names it.

mod document;
mod file;
mod lock;
mod read;
mod retention;
pub(super) mod schema;
mod write;

use std::path::{Path, PathBuf};

use lock::FileLock;
use parallax_model::EventTime;
use rusqlite::{Connection, ErrorCode};

use super::{
    DocumentKind, HistoryCursor, HistoryStore, IncidentSummary, RollupKey, RollupStep, StoreOpener,
    StoreOptions, StoredDocument, StoredIncident, WriteBatch,
    error::{StoreError, StoreErrorKind},
    rollup::ProbeRollup,
    stored::VerdictChange,
};

/// The file, its size limit and its retention.
#[derive(Debug)]
pub struct SqliteFile {
    options: StoreOptions,
}

impl SqliteFile {
    /// A store in the file of the options; the worker opens it.
    #[must_use]
    pub const fn new(options: StoreOptions) -> Self {
        Self { options }
    }
}

impl StoreOpener for SqliteFile {
    fn open(&mut self, now: EventTime) -> Result<(Box<dyn HistoryStore>, Vec<String>), StoreError> {
        let (store, notices) = SqliteStore::open(&self.options, now)?;
        Ok((Box::new(store), notices))
    }

    fn location(&self) -> String {
        self.options.path.display().to_string()
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct SqliteStore {
    connection: Connection,
    options: StoreOptions,
    /// Released when the process ends, for whatever reason.
    _lock: FileLock,
}

impl SqliteStore {
    /// Opens or creates the file. A corrupt file is moved aside first, once.
    pub(super) fn open(options: &StoreOptions, now: EventTime) -> Result<(Self, Vec<String>), StoreError> {
        let lock = FileLock::acquire(&options.path)?;
        let mut notices = Vec::new();
        let connection = match file::open_connection(options) {
            Err(error) if error.kind == StoreErrorKind::Corrupt => {
                notices.push(file::move_aside(&options.path, now, &error)?);
                file::open_connection(options)?
            }
            connected => connected?,
        };
        let store = Self {
            connection,
            options: options.clone(),
            _lock: lock,
        };
        Ok((store, notices))
    }

    /// Runs an operation; an error names it.
    fn with_context<T>(
        &mut self,
        action: &str,
        run: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        run(&mut self.connection).map_err(|error| store_error(&error, action, &self.options.path))
    }
}

impl HistoryStore for SqliteStore {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.with_context("write to", |connection| write::write_batch(connection, batch))
    }

    fn ended_incidents(
        &mut self,
        before: Option<&HistoryCursor>,
        limit: usize,
    ) -> Result<Vec<StoredIncident>, StoreError> {
        self.with_context("read incidents of", |connection| {
            read::ended(connection, before, limit)
        })
    }

    fn incident_summaries(&mut self, limit: usize) -> Result<Vec<IncidentSummary>, StoreError> {
        self.with_context("read incidents of", |connection| {
            read::summaries(connection, limit)
        })
    }

    fn unended_incidents(&mut self) -> Result<Vec<IncidentSummary>, StoreError> {
        self.with_context("read incidents of", |connection| read::unended(connection))
    }

    fn incident(&mut self, id: &str) -> Result<Option<StoredIncident>, StoreError> {
        self.with_context("read an incident of", |connection| read::incident(connection, id))
    }

    fn verdict_changes(&mut self, id: &str) -> Result<Vec<VerdictChange>, StoreError> {
        self.with_context("read verdicts of", |connection| read::changes(connection, id))
    }

    fn rollups(
        &mut self,
        step: RollupStep,
        target: &str,
        span: std::ops::Range<EventTime>,
        limit: usize,
    ) -> Result<Vec<(RollupKey, ProbeRollup)>, StoreError> {
        self.with_context("read roll-ups of", |connection| {
            read::rollups(connection, step, target, &span, limit)
        })
    }

    fn failures(
        &mut self,
        target: &str,
        before: EventTime,
        limit: usize,
    ) -> Result<Vec<serde_json::Value>, StoreError> {
        self.with_context("read failures of", |connection| {
            read::failures(connection, target, before, limit)
        })
    }

    fn put_document(&mut self, document: &StoredDocument) -> Result<(), StoreError> {
        self.with_context("write to", |connection| document::put(connection, document))
    }

    fn documents(&mut self, sort: DocumentKind, limit: usize) -> Result<Vec<StoredDocument>, StoreError> {
        self.with_context("read documents of", |connection| {
            document::list(connection, sort, limit)
        })
    }

    fn document(&mut self, sort: DocumentKind, id: &str) -> Result<Option<StoredDocument>, StoreError> {
        self.with_context("read a document of", |connection| {
            document::get(connection, sort, id)
        })
    }

    fn prune_step(&mut self, now: EventTime) -> Result<bool, StoreError> {
        let options = self.options.clone();
        self.with_context("tidy", |connection| {
            retention::prune_step(connection, &options, now)
        })
    }

    fn size_bytes(&mut self) -> Result<u64, StoreError> {
        Ok(file::size_bytes(&self.options.path))
    }
}

/// Converts an error of SQLite.
fn store_error(error: &rusqlite::Error, doing: &str, path: &Path) -> StoreError {
    let (sort, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (
            StoreErrorKind::Full,
            "free space on its disk, or raise store.maxSize; the store resumes by itself",
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (
            StoreErrorKind::ReadOnly,
            "make the file and its folder writable for this user, or name another store.path",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (StoreErrorKind::Locked, "stop the other program that has it open")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            StoreErrorKind::Corrupt,
            "it is moved aside and replaced by a new file",
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => (
            StoreErrorKind::Unavailable,
            "check that its volume is mounted and its folder exists",
        ),
        _ => (StoreErrorKind::Other, "report this as a bug"),
    };
    StoreError::new(
        sort,
        format!("cannot {doing} the store {}: {error}; {advice}", path.display()),
    )
}

/// Appends a suffix to the file name: `history.db` and `.lock` make `history.db.lock`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
impl SqliteStore {
    /// Sets the size limit in bytes; zero means the current size.
    pub(super) fn limit(&self, bytes: u64) -> rusqlite::Result<()> {
        file::set_size_limit(&self.connection, bytes.max(4_096))
    }

    /// Makes the store behave as on a volume that became read-only.
    pub(super) fn read_only(&self) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "query_only", true)
    }

    pub(super) fn targets(&self) -> rusqlite::Result<Vec<String>> {
        self.connection
            .prepare("SELECT id FROM targets ORDER BY id")?
            .query_map([], |row| row.get(0))?
            .collect()
    }

    fn pages(&self, name: &str) -> u64 {
        let read = |name| {
            self.connection
                .pragma_query_value(None, name, |row| row.get::<_, u32>(0))
        };
        u64::from(read(name).unwrap()) * u64::from(read("page_size").unwrap())
    }

    /// Size in bytes of the main file, with the WAL checkpointed.
    pub(super) fn main_bytes(&self) -> u64 {
        self.pages("page_count")
    }

    /// Size in bytes of its used pages.
    pub(super) fn used_bytes(&self) -> u64 {
        self.main_bytes() - self.pages("freelist_count")
    }
}
