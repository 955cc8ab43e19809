//! Lists that a large cluster makes long: the first of them, and how many there are besides.

use super::wording;

/// Entries shown; all of them are in `GET /v1/state`.
const MOST: usize = 200;

/// The first entries of a list.
#[derive(Debug)]
pub(super) struct TruncatedList<T> {
    pub(super) shown: Vec<T>,
    /// "and 4800 vantages more"; empty where nothing is left out.
    pub(super) more: String,
}

impl<T> TruncatedList<T> {
    /// `one` is what an entry is called.
    pub(super) fn of(entries: impl Iterator<Item = T>, one: &str) -> Self {
        let mut entries = entries;
        let shown: Vec<T> = entries.by_ref().take(MOST).collect();
        let more = match entries.count() {
            0 => String::new(),
            n => format!("and {} more", wording::count(n, one)),
        };
        Self { shown, more }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}
