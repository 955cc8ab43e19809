//! How each watch fares.

use std::{collections::BTreeMap, fmt, time::Duration};

use parallax_model::{EventTime, Micros};

use super::resource::Resource;
use crate::watch::Trouble;

/// Why a list or a watch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
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

impl Reason {
    pub(crate) const ALL: [Self; 6] = [
        Self::Gone,
        Self::Forbidden,
        Self::Unavailable,
        Self::Connection,
        Self::Timeout,
        Self::Other,
    ];

    pub(crate) const fn label(self) -> &'static str {
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
pub(super) struct Failure {
    pub(super) reason: Reason,
    pub(super) message: String,
    /// How long nothing had been heard when it was noticed.
    pub(super) silent: Duration,
    /// How long the server asked us to wait.
    pub(super) retry_after: Option<Duration>,
}

/// The present state of one watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Condition {
    /// Not listed yet.
    #[default]
    Starting,
    /// Listed, and every change is told.
    Live,
    /// The API server does not know such objects.
    Absent,
    /// What is known is the last that could be read.
    Failing {
        message: String,
        /// When it was last known to be current.
        since: EventTime,
    },
}

/// One watch and its history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WatchState {
    pub(crate) condition: Condition,
    /// It was listed, or is not there, or may not be read: nothing more is to be waited for at the start.
    pub(super) settled: bool,
    /// Objects known.
    pub(crate) objects: usize,
    /// Changes told.
    pub(crate) events: u64,
    /// Complete lists read.
    pub(crate) lists: u64,
    /// Objects that could not be read.
    pub(crate) unreadable: u64,
    pub(crate) errors: BTreeMap<Reason, u64>,
}

impl WatchState {
    pub(super) fn live(&mut self) {
        self.condition = Condition::Live;
        self.settled = true;
    }

    pub(super) fn absent(&mut self) {
        self.condition = Condition::Absent;
        self.settled = true;
    }

    pub(super) fn failed(&mut self, failure: Failure, now: EventTime, start: EventTime) {
        *self.errors.entry(failure.reason).or_default() += 1;
        // To list anew is a matter of course; it is trouble once the list fails.
        if failure.reason == Reason::Gone {
            return;
        }
        self.settled |= failure.reason == Reason::Forbidden;
        let silent = Micros(u64::try_from(failure.silent.as_micros()).unwrap_or(u64::MAX));
        let since = match &self.condition {
            Condition::Failing { since, .. } => *since,
            Condition::Starting => start,
            Condition::Live | Condition::Absent => now.minus(silent),
        };
        self.condition = Condition::Failing {
            message: failure.message,
            since,
        };
    }
}

/// All watches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Watches(BTreeMap<Resource, WatchState>);

impl Watches {
    /// One state for each resource.
    pub(crate) fn starting() -> Self {
        Self(
            Resource::ALL
                .iter()
                .map(|r| (*r, WatchState::default()))
                .collect(),
        )
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Resource, &WatchState)> {
        self.0.iter().map(|(resource, state)| (*resource, state))
    }

    pub(super) fn of(&mut self, resource: Resource) -> &mut WatchState {
        self.0.entry(resource).or_default()
    }

    /// Every list has come, or will not come.
    pub(super) fn settled(&self) -> bool {
        self.0.values().all(|state| state.settled)
    }

    /// What is wrong with the watches together, and since when.
    pub(super) fn trouble(&self, start: EventTime) -> Option<Trouble> {
        let mut since: Option<EventTime> = None;
        let mut lines = Vec::new();
        let mut waiting = Vec::new();
        for (resource, state) in self.iter() {
            match &state.condition {
                Condition::Failing { message, since: when } => {
                    since = Some(since.map_or(*when, |earlier| earlier.min(*when)));
                    lines.push(format!("{resource}: {message}"));
                }
                Condition::Starting => waiting.push(resource.label()),
                Condition::Live | Condition::Absent => {}
            }
        }
        if !waiting.is_empty() {
            since = Some(start);
            lines.push(format!("not read yet: {}", waiting.join(", ")));
        }
        Some(Trouble {
            message: lines.join("\n"),
            since: since?,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
