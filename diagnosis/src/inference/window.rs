//! The cells of a subject in a window, in parts: a part begins where a known cause began, and where it was over.

use std::collections::BTreeMap;

use parallax_model::Round;

use crate::{evidence::cells::RoundCells, regions::Region};

/// The rounds in which a known cause may explain failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KnownSpan {
    pub(crate) first: Round,
    /// The last round; `None` if the cause is not over.
    pub(crate) last: Option<Round>,
}

/// The known causes.
pub(crate) type KnownSpans = BTreeMap<Region, KnownSpan>;

impl KnownSpan {
    pub(crate) fn contains(self, round: Round) -> bool {
        self.first <= round && self.last.is_none_or(|last| round <= last)
    }
}

/// The cells of a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct WindowCells {
    /// All of them, summed over the window.
    pub(crate) all: RoundCells,
    start: Round,
    /// The parts with their first rounds; empty if the window has only one.
    parts: Vec<(Round, RoundCells)>,
    known: KnownSpans,
}

impl WindowCells {
    /// Creates a window in one part.
    #[cfg(test)]
    pub(crate) fn undivided(all: RoundCells) -> Self {
        Self {
            all,
            ..Self::default()
        }
    }

    /// Divides a window where known causes began and were over. `sum` adds the cells of the rounds from the first up to and
    /// without the second.
    pub(crate) fn divided(
        start: Round,
        known: &KnownSpans,
        mut sum: impl FnMut(Round, Option<Round>, &mut RoundCells),
    ) -> Self {
        let after = |last: Round| Round(last.0 + 1);
        let bounds = known
            .values()
            .flat_map(|span| [Some(span.first), span.last.map(after)])
            .flatten();
        let mut begins: Vec<Round> = bounds.filter(|begin| *begin > start).collect();
        begins.push(start);
        begins.sort_unstable();
        begins.dedup();
        let known = known.clone();
        let mut all = RoundCells::new();
        if begins.len() == 1 {
            sum(start, None, &mut all);
            return Self {
                all,
                start,
                parts: Vec::new(),
                known,
            };
        }
        let mut parts = Vec::new();
        for (i, begin) in begins.iter().enumerate() {
            let mut cells = RoundCells::new();
            sum(*begin, begins.get(i + 1).copied(), &mut cells);
            for (key, counts) in &cells {
                all.entry(*key).or_default().add(counts);
            }
            parts.push((*begin, cells));
        }
        Self {
            all,
            start,
            parts,
            known,
        }
    }

    pub(crate) const fn known(&self) -> &KnownSpans {
        &self.known
    }

    /// Iterates over the parts, each with its first round.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Round, &RoundCells)> {
        let whole = self.parts.is_empty().then_some((self.start, &self.all));
        whole
            .into_iter()
            .chain(self.parts.iter().map(|(begin, cells)| (*begin, cells)))
    }
}
