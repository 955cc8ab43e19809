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
    write_queue::{PendingKind, ROOM, StoreWork, WriteBatch, WriteQueue},
};
use crate::store::StoreMetrics;

/// Longest time until data other than incidents is written.
const PERIOD: Duration = Duration::from_secs(1);

/// Maximum number of roll-ups and failures in one transaction.
const PORTION: usize = 4_000;

/// Shortest and longest delay before a retry.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Time between two searches for old data.
const TIDY: Duration = Duration::from_mins(1);

/// Number of ended incidents on the page.
const HISTORY: usize = 100;

/// How long after the start an interrupted incident may still be found again; after that it gets an end.
const ADOPTION: Micros = Micros::from_secs(600);

/// Owns the store.
pub struct StoreWorker {
    opener: Box<dyn StoreOpener>,
    waiting: Arc<WriteQueue>,
    clock: Clock,
    metrics: StoreMetrics,
    state: watch::Sender<Arc<StoreState>>,
    store: Option<Box<dyn HistoryStore>>,
    /// Incidents that the previous process left without an end; `None` until the store is open.
    former: Option<BTreeMap<String, IncidentSummary>>,
    trouble: Option<OngoingError>,
    retry_at: Instant,
    pause: Duration,
    tidy_at: Instant,
}

/// The current error and its first time.
struct OngoingError {
    since: EventTime,
    reason: String,
    /// A write failed: only a successful write ends the error. Otherwise opening the store does.
    writing: bool,
}

impl fmt::Debug for StoreWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWorker")
            .field("place", &self.opener.place())
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
        Self::with_room(opener, clock, metrics, ROOM)
    }

    pub(super) fn with_room(
        opener: Box<dyn StoreOpener>,
        clock: Clock,
        metrics: &StoreMetrics,
        room: usize,
    ) -> (HistoryWriter, Self, StoreHandle) {
        let waiting = WriteQueue::new(room, metrics.clone());
        let (state, state_out) = watch::channel(Arc::new(StoreState::opening(opener.place())));
        let now = Instant::now();
        let worker = Self {
            opener,
            waiting: Arc::clone(&waiting),
            clock,
            metrics: metrics.clone(),
            state,
            store: None,
            former: None,
            trouble: None,
            retry_at: now,
            pause: RETRY.0,
            tidy_at: now,
        };
        let handle = StoreHandle {
            waiting: Some(Arc::clone(&waiting)),
            state: state_out,
        };
        (HistoryWriter::new(waiting, metrics.clone()), worker, handle)
    }

    /// Runs until the queue is closed and everything is written. Blocks; runs on its own thread.
    pub fn run(mut self) {
        self.turn(Instant::now(), StoreWork::default());
        loop {
            let work = self.waiting.take(PERIOD, self.store.is_some());
            let last = work.last;
            self.turn(Instant::now(), work);
            if last {
                return;
            }
        }
    }

    /// One turn: opens the store if that is due, then answers queries, writes and deletes old data.
    pub(super) fn turn(&mut self, now: Instant, work: StoreWork) {
        if self.store.is_none() && (now >= self.retry_at || work.last) {
            self.open(now);
        }
        for question in work.questions {
            // Without a store the query is dropped; the caller then gets the store's error.
            if let Some(store) = &mut self.store
                && let Some(trouble) = question(store.as_mut())
                // One unreadable row is no reason to stop writing.
                && trouble.sort != StoreErrorKind::Other
            {
                self.fail(now, trouble);
            }
        }
        self.write(now, work.batch);
        self.end_former(now);
        self.tidy(now);
        if work.last {
            let lost = self.waiting.take(Duration::ZERO, false).batch;
            self.count(&lost, StoreMetrics::dropped);
        }
    }

    fn open(&mut self, now: Instant) {
        match self.opener.open(self.clock.now()) {
            Ok((store, said)) => {
                self.store = Some(store);
                self.tidy_at = now;
                self.trouble.take_if(|trouble| !trouble.writing);
                for text in said {
                    tracing::warn!("{text}");
                    self.notice(text);
                }
                if let Err(trouble) = self.opened() {
                    self.fail(now, trouble);
                }
            }
            Err(trouble) => self.fail(now, trouble),
        }
    }

    fn opened(&mut self) -> Result<(), StoreError> {
        if let Some(store) = &mut self.store
            && self.former.is_none()
        {
            let unended = store.unended()?;
            self.former = Some(unended.into_iter().map(|one| (one.id.clone(), one)).collect());
        }
        self.show()?;
        let place = self.opener.place();
        tracing::info!(%place, "the store is open");
        Ok(())
    }

    /// Publishes the state, and the incidents for the page.
    fn show(&mut self) -> Result<(), StoreError> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let bytes = store.bytes()?;
        let mut history = store.summaries(HISTORY)?;
        history.extend(self.former.iter().flat_map(|former| former.values().cloned()));
        let trouble = self.trouble.is_some();
        self.change(|state| {
            // After a failed write, opening the store does not prove that it works.
            if !trouble {
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
                self.waiting.give_back(batch);
                return;
            };
            let mut portion = batch.portion(PORTION);
            portion.ends = self
                .former
                .as_mut()
                .map_or_else(Vec::new, |former| adopt(former, &portion));
            shown &= portion.incidents.is_empty() && portion.ends.is_empty();
            match store.write(&portion) {
                Ok(()) => {
                    self.count(&portion, StoreMetrics::written);
                    self.pause = RETRY.0;
                    if self.trouble.take().is_some() {
                        tracing::info!("the store accepts writes again");
                        shown = false;
                    }
                }
                // The cause is unknown; the same batch would fail again.
                Err(trouble) if trouble.sort == StoreErrorKind::Other => {
                    self.count(&portion, StoreMetrics::dropped);
                    self.waiting.give_back(batch);
                    self.fail(now, trouble);
                    return;
                }
                Err(trouble) => {
                    self.waiting.give_back(batch);
                    self.waiting.give_back(portion);
                    self.fail(now, trouble);
                    return;
                }
            }
        }
        if !shown && let Err(trouble) = self.show() {
            self.fail(now, trouble);
        }
    }

    /// Ends the incidents of the previous process that were not found again: their ends were not observed.
    fn end_former(&mut self, now: Instant) {
        if self.clock.now() - self.clock.start() < ADOPTION || self.store.is_none() {
            return;
        }
        let Some(former) = self.former.as_mut().map(std::mem::take) else {
            return;
        };
        let ends = former.into_values().map(|one| {
            let end = IncidentEnd {
                at: one.seen,
                how: IncidentEnding::Restart,
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
        if let Err(trouble) = store.write(batch) {
            // They are read again, without an end, when the store is reopened.
            self.former = None;
            self.fail(now, trouble);
        } else if let Err(trouble) = self.show() {
            self.fail(now, trouble);
        }
    }

    fn tidy(&mut self, now: Instant) {
        if now < self.tidy_at {
            return;
        }
        let Some(store) = &mut self.store else { return };
        match store.tidy(self.clock.now()) {
            // The next step runs after the work that has arrived in the meantime.
            Ok(true) => {}
            Ok(false) => {
                self.tidy_at = now + TIDY;
                if let Err(trouble) = self.show() {
                    self.fail(now, trouble);
                }
            }
            Err(trouble) => self.fail(now, trouble),
        }
    }

    fn fail(&mut self, now: Instant, trouble: StoreError) {
        // Deleting old data may make room; other errors require reopening the store.
        if trouble.sort == StoreErrorKind::Full
            && let Some(store) = &mut self.store
            && matches!(store.tidy(self.clock.now()), Ok(true))
        {
            self.tidy_at = now;
            return;
        }
        let opened = self.store.take().is_some();
        self.retry_at = now + self.pause;
        self.pause = (self.pause * 2).min(RETRY.1);
        let reason = trouble.message;
        let before = self.trouble.take();
        if before.as_ref().is_none_or(|before| before.reason != reason) {
            tracing::error!(%reason, "the store is unavailable; probing and judging continue without it, and it is retried");
        }
        let since = before
            .as_ref()
            .map_or_else(|| self.clock.now(), |before| before.since);
        self.trouble = Some(OngoingError {
            since,
            reason: reason.clone(),
            writing: opened || before.is_some_and(|before| before.writing),
        });
        self.change(|state| state.status = Status::Down { since, reason });
    }

    fn notice(&self, text: String) {
        let at = self.clock.now();
        self.change(|state| state.notice(at, text));
    }

    fn change(&self, change: impl FnOnce(&mut StoreState)) {
        self.state.send_modify(|state| change(Arc::make_mut(state)));
    }

    fn count(&self, batch: &WriteBatch, count: fn(&StoreMetrics, PendingKind, u64)) {
        for what in PendingKind::ALL {
            count(&self.metrics, what, batch.count(what) as u64);
        }
    }
}

/// Matches the incidents of the previous process with those in the batch: the same id goes on, and the same subject and
/// region under another id continues it.
fn adopt(former: &mut BTreeMap<String, IncidentSummary>, portion: &WriteBatch) -> Vec<(String, IncidentEnd)> {
    let mut ends = Vec::new();
    for (id, row) in &portion.incidents {
        former.remove(id);
        let new = IncidentSummary::of(&row.incident, row.seen);
        let again: Vec<String> = former
            .values()
            .filter(|old| old.resembles(&new))
            .map(|old| old.id.clone())
            .collect();
        ends.extend(again.into_iter().filter_map(|old| {
            let old = former.remove(&old)?;
            let end = IncidentEnd {
                at: old.seen,
                how: IncidentEnding::Continued { by: id.clone() },
            };
            Some((old.id, end))
        }));
    }
    ends
}
