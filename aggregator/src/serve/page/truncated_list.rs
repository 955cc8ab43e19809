//! Lists cut to a maximum length, with the number of entries left out.

use super::wording;

/// Maximum number of entries shown; `GET /v1/state` returns all.
const MAX_ENTRIES: usize = 200;

/// The first entries of a list.
#[derive(Debug)]
pub(super) struct TruncatedList<T> {
    pub(super) entries: Vec<T>,
    /// `not shown: 4800 vantages`; empty if the list is complete.
    pub(super) omitted_note: String,
}

impl<T> TruncatedList<T> {
    /// `one` is the singular noun for an entry.
    pub(super) fn new(entries: impl Iterator<Item = T>, one: &str) -> Self {
        let mut entries = entries;
        let shown: Vec<T> = entries.by_ref().take(MAX_ENTRIES).collect();
        let more = match entries.count() {
            0 => String::new(),
            n => format!("not shown: {}", wording::format_count(n, one)),
        };
        Self {
            entries: shown,
            omitted_note: more,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
