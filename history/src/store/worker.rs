//! The store's thread: opens it, writes, answers queries, deletes old data, and retries after errors.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parallax_model::{EventTime, Micros};
use parallax_runtime::Clock;
use tokio::sync::watch;

use super::{
    HistoryStore, HistoryWriter, StoreHandle, StoreOpener,
    error::{StoreError, StoreErrorKind},
    state::{Status, StoreState},
    stored::{IncidentEnd, IncidentEnding, IncidentSummary},
    write_queue::{CAPACITY, PendingKind, StoreWork, WriteBatch, WriteQueue},
};
use crate::store::StoreMetrics;

/// Longest time until data other than incidents is written.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of roll-ups and failures in one transaction.
const MAX_ROWS_PER_TRANSACTION: usize = 4_000;

/// Shortest and longest delay before a retry.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Time between two searches for old data.
const RETENTION_INTERVAL: Duration = Duration::from_mins(1);

/// Number of ended incidents on the page.
const MAX_LISTED_INCIDENTS: usize = 100;

/// How long after the start an interrupted incident may still be found again; after that it gets an end.
const ADOPTION_PERIOD: Micros = Micros::from_secs(600);

/// Owns the store.
pub struct StoreWorker {
    opener: Box<dyn StoreOpener>,
    queue: Arc<WriteQueue>,
    clock: Clock,
    metrics: StoreMetrics,
    state: watch::Sender<Arc<StoreState>>,
    store: Option<Box<dyn HistoryStore>>,
    /// Incidents that the previous process left without an end; `None` until the store is open.
    interrupted: Option<BTreeMap<String, IncidentSummary>>,
    error: Option<OngoingError>,
    retry_at: Instant,
    retry_delay: Duration,
    retention_at: Instant,
}

/// The current error and its first time.
struct OngoingError {
    since: EventTime,
    reason: String,
    /// A write failed: only a successful write ends the error. Otherwise opening the store does.
    write_failed: bool,
}

impl fmt::Debug for StoreWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWorker")
            .field("place", &self.opener.location())
            .field("open", &self.store.is_some())
            .finish_non_exhaustive()
    }
}

impl StoreWorker {
    /// Creates the ends of a store for the engine task, the thread and queries. Opens nothing yet: a disk that does not
    /// respond must not delay the start.
    #[must_use]
    pub fn new(
        opener: Box<dyn StoreOpener>,
        clock: Clock,
        metrics: &StoreMetrics,
    ) -> (HistoryWriter, Self, StoreHandle) {
        Self::with_capacity(opener, clock, metrics, CAPACITY)
    }

    pub(super) fn with_capacity(
        opener: Box<dyn StoreOpener>,
        clock: Clock,
        metrics: &StoreMetrics,
        capacity: usize,
    ) -> (HistoryWriter, Self, StoreHandle) {
        let waiting = WriteQueue::new(capacity, metrics.clone());
        let (state, state_out) = watch::channel(Arc::new(StoreState::opening(opener.location())));
        let now = Instant::now();
        let worker = Self {
            opener,
            queue: Arc::clone(&waiting),
            clock,
            metrics: metrics.clone(),
            state,
            store: None,
            interrupted: None,
            error: None,
            retry_at: now,
            retry_delay: RETRY_DELAY.0,
            retention_at: now,
        };
        let handle = StoreHandle {
            queue: Some(Arc::clone(&waiting)),
            state: state_out,
        };
        (HistoryWriter::new(waiting, metrics.clone()), worker, handle)
    }

    /// Runs until the queue is closed and everything is written. Blocks; runs on its own thread.
    pub fn run(mut self) {
        self.turn(Instant::now(), StoreWork::default());
        loop {
            let work = self.queue.wait_for_work(WRITE_INTERVAL, self.store.is_some());
            let last = work.closed;
            self.turn(Instant::now(), work);
            if last {
                return;
            }
        }
    }

    /// One turn: opens the store if that is due, then answers queries, writes and deletes old data.
    pub(super) fn turn(&mut self, now: Instant, work: StoreWork) {
        if self.store.is_none() && (now >= self.retry_at || work.closed) {
            self.open(now);
        }
        for question in work.queries {
            // Without a store the query is dropped; the caller then gets the store's error.
            if let Some(store) = &mut self.store
                && let Some(error) = question(store.as_mut())
                // One unreadable row is no reason to stop writing.
                && error.kind != StoreErrorKind::Other
            {
                self.close_after_error(now, error);
            }
        }
        self.write(now, work.batch);
        self.end_interrupted(now);
        self.prune(now);
        if work.closed {
            let lost = self.queue.wait_for_work(Duration::ZERO, false).batch;
            self.count_rows(&lost, StoreMetrics::add_dropped);
        }
    }

    fn open(&mut self, now: Instant) {
        match self.opener.open(self.clock.now()) {
            Ok((store, notices)) => {
                self.store = Some(store);
                self.retention_at = now;
                self.error.take_if(|error| !error.write_failed);
                for text in notices {
                    tracing::warn!("{text}");
                    self.add_notice(text);
                }
                if let Err(error) = self.load_state() {
                    self.close_after_error(now, error);
                }
            }
            Err(error) => self.close_after_error(now, error),
        }
    }

    fn load_state(&mut self) -> Result<(), StoreError> {
        if let Some(store) = &mut self.store
            && self.interrupted.is_none()
        {
            let unended = store.unended_incidents()?;
            self.interrupted = Some(unended.into_iter().map(|one| (one.id.clone(), one)).collect());
        }
        self.publish_state()?;
        let place = self.opener.location();
        tracing::info!(%place, "the store is open");
        Ok(())
    }

    /// Publishes the state, and the incidents for the page.
    fn publish_state(&mut self) -> Result<(), StoreError> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let bytes = store.size_bytes()?;
        let mut history = store.incident_summaries(MAX_LISTED_INCIDENTS)?;
        history.extend(
            self.interrupted
                .iter()
                .flat_map(|former| former.values().cloned()),
        );
        let has_error = self.error.is_some();
        self.update_state(|state| {
            // After a failed write, opening the store does not prove that it works.
            if !has_error {
                state.status = Status::Up;
            }
            state.bytes = bytes;
            state.history = Arc::new(history);
        });
        Ok(())
    }

    fn write(&mut self, now: Instant, mut batch: WriteBatch) {
        let mut shown = true;
        while !batch.is_empty() {
            let Some(store) = &mut self.store else {
                self.queue.return_batch(batch);
                return;
            };
            let mut portion = batch.split_off(MAX_ROWS_PER_TRANSACTION);
            portion.ends = self
                .interrupted
                .as_mut()
                .map_or_else(Vec::new, |former| match_interrupted(former, &portion));
            shown &= portion.incidents.is_empty() && portion.ends.is_empty();
            match store.write(&portion) {
                Ok(()) => {
                    self.count_rows(&portion, StoreMetrics::add_written);
                    self.retry_delay = RETRY_DELAY.0;
                    if self.error.take().is_some() {
                        tracing::info!("the store accepts writes again");
                        shown = false;
                    }
                }
                // The cause is unknown; the same batch would fail again.
                Err(error) if error.kind == StoreErrorKind::Other => {
                    self.count_rows(&portion, StoreMetrics::add_dropped);
                    self.queue.return_batch(batch);
                    self.close_after_error(now, error);
                    return;
                }
                Err(error) => {
                    self.queue.return_batch(batch);
                    self.queue.return_batch(portion);
                    self.close_after_error(now, error);
                    return;
                }
            }
        }
        if !shown && let Err(error) = self.publish_state() {
            self.close_after_error(now, error);
        }
    }

    /// Ends the incidents of the previous process that were not found again: their ends were not observed.
    fn end_interrupted(&mut self, now: Instant) {
        if self.clock.now() - self.clock.start() < ADOPTION_PERIOD || self.store.is_none() {
            return;
        }
        let Some(former) = self.interrupted.as_mut().map(std::mem::take) else {
            return;
        };
        let ends = former.into_values().map(|one| {
            let end = IncidentEnd {
                ended_at: one.seen,
                ending: IncidentEnding::Restart,
            };
            (one.id, end)
        });
        let batch = WriteBatch {
            ends: ends.collect(),
            ..WriteBatch::default()
        };
        if !batch.ends.is_empty() {
            self.write_ends(now, &batch);
        }
    }

    fn write_ends(&mut self, now: Instant, batch: &WriteBatch) {
        let Some(store) = &mut self.store else { return };
        if let Err(error) = store.write(batch) {
            // They are read again, without an end, when the store is reopened.
            self.interrupted = None;
            self.close_after_error(now, error);
        } else if let Err(error) = self.publish_state() {
            self.close_after_error(now, error);
        }
    }

    fn prune(&mut self, now: Instant) {
        if now < self.retention_at {
            return;
        }
        let Some(store) = &mut self.store else { return };
        match store.prune_step(self.clock.now()) {
            // The next step runs after the work that has arrived in the meantime.
            Ok(true) => {}
            Ok(false) => {
                self.retention_at = now + RETENTION_INTERVAL;
                if let Err(error) = self.publish_state() {
                    self.close_after_error(now, error);
                }
            }
            Err(error) => self.close_after_error(now, error),
        }
    }

    fn close_after_error(&mut self, now: Instant, error: StoreError) {
        // Deleting old data may make room; other errors require reopening the store.
        if error.kind == StoreErrorKind::Full
            && let Some(store) = &mut self.store
            && matches!(store.prune_step(self.clock.now()), Ok(true))
        {
            self.retention_at = now;
            return;
        }
        let opened = self.store.take().is_some();
        self.retry_at = now + self.retry_delay;
        self.retry_delay = (self.retry_delay * 2).min(RETRY_DELAY.1);
        let reason = error.message;
        let before = self.error.take();
        if before.as_ref().is_none_or(|before| before.reason != reason) {
            tracing::error!(%reason, "the store is unavailable; probing and judging continue without it, and it is retried");
        }
        let since = before
            .as_ref()
            .map_or_else(|| self.clock.now(), |before| before.since);
        self.error = Some(OngoingError {
            since,
            reason: reason.clone(),
            write_failed: opened || before.is_some_and(|before| before.write_failed),
        });
        self.update_state(|state| state.status = Status::Down { since, reason });
    }

    fn add_notice(&self, text: String) {
        let at = self.clock.now();
        self.update_state(|state| state.add_notice(at, text));
    }

    fn update_state(&self, change: impl FnOnce(&mut StoreState)) {
        self.state.send_modify(|state| change(Arc::make_mut(state)));
    }

    fn count_rows(&self, batch: &WriteBatch, count: fn(&StoreMetrics, PendingKind, u64)) {
        for kind in PendingKind::ALL {
            count(&self.metrics, kind, batch.count(kind) as u64);
        }
    }
}

/// Matches the incidents of the previous process with those in the batch: the same id goes on, and the same subject and
/// region under another id continues it.
fn match_interrupted(
    former: &mut BTreeMap<String, IncidentSummary>,
    portion: &WriteBatch,
) -> Vec<(String, IncidentEnd)> {
    let mut ends = Vec::new();
    for (id, row) in &portion.incidents {
        former.remove(id);
        let new = IncidentSummary::from_incident(&row.incident, row.seen_at);
        let again: Vec<String> = former
            .values()
            .filter(|old| old.resembles(&new))
            .map(|old| old.id.clone())
            .collect();
        ends.extend(again.into_iter().filter_map(|old| {
            let old = former.remove(&old)?;
            let end = IncidentEnd {
                ended_at: old.seen,
                ending: IncidentEnding::Continued { by: id.clone() },
            };
            Some((old.id, end))
        }));
    }
    ends
}
