//! What outlives a restart: incidents, how their verdicts changed, roll-ups and raw failures.
//!
//! ```text
//! hub ─▶ Keeper (never waits) ─▶ Waiting (bounded; the least valuable goes first) ─▶ Worker (own thread) ─▶ Store (SQLite)
//!                                    ▲ questions of API and page                       └▶ StoreState (page, metrics)
//! ```
//!
//! Probing and judging never depend on it: a store that is missing, full, read-only, locked or corrupt is said aloud
//! and tried again, and what waits for it is bounded. Everything a back end has to do is [`Store`]; whatever decides
//! what is kept, when to try again and what becomes of incidents across a restart stands on this side of it.

mod document;
mod handle;
mod keeper;
mod kept;
mod latency;
mod metrics;
mod options;
mod rollup;
mod sqlite;
mod state;
#[cfg(test)]
mod tests;
mod trouble;
mod waiting;
mod worker;

use parallax_model::EventTime;

pub(crate) use metrics::StoreMetrics;
pub use options::StoreOptions;

pub(crate) use document::{Document, Paper};
pub(crate) use handle::{AskError, StoreHandle};
pub(crate) use keeper::{Hold, Keeper};
#[cfg(test)]
pub(crate) use kept::End;
pub(crate) use kept::{Cursor, Ending, Kept, Summary};
pub(crate) use rollup::{RollupKey, Step};
pub(crate) use sqlite::SqliteFile;
pub(crate) use state::{Status, StoreState};
pub(crate) use waiting::{Batch, What};
pub(crate) use worker::Worker;

use kept::Change;
use rollup::Rollup;
use trouble::Trouble;

/// A place that keeps things. One conformance suite (`tests/conformance.rs`) holds for every implementation.
///
/// Calls come from one thread, one at a time, and may block; each is short (a batch, a page of rows, a step of
/// tidying), because questions of the page wait in the same line.
pub(crate) trait Store: Send {
    /// Keeps all of it or nothing. Incidents replace what was kept under their id; roll-ups are added to what is there.
    fn write(&mut self, batch: &Batch) -> Result<(), Trouble>;

    /// Incidents that are over, latest first, from before the cursor.
    fn ended(&mut self, before: Option<&Cursor>, limit: usize) -> Result<Vec<Kept>, Trouble>;

    /// The same without the verdicts: what a list shows.
    fn summaries(&mut self, limit: usize) -> Result<Vec<Summary>, Trouble>;

    /// Incidents of which no end is known.
    fn unended(&mut self) -> Result<Vec<Summary>, Trouble>;

    /// One incident.
    fn incident(&mut self, id: &str) -> Result<Option<Kept>, Trouble>;

    /// How the verdict of one incident changed, oldest first.
    fn changes(&mut self, id: &str) -> Result<Vec<Change>, Trouble>;

    /// Roll-ups of one target that begin in `from..to`, in order, at most `limit`.
    fn rollups(
        &mut self,
        step: Step,
        target: &str,
        span: std::ops::Range<EventTime>,
        limit: usize,
    ) -> Result<Vec<(RollupKey, Rollup)>, Trouble>;

    /// Raw failures of one target from before a time, newest first.
    fn failures(
        &mut self,
        target: &str,
        before: EventTime,
        limit: usize,
    ) -> Result<Vec<serde_json::Value>, Trouble>;

    /// Keeps a document; a later state replaces an earlier one.
    fn put(&mut self, document: &Document) -> Result<(), Trouble>;

    /// Documents of a sort, the latest first.
    fn documents(&mut self, sort: Paper, limit: usize) -> Result<Vec<Document>, Trouble>;

    /// One document.
    fn document(&mut self, sort: Paper, id: &str) -> Result<Option<Document>, Trouble>;

    /// One step of removing what is too old or too much, and of giving space back. True while there is more to do.
    fn tidy(&mut self, now: EventTime) -> Result<bool, Trouble>;

    /// Bytes taken on the disk.
    fn bytes(&mut self) -> Result<u64, Trouble>;
}

/// How a worker gets at its store, again after trouble.
pub(crate) trait Open: Send {
    /// Opens it; what it did beyond that (a corrupt file moved aside) is to be said aloud.
    fn open(&mut self, now: EventTime) -> Result<(Box<dyn Store>, Vec<String>), Trouble>;

    /// Where it is, for people.
    fn place(&self) -> String;
}
