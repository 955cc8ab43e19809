//! Lists cut to a maximum length, with the number of entries left out.

use super::wording;

/// Maximum number of entries shown; `GET /v1/state` returns all.
const MOST: usize = 200;

/// The first entries of a list.
#[derive(Debug)]
pub(super) struct TruncatedList<T> {
    pub(super) shown: Vec<T>,
    /// `not shown: 4800 vantages`; empty if the list is complete.
    pub(super) more: String,
}

impl<T> TruncatedList<T> {
    /// `one` is the singular noun for an entry.
    pub(super) fn of(entries: impl Iterator<Item = T>, one: &str) -> Self {
        let mut entries = entries;
        let shown: Vec<T> = entries.by_ref().take(MOST).collect();
        let more = match entries.count() {
            0 => String::new(),
            n => format!("not shown: {}", wording::count(n, one)),
        };
        Self { shown, more }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}
