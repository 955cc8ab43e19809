//! The queue of writes: bounded, so that a slow disk costs history but never memory.
//!
//! When it is full, the least valuable data is dropped and counted: raw failures before roll-ups, roll-ups before
//! changes of verdicts, incidents last. The lock is held only to move items, never during a write.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use parallax_model::Recorded;

use super::{
    HistoryStore, StoreMetrics,
    error::StoreError,
    rollup::{ProbeRollup, RollupKey},
    stored::{IncidentEnd, IncidentRow, VerdictRow},
};

/// Capacity, in units of about a quarter of a kilobyte (16 MiB).
pub(super) const CAPACITY: usize = 1 << 16;

/// Maximum number of queued queries.
const MAX_QUERIES: usize = 32;

/// Kinds of queued data, the least valuable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PendingKind {
    /// A raw failure.
    Failure,
    /// A roll-up.
    Rollup,
    /// A change of a verdict.
    Verdict,
    /// An incident.
    Incident,
}

impl PendingKind {
    pub(crate) const ALL: [Self; 4] = [Self::Failure, Self::Rollup, Self::Verdict, Self::Incident];

    /// The value of the metric's label.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Rollup => "rollup",
            Self::Verdict => "verdict",
            Self::Incident => "incident",
        }
    }

    const fn weight(self) -> usize {
        match self {
            Self::Failure => 2,
            Self::Rollup => 1,
            Self::Verdict | Self::Incident => 32,
        }
    }
}

/// Data that is written in one transaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WriteBatch {
    /// By id: a later state replaces an earlier one.
    pub(crate) incidents: BTreeMap<String, IncidentRow>,
    pub(crate) changes: VecDeque<VerdictRow>,
    /// Ordered by start, the oldest first.
    pub(crate) rollups: BTreeMap<RollupKey, ProbeRollup>,
    pub(crate) failures: VecDeque<Recorded>,
    /// Ends of incidents of the previous process, by id. Added by the worker, never queued.
    pub(crate) ends: Vec<(String, IncidentEnd)>,
}

impl WriteBatch {
    fn weight(&self) -> usize {
        PendingKind::ALL
            .iter()
            .map(|kind| self.count(*kind) * kind.weight())
            .sum()
    }

    pub(crate) fn count(&self, kind: PendingKind) -> usize {
        match kind {
            PendingKind::Failure => self.failures.len(),
            PendingKind::Rollup => self.rollups.len(),
            PendingKind::Verdict => self.changes.len(),
            PendingKind::Incident => self.incidents.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty() && PendingKind::ALL.iter().all(|kind| self.count(*kind) == 0)
    }

    fn drop_least_valuable(&mut self) -> Option<PendingKind> {
        let kind = *PendingKind::ALL.iter().find(|kind| self.count(**kind) > 0)?;
        match kind {
            PendingKind::Failure => drop(self.failures.pop_front()),
            PendingKind::Rollup => drop(self.rollups.pop_first()),
            PendingKind::Verdict => drop(self.changes.pop_front()),
            PendingKind::Incident => {
                let oldest = self.incidents.iter().min_by_key(|(_, row)| row.seen_at);
                let oldest = oldest.map(|(id, _)| id.clone())?;
                self.incidents.remove(&oldest);
            }
        }
        Some(kind)
    }

    /// Takes at most `most` roll-ups and failures, and everything else, so that transactions stay short.
    pub(super) fn split_off(&mut self, most: usize) -> Self {
        let mut portion = Self {
            incidents: std::mem::take(&mut self.incidents),
            changes: std::mem::take(&mut self.changes),
            ends: std::mem::take(&mut self.ends),
            ..Self::default()
        };
        while portion.rollups.len() < most
            && let Some((key, rollup)) = self.rollups.pop_first()
        {
            portion.rollups.insert(key, rollup);
        }
        let left = most
            .saturating_sub(portion.rollups.len())
            .min(self.failures.len());
        portion.failures = self.failures.drain(..left).collect();
        portion
    }

    /// Merges an older batch before this one.
    fn merge_older(&mut self, older: Self) {
        for (id, row) in older.incidents {
            self.incidents.entry(id).or_insert(row);
        }
        for (key, rollup) in older.rollups {
            self.rollups.entry(key).or_default().merge(&rollup);
        }
        let newer = std::mem::replace(&mut self.changes, older.changes);
        self.changes.extend(newer);
        let newer = std::mem::replace(&mut self.failures, older.failures);
        self.failures.extend(newer);
    }
}

/// A query. Returns the error that it met, if any.
pub(super) type StoreQuery = Box<dyn FnOnce(&mut dyn HistoryStore) -> Option<StoreError> + Send>;

/// Work for the worker.
#[derive(Default)]
pub(super) struct StoreWork {
    pub(super) batch: WriteBatch,
    pub(super) queries: Vec<StoreQuery>,
    /// The queue is closed; this is the last work.
    pub(super) closed: bool,
}

#[derive(Default)]
struct WriteQueueState {
    batch: WriteBatch,
    queries: Vec<StoreQuery>,
    closed: bool,
}

/// The queue between the engine task and the worker.
pub(crate) struct WriteQueue {
    inner: Mutex<WriteQueueState>,
    ready: Condvar,
    capacity: usize,
    metrics: StoreMetrics,
}

impl fmt::Debug for WriteQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteQueue")
            .field("room", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl WriteQueue {
    pub(super) fn new(capacity: usize, metrics: StoreMetrics) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            ready: Condvar::new(),
            capacity,
            metrics,
        })
    }

    fn lock(&self) -> MutexGuard<'_, WriteQueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the batch, and drops the least valuable data beyond the capacity.
    fn update(&self, add: impl FnOnce(&mut WriteBatch)) {
        let mut inner = self.lock();
        add(&mut inner.batch);
        self.drop_excess(&mut inner.batch);
    }

    fn drop_excess(&self, batch: &mut WriteBatch) {
        let mut over = batch.weight().saturating_sub(self.capacity);
        while over > 0
            && let Some(kind) = batch.drop_least_valuable()
        {
            over = over.saturating_sub(kind.weight());
            self.metrics.add_dropped(kind, 1);
        }
    }

    pub(super) fn push_incident(&self, row: IncidentRow) {
        self.update(|batch| drop(batch.incidents.insert(row.incident.id.clone(), row)));
        // An incident is written at once; other data once a second.
        self.ready.notify_one();
    }

    pub(super) fn push_change(&self, row: VerdictRow) {
        self.update(|batch| batch.changes.push_back(row));
    }

    pub(super) fn push_rollups(&self, rollups: impl IntoIterator<Item = (RollupKey, ProbeRollup)>) {
        self.update(|batch| {
            for (key, rollup) in rollups {
                batch.rollups.entry(key).or_default().merge(&rollup);
            }
        });
    }

    pub(super) fn push_failure(&self, recorded: Recorded) {
        self.update(|batch| batch.failures.push_back(recorded));
    }

    /// Returns a batch that could not be written to the queue.
    pub(super) fn return_batch(&self, older: WriteBatch) {
        self.update(|batch| batch.merge_older(older));
    }

    /// Queues a query. Returns false if too many are queued.
    pub(super) fn push_query(&self, question: StoreQuery) -> bool {
        let mut inner = self.lock();
        let fits = !inner.closed && inner.queries.len() < MAX_QUERIES;
        if fits {
            inner.queries.push(question);
            self.ready.notify_one();
        }
        fits
    }

    /// Closes the queue.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
    }

    /// Waits for urgent work for at most `patience`, then takes everything. Queries are urgent, and incidents are
    /// while the store is writable.
    pub(super) fn wait_for_work(&self, patience: Duration, writable: bool) -> StoreWork {
        let idle = |inner: &mut WriteQueueState| {
            let incident = writable && !inner.batch.incidents.is_empty();
            !inner.closed && inner.queries.is_empty() && !incident
        };
        let (mut inner, _) = self
            .ready
            .wait_timeout_while(self.lock(), patience, idle)
            .unwrap_or_else(PoisonError::into_inner);
        StoreWork {
            batch: std::mem::take(&mut inner.batch),
            queries: std::mem::take(&mut inner.queries),
            closed: inner.closed,
        }
    }
}
