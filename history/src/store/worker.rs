//! The thread that holds the store: opens it, writes, answers, tidies, and tries again after trouble.

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

/// Longest time that what is no incident waits to be written.
const PERIOD: Duration = Duration::from_secs(1);

/// Roll-ups and failures in one transaction.
const PORTION: usize = 4_000;

/// First and longest wait before trouble is tried again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// How often what is too old is looked for.
const TIDY: Duration = Duration::from_mins(1);

/// Incidents on the page.
const HISTORY: usize = 100;

/// How long after the start an incident of a former life may still be found again, before its end counts as missed.
const ADOPTION: Micros = Micros::from_secs(600);

/// The owner of the store.
pub struct StoreWorker {
    opener: Box<dyn StoreOpener>,
    waiting: Arc<WriteQueue>,
    clock: Clock,
    metrics: StoreMetrics,
    state: watch::Sender<Arc<StoreState>>,
    store: Option<Box<dyn HistoryStore>>,
    /// Incidents that a former life left without an end; none until the store was opened once.
    former: Option<BTreeMap<String, IncidentSummary>>,
    trouble: Option<OngoingError>,
    retry_at: Instant,
    pause: Duration,
    tidy_at: Instant,
}

/// What is wrong, and since when.
struct OngoingError {
    since: EventTime,
    reason: String,
    /// It is over once something was written; otherwise once it could be opened.
    writing: bool,
}

impl fmt::Debug for StoreWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("place", &self.opener.place())
            .field("open", &self.store.is_some())
            .finish_non_exhaustive()
    }
}

impl StoreWorker {
    /// The three ends of a store: for the hub, for the thread, and for those who ask. Nothing is opened yet: a disk that
    /// does not answer must not hold up the start.
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

    /// Works until the hub is gone and everything is written. Blocks; runs on a thread of its own.
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

    /// One turn at a time: opens if that is due, then answers, writes and tidies.
    pub(super) fn turn(&mut self, now: Instant, work: StoreWork) {
        if self.store.is_none() && (now >= self.retry_at || work.last) {
            self.open(now);
        }
        for question in work.questions {
            // Without a store it is dropped, which is an answer too.
            if let Some(store) = &mut self.store
                && let Some(trouble) = question(store.as_mut())
                // One row that cannot be read is no reason to stop writing.
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

    /// Publishes that it works, and what the page shows of it.
    fn show(&mut self) -> Result<(), StoreError> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let bytes = store.bytes()?;
        let mut history = store.summaries(HISTORY)?;
        history.extend(self.former.iter().flat_map(|former| former.values().cloned()));
        let trouble = self.trouble.is_some();
        self.change(|state| {
            // What failed at writing is not well because it could be opened.
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
                        tracing::info!("the store takes what it is given again");
                        shown = false;
                    }
                }
                // Nobody knows what is wrong with it; offered again it would be again.
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

    /// What a former life left open and nothing like it was seen since: its end was missed.
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
            // They are found without an end again when it is opened again.
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
            // The next step comes after what has come in meanwhile.
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
        // Room may be made by removing what is old; nothing else helps a store while it is open.
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
            tracing::error!(%reason, "the store cannot be used; probing and judging go on without it, and it is tried again");
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

/// What becomes of incidents of a former life now that these are written: the same id goes on, and the same subject
/// and region under another id continues it.
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
