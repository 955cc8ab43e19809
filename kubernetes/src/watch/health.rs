//! Health of watches.

use std::{collections::BTreeMap, fmt, time::Duration};

use parallax_model::{EventTime, Micros};

use crate::{topology_state::SourceError, watch::WatchedResource};

/// Why a list or a watch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchFailureReason {
    /// 410: the known resource version is too old to resume from; a new list is needed.
    Gone,
    /// 401 or 403.
    Forbidden,
    /// 429 or 5xx.
    Unavailable,
    /// The connection failed or broke.
    Connection,
    /// No response in time, or a watch without events for too long.
    Timeout,
    /// Any other failure, typically an unreadable response.
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

/// A failed list or watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchFailure {
    pub(crate) reason: WatchFailureReason,
    pub(crate) message: String,
    /// Time without any response when the failure was detected.
    pub(crate) silent_for: Duration,
    /// Minimum delay that the server requested before a retry.
    pub(crate) retry_after: Option<Duration>,
}

/// The current condition of one watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WatchCondition {
    /// Not listed yet.
    #[default]
    Starting,
    /// Listed and watching.
    Live,
    /// The API server does not know the resource.
    Absent,
    /// The last list or watch failed; the known objects may be outdated.
    Failing {
        /// The class of the failure.
        reason: WatchFailureReason,
        /// The text of the last failure.
        message: String,
        /// When the objects were last known to be current.
        since: EventTime,
    },
}

/// Condition and counters of one watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchState {
    /// The current condition.
    pub condition: WatchCondition,
    /// Whether the watch has been listed, is absent or is forbidden, so that startup need not wait for it.
    pub settled: bool,
    /// Number of known objects.
    pub objects: usize,
    /// Changes received.
    pub events: u64,
    /// Complete lists received.
    pub lists: u64,
    /// Objects that could not be parsed.
    pub unreadable: u64,
    /// Failures by reason.
    pub errors: BTreeMap<WatchFailureReason, u64>,
}

impl WatchState {
    /// Records that the list is complete and the watch is open.
    pub fn set_live(&mut self) {
        self.condition = WatchCondition::Live;
        self.settled = true;
    }

    /// Merges the state of another watch of the same kind; the worse condition prevails.
    fn merge(&mut self, other: &Self) {
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

    /// Records that the API server does not know the resource.
    pub fn set_absent(&mut self) {
        self.condition = WatchCondition::Absent;
        self.settled = true;
    }

    /// Records a failure. `start` serves as the time of the last success if there was none.
    pub fn record_failure(&mut self, failure: WatchFailure, now: EventTime, start: EventTime) {
        *self.errors.entry(failure.reason).or_default() += 1;
        // A new list is routine; it becomes an error only if it fails too.
        if failure.reason == WatchFailureReason::Gone {
            return;
        }
        self.settled |= failure.reason == WatchFailureReason::Forbidden;
        let silent = Micros(u64::try_from(failure.silent_for.as_micros()).unwrap_or(u64::MAX));
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

/// The health of all watches of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchHealth<S>(BTreeMap<S, WatchState>);

impl<S> Default for WatchHealth<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: WatchedResource> WatchHealth<S> {
    /// Creates the initial state of each watch.
    pub fn new(sources: impl IntoIterator<Item = S>) -> Self {
        let state = |source| (source, WatchState::default());
        Self(sources.into_iter().map(state).collect())
    }

    /// States merged by the kind's plural, because several watches can cover one kind.
    #[must_use]
    pub fn by_kind(&self) -> BTreeMap<&'static str, WatchState> {
        let mut kinds: BTreeMap<&'static str, WatchState> = BTreeMap::new();
        for (source, state) in &self.0 {
            kinds
                .entry(source.plural())
                .and_modify(|known| known.merge(state))
                .or_insert_with(|| state.clone());
        }
        kinds
    }

    /// Returns the state of one watch, if it is known.
    pub fn get(&self, source: &S) -> Option<&WatchState> {
        self.0.get(source)
    }

    /// Returns the mutable state of one watch.
    pub fn state_mut(&mut self, source: &S) -> &mut WatchState {
        self.0.entry(source.clone()).or_default()
    }

    /// Whether startup need not wait for any watch.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.0.values().all(|state| state.settled)
    }

    /// The combined error of the watches, and since when it has persisted.
    #[must_use]
    pub fn error(&self, start: EventTime) -> Option<SourceError> {
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
            lines.push(format!("not listed yet: {}", waiting.join(", ")));
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
