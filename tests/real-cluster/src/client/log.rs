//! Results of the requests, kept in memory for the suite to fetch.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// Number of entries kept: an hour and a half with six destinations.
const MAX_ENTRIES: usize = 32_000;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Sequence number in the log, from 1.
    pub seq: u64,
    /// Its start, in milliseconds since 1970 by the client's clock.
    pub at: u64,
    /// Name of the destination.
    pub to: String,
    /// Duration in milliseconds.
    pub ms: u64,
    /// The error; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A part of the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Page {
    /// Id of the process: another process has its own sequence numbers.
    pub process: u64,
    /// The client's clock, in milliseconds since 1970.
    pub now: u64,
    /// Entries after the requested sequence number.
    pub entries: Vec<Entry>,
}

/// The log of one process.
#[derive(Debug)]
pub(super) struct Log {
    process: u64,
    entries: Mutex<(u64, VecDeque<Entry>)>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            process: unix_ms(),
            entries: Mutex::default(),
        }
    }

    pub(super) fn push(&self, at: u64, to: &str, ms: u64, answer: Result<(), String>) {
        let mut state = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (seq, entries) = &mut *state;
        *seq += 1;
        entries.push_back(Entry {
            seq: *seq,
            at,
            to: to.to_owned(),
            ms,
            error: answer.err(),
        });
        if entries.len() > MAX_ENTRIES {
            entries.pop_front();
        }
    }

    pub(super) fn page(&self, after: u64) -> Page {
        let state = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        Page {
            process: self.process,
            now: unix_ms(),
            entries: state
                .1
                .iter()
                .filter(|entry| entry.seq > after)
                .cloned()
                .collect(),
        }
    }
}

/// Returns the wall clock in milliseconds.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_came_after_a_number_and_the_log_is_bounded() {
        let log = Log::new();
        for _ in 0..MAX_ENTRIES + 5 {
            log.push(1, "host", 2, Ok(()));
        }
        log.push(3, "host", 4, Err("refused".to_owned()));
        let last = u64::try_from(MAX_ENTRIES).unwrap() + 6;
        let page = log.page(last - 1);
        assert_eq!(page.entries.len(), 1);
        assert_eq!(page.entries[0].error.as_deref(), Some("refused"));
        assert_eq!(log.page(0).entries.len(), MAX_ENTRIES);
    }
}
