//! The store in one SQLite file.
//!
//! WAL and `synchronous = NORMAL`: a killed process loses no committed data, a power failure at most the last seconds,
//! and neither corrupts the file. A lock file next to it ensures a single writer and names it.

mod document;
mod file;
mod lock;
mod read;
pub(super) mod schema;
mod tidy;
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
        let (store, said) = SqliteStore::open(&self.options, now)?;
        Ok((Box::new(store), said))
    }

    fn place(&self) -> String {
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
        let lock = FileLock::take(&options.path)?;
        let mut said = Vec::new();
        let connection = match file::connect(options) {
            Err(trouble) if trouble.sort == StoreErrorKind::Corrupt => {
                said.push(file::move_aside(&options.path, now, &trouble)?);
                file::connect(options)?
            }
            connected => connected?,
        };
        let store = Self {
            connection,
            options: options.clone(),
            _lock: lock,
        };
        Ok((store, said))
    }

    /// Runs an operation; an error names it.
    fn doing<T>(
        &mut self,
        what: &str,
        run: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        run(&mut self.connection).map_err(|error| trouble(&error, what, &self.options.path))
    }
}

impl HistoryStore for SqliteStore {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.doing("write to", |connection| write::batch(connection, batch))
    }

    fn ended(
        &mut self,
        before: Option<&HistoryCursor>,
        limit: usize,
    ) -> Result<Vec<StoredIncident>, StoreError> {
        self.doing("read incidents of", |connection| {
            read::ended(connection, before, limit)
        })
    }

    fn summaries(&mut self, limit: usize) -> Result<Vec<IncidentSummary>, StoreError> {
        self.doing("read incidents of", |connection| {
            read::summaries(connection, limit)
        })
    }

    fn unended(&mut self) -> Result<Vec<IncidentSummary>, StoreError> {
        self.doing("read incidents of", |connection| read::unended(connection))
    }

    fn incident(&mut self, id: &str) -> Result<Option<StoredIncident>, StoreError> {
        self.doing("read an incident of", |connection| read::incident(connection, id))
    }

    fn changes(&mut self, id: &str) -> Result<Vec<VerdictChange>, StoreError> {
        self.doing("read verdicts of", |connection| read::changes(connection, id))
    }

    fn rollups(
        &mut self,
        step: RollupStep,
        target: &str,
        span: std::ops::Range<EventTime>,
        limit: usize,
    ) -> Result<Vec<(RollupKey, ProbeRollup)>, StoreError> {
        self.doing("read roll-ups of", |connection| {
            read::rollups(connection, step, target, &span, limit)
        })
    }

    fn failures(
        &mut self,
        target: &str,
        before: EventTime,
        limit: usize,
    ) -> Result<Vec<serde_json::Value>, StoreError> {
        self.doing("read failures of", |connection| {
            read::failures(connection, target, before, limit)
        })
    }

    fn put(&mut self, document: &StoredDocument) -> Result<(), StoreError> {
        self.doing("write to", |connection| document::put(connection, document))
    }

    fn documents(&mut self, sort: DocumentKind, limit: usize) -> Result<Vec<StoredDocument>, StoreError> {
        self.doing("read documents of", |connection| {
            document::list(connection, sort, limit)
        })
    }

    fn document(&mut self, sort: DocumentKind, id: &str) -> Result<Option<StoredDocument>, StoreError> {
        self.doing("read a document of", |connection| {
            document::one(connection, sort, id)
        })
    }

    fn tidy(&mut self, now: EventTime) -> Result<bool, StoreError> {
        let options = self.options.clone();
        self.doing("tidy", |connection| tidy::step(connection, &options, now))
    }

    fn bytes(&mut self) -> Result<u64, StoreError> {
        Ok(file::bytes(&self.options.path))
    }
}

/// Converts an error of SQLite.
fn trouble(error: &rusqlite::Error, doing: &str, path: &Path) -> StoreError {
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
            (StoreErrorKind::Held, "stop the other program that has it open")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            StoreErrorKind::Corrupt,
            "it is moved aside and replaced by a new file",
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => (
            StoreErrorKind::Missing,
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
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
impl SqliteStore {
    /// Sets the size limit in bytes; zero means the current size.
    pub(super) fn limit(&self, bytes: u64) -> rusqlite::Result<()> {
        file::limit(&self.connection, bytes.max(4_096))
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
