//! History across restarts: incidents, changes of their verdicts, roll-ups and raw failures.
//!
//! ```text
//! engine task ─▶ HistoryWriter (never blocks) ─▶ WriteQueue (bounded) ─▶ StoreWorker (own thread) ─▶ SQLite
//!                           queries of API and page ─▶┘                       └▶ StoreState (page, API, metrics)
//! ```
//!
//! Probing and judging never depend on the store: if it is missing, full, read-only, locked or corrupt, the error is
//! reported, the store is retried, and the queue is bounded. A back end implements [`HistoryStore`]; retention of
//! incidents across restarts and retries are the same for all back ends.

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

/// A back end of the store. One conformance suite (`tests/conformance.rs`) tests every implementation.
///
/// Calls come from one thread, one at a time, and may block. Each is short (a batch, a page of rows, a step of
/// cleanup), because queries wait in the same queue.
pub trait HistoryStore: Send {
    /// Writes all of the batch or nothing. Incidents replace earlier ones of the same id; roll-ups are added to
    /// existing ones.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), StoreError>;

    /// Incidents that have ended, latest first, from the cursor on.
    fn ended_incidents(
        &mut self,
        before: Option<&HistoryCursor>,
        limit: usize,
    ) -> Result<Vec<StoredIncident>, StoreError>;

    /// The same without the verdicts, for lists.
    fn incident_summaries(&mut self, limit: usize) -> Result<Vec<IncidentSummary>, StoreError>;

    /// Incidents without a known end.
    fn unended_incidents(&mut self) -> Result<Vec<IncidentSummary>, StoreError>;

    /// One incident.
    fn incident(&mut self, id: &str) -> Result<Option<StoredIncident>, StoreError>;

    /// The changes of one incident's verdict, oldest first.
    fn verdict_changes(&mut self, id: &str) -> Result<Vec<VerdictChange>, StoreError>;

    /// At most `limit` roll-ups of one target that start within `span`, in order.
    fn rollups(
        &mut self,
        step: RollupStep,
        target: &str,
        span: std::ops::Range<EventTime>,
        limit: usize,
    ) -> Result<Vec<(RollupKey, ProbeRollup)>, StoreError>;

    /// Raw failures of one target from before `before`, newest first.
    fn failures(
        &mut self,
        target: &str,
        before: EventTime,
        limit: usize,
    ) -> Result<Vec<serde_json::Value>, StoreError>;

    /// Writes a document and replaces its earlier state.
    fn put_document(&mut self, document: &StoredDocument) -> Result<(), StoreError>;

    /// Documents of a kind, latest first.
    fn documents(&mut self, sort: DocumentKind, limit: usize) -> Result<Vec<StoredDocument>, StoreError>;

    /// One document.
    fn document(&mut self, sort: DocumentKind, id: &str) -> Result<Option<StoredDocument>, StoreError>;

    /// Runs one step of retention and of returning free space. Returns whether there is more to do.
    fn prune_step(&mut self, now: EventTime) -> Result<bool, StoreError>;

    /// Size on disk in bytes.
    fn size_bytes(&mut self) -> Result<u64, StoreError>;
}

/// Opens the store, again after errors.
pub trait StoreOpener: Send {
    /// Opens the store. The texts report what else was done, such as moving a corrupt file aside.
    fn open(&mut self, now: EventTime) -> Result<(Box<dyn HistoryStore>, Vec<String>), StoreError>;

    /// The location, for people.
    fn location(&self) -> String;
}
