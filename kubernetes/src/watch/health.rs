//! How each watch fares.

use std::{collections::BTreeMap, fmt, time::Duration};

use parallax_model::{EventTime, Micros};

use crate::{topology_state::SourceError, watch::WatchedResource};

/// Why a list or a watch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchFailureReason {
    /// 410: what was known is too old to go on from; listed anew.
    Gone,
    /// 401 or 403.
    Forbidden,
    /// 429 or 5xx.
    Unavailable,
    /// No connection, or one that broke.
    Connection,
    /// No answer, or a watch that fell silent.
    Timeout,
    /// Anything else, an answer that is not to be read above all.
    Other,
}

impl WatchFailureReason {
    /// All reasons, in the order of the metric's documentation.
    pub const ALL: [Self; 6] = [
        Self::Gone,
        Self::Forbidden,
        Self::Unavailable,
        Self::Connection,
        Self::Timeout,
        Self::Other,
    ];

    /// The value of the metric's label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Forbidden => "forbidden",
            Self::Unavailable => "unavailable",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Other => "other",
        }
    }
}

/// A list or a watch failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchFailure {
    pub(crate) reason: WatchFailureReason,
    pub(crate) message: String,
    /// How long nothing had been heard when it was noticed.
    pub(crate) silent: Duration,
    /// How long the server asked us to wait.
    pub(crate) retry_after: Option<Duration>,
}

/// The present state of one watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WatchCondition {
    /// Not listed yet.
    #[default]
    Starting,
    /// Listed, and every change is told.
    Live,
    /// The API server does not know such objects.
    Absent,
    /// What is known is the last that could be read.
    Failing {
        /// The class of the failure.
        reason: WatchFailureReason,
        /// The text of the last failure.
        message: String,
        /// When it was last known to be current.
        since: EventTime,
    },
}

/// One watch and its history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchState {
    /// What the watch does at present.
    pub condition: WatchCondition,
    /// It was listed, or is not there, or may not be read: nothing more is to be waited for at the start.
    pub settled: bool,
    /// Objects known.
    pub objects: usize,
    /// Changes told.
    pub events: u64,
    /// Complete lists read.
    pub lists: u64,
    /// Objects that could not be read.
    pub unreadable: u64,
    /// Failures so far, by reason.
    pub errors: BTreeMap<WatchFailureReason, u64>,
}

impl WatchState {
    /// The list is complete and the watch is open.
    pub fn live(&mut self) {
        self.condition = WatchCondition::Live;
        self.settled = true;
    }

    /// Takes in how another watch of the same kind fares.
    fn join(&mut self, other: &Self) {
        let rank = |state: &Self| match state.condition {
            WatchCondition::Absent => 0,
            WatchCondition::Live => 1,
            WatchCondition::Starting => 2,
            WatchCondition::Failing { .. } => 3,
        };
        if rank(other) > rank(self) {
            self.condition = other.condition.clone();
        }
        self.settled &= other.settled;
        self.objects += other.objects;
        self.events += other.events;
        self.lists += other.lists;
        self.unreadable += other.unreadable;
        for (reason, count) in &other.errors {
            *self.errors.entry(*reason).or_default() += count;
        }
    }

    /// The API server does not know the resource.
    pub fn absent(&mut self) {
        self.condition = WatchCondition::Absent;
        self.settled = true;
    }

    /// Counts a failure; `start` stands for the last success where there was none.
    pub fn failed(&mut self, failure: WatchFailure, now: EventTime, start: EventTime) {
        *self.errors.entry(failure.reason).or_default() += 1;
        // To list anew is a matter of course; it is trouble once the list fails.
        if failure.reason == WatchFailureReason::Gone {
            return;
        }
        self.settled |= failure.reason == WatchFailureReason::Forbidden;
        let silent = Micros(u64::try_from(failure.silent.as_micros()).unwrap_or(u64::MAX));
        let since = match &self.condition {
            WatchCondition::Failing { since, .. } => *since,
            WatchCondition::Starting => start,
            WatchCondition::Live | WatchCondition::Absent => now.minus(silent),
        };
        self.condition = WatchCondition::Failing {
            reason: failure.reason,
            message: failure.message,
            since,
        };
    }
}

/// All watches of one follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchHealth<S>(BTreeMap<S, WatchState>);

impl<S> Default for WatchHealth<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: WatchedResource> WatchHealth<S> {
    /// One state for each watch.
    pub fn starting(sources: impl IntoIterator<Item = S>) -> Self {
        let state = |source| (source, WatchState::default());
        Self(sources.into_iter().map(state).collect())
    }

    /// Each kind of object by its plural, however many watches read it: what of one is wrong is wrong of the kind.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<&'static str, WatchState> {
        let mut kinds: BTreeMap<&'static str, WatchState> = BTreeMap::new();
        for (source, state) in &self.0 {
            kinds
                .entry(source.plural())
                .and_modify(|known| known.join(state))
                .or_insert_with(|| state.clone());
        }
        kinds
    }

    /// How one of them fares.
    pub fn get(&self, source: &S) -> Option<&WatchState> {
        self.0.get(source)
    }

    /// The state of one watch.
    pub fn of(&mut self, source: &S) -> &mut WatchState {
        self.0.entry(source.clone()).or_default()
    }

    /// Every list has come, or will not come.
    #[must_use]
    pub fn settled(&self) -> bool {
        self.0.values().all(|state| state.settled)
    }

    /// What is wrong with the watches together, and since when.
    #[must_use]
    pub fn trouble(&self, start: EventTime) -> Option<SourceError> {
        let mut since: Option<EventTime> = None;
        let mut lines = Vec::new();
        let mut waiting = Vec::new();
        for (source, state) in &self.0 {
            match &state.condition {
                WatchCondition::Failing {
                    message, since: when, ..
                } => {
                    since = Some(since.map_or(*when, |earlier| earlier.min(*when)));
                    lines.push(format!("{source}: {message}"));
                }
                WatchCondition::Starting => waiting.push(source.to_string()),
                WatchCondition::Live | WatchCondition::Absent => {}
            }
        }
        if !waiting.is_empty() {
            since = Some(start);
            lines.push(format!("not read yet: {}", waiting.join(", ")));
        }
        Some(SourceError {
            message: lines.join("\n"),
            since: since?,
        })
    }
}

impl fmt::Display for WatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
