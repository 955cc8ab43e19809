//! What outlives a restart: incidents, how their verdicts changed, roll-ups and raw failures.
//!
//! ```text
//! hub ─▶ Keeper (never waits) ─▶ Waiting (bounded; the least valuable goes first) ─▶ Worker (own thread) ─▶ Store (SQLite)
//!                                    ▲ questions of API and page                       └▶ StoreState (page, metrics)
//! ```
//!
//! Probing and judging never depend on it: a store that is missing, full, read-only, locked or corrupt is said aloud
//! and tried again, and what waits for it is bounded. Everything a back end has to do is [`HistoryStore`]; whatever decides
//! what is kept, when to try again and what becomes of incidents across a restart stands on this side of it.

mod document;
mod error;
mod handle;
mod history_writer;
mod latency;
mod metrics;
mod options;
mod rollup;
mod sqlite;
mod state;
mod stored;
#[cfg(test)]
mod tests;
mod worker;
mod write_queue;

use parallax_model::EventTime;

pub use metrics::StoreMetrics;
pub use options::StoreOptions;

pub use document::{DocumentKind, StoredDocument};
pub use handle::{QueryError, StoreHandle};
pub use history_writer::{HistoryWriter, StoreHold};
pub use rollup::{RollupKey, RollupStep};
pub use sqlite::SqliteFile;
pub use state::{Status, StoreState};
pub use stored::{HistoryCursor, IncidentEnd, IncidentEnding, IncidentSummary, StoredIncident};
pub use worker::StoreWorker;
pub(crate) use write_queue::{PendingKind, WriteBatch};

use error::StoreError;
use rollup::ProbeRollup;
use stored::VerdictChange;

/// A place that keeps things. One conformance suite (`tests/conformance.rs`) holds for every implementation.
///
/// Calls come from one thread, one at a time, and may block; each is short (a batch, a page of rows, a step of
/// tidying), because questions of the page wait in the same line.
pub trait HistoryStore: Send {
    /// Keeps all of it or nothing. Incidents replace what was kept under their id; roll-ups are added to what is there.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), StoreError>;

    /// Incidents that are over, latest first, from before the cursor.
    fn ended(
        &mut self,
        before: Option<&HistoryCursor>,
        limit: usize,
    ) -> Result<Vec<StoredIncident>, StoreError>;

    /// The same without the verdicts: what a list shows.
    fn summaries(&mut self, limit: usize) -> Result<Vec<IncidentSummary>, StoreError>;

    /// Incidents of which no end is known.
    fn unended(&mut self) -> Result<Vec<IncidentSummary>, StoreError>;

    /// One incident.
    fn incident(&mut self, id: &str) -> Result<Option<StoredIncident>, StoreError>;

    /// How the verdict of one incident changed, oldest first.
    fn changes(&mut self, id: &str) -> Result<Vec<VerdictChange>, StoreError>;

    /// Roll-ups of one target that begin in `from..to`, in order, at most `limit`.
    fn rollups(
        &mut self,
        step: RollupStep,
        target: &str,
        span: std::ops::Range<EventTime>,
        limit: usize,
    ) -> Result<Vec<(RollupKey, ProbeRollup)>, StoreError>;

    /// Raw failures of one target from before a time, newest first.
    fn failures(
        &mut self,
        target: &str,
        before: EventTime,
        limit: usize,
    ) -> Result<Vec<serde_json::Value>, StoreError>;

    /// Keeps a document; a later state replaces an earlier one.
    fn put(&mut self, document: &StoredDocument) -> Result<(), StoreError>;

    /// Documents of a sort, the latest first.
    fn documents(&mut self, sort: DocumentKind, limit: usize) -> Result<Vec<StoredDocument>, StoreError>;

    /// One document.
    fn document(&mut self, sort: DocumentKind, id: &str) -> Result<Option<StoredDocument>, StoreError>;

    /// One step of removing what is too old or too much, and of giving space back. True while there is more to do.
    fn tidy(&mut self, now: EventTime) -> Result<bool, StoreError>;

    /// Bytes taken on the disk.
    fn bytes(&mut self) -> Result<u64, StoreError>;
}

/// How a worker gets at its store, again after trouble.
pub trait StoreOpener: Send {
    /// Opens it; what it did beyond that (a corrupt file moved aside) is to be said aloud.
    fn open(&mut self, now: EventTime) -> Result<(Box<dyn HistoryStore>, Vec<String>), StoreError>;

    /// Where it is, for people.
    fn place(&self) -> String;
}
