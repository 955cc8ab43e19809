//! The cells of a subject in a window, in parts: a part begins where a known cause began, where it was over, and where a further
//! fault may have begun.

use std::collections::BTreeMap;

use parallax_model::Round;

use crate::{
    evidence::cells::{CellKey, RoundCells},
    regions::Region,
};

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

/// When causes are there within a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct CausePeriods {
    pub(crate) known: KnownSpans,
    /// The first round of a fault beside the known causes; `None` if that is the first of the window.
    pub(crate) onset: Option<Round>,
}

impl CausePeriods {
    /// Creates periods of known causes, with the window's begin as the onset of a further fault.
    pub(crate) const fn of_known(known: KnownSpans) -> Self {
        Self { known, onset: None }
    }

    /// Reports whether a region may have caused failures in a round.
    pub(crate) fn is_present(&self, region: Region, round: Round) -> bool {
        match self.known.get(&region) {
            Some(span) => span.contains(round),
            None => self.onset.is_none_or(|onset| onset <= round),
        }
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
    periods: CausePeriods,
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

    /// Returns the cells that a predicate selects.
    pub(crate) fn selected(&self, of: impl Fn(&CellKey) -> bool) -> Self {
        let mut selected = self.clone();
        selected.all.retain(|key, _| of(key));
        for (_, cells) in &mut selected.parts {
            cells.retain(|key, _| of(key));
        }
        selected
    }

    /// Divides a window where causes began and were over. `sum` adds the cells of the rounds from the first up to and
    /// without the second.
    pub(crate) fn divided(
        start: Round,
        periods: &CausePeriods,
        mut sum: impl FnMut(Round, Option<Round>, &mut RoundCells),
    ) -> Self {
        let after = |last: Round| Round(last.0 + 1);
        let spans = periods.known.values();
        let bounds = spans
            .flat_map(|span| [Some(span.first), span.last.map(after)])
            .chain([periods.onset])
            .flatten();
        let mut begins: Vec<Round> = bounds.filter(|begin| *begin > start).collect();
        begins.push(start);
        begins.sort_unstable();
        begins.dedup();
        let periods = periods.clone();
        let mut all = RoundCells::new();
        if begins.len() == 1 {
            sum(start, None, &mut all);
            return Self {
                all,
                start,
                parts: Vec::new(),
                periods,
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
            periods,
        }
    }

    pub(crate) const fn periods(&self) -> &CausePeriods {
        &self.periods
    }

    /// Iterates over the parts, each with its first round.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Round, &RoundCells)> {
        let whole = self.parts.is_empty().then_some((self.start, &self.all));
        whole
            .into_iter()
            .chain(self.parts.iter().map(|(begin, cells)| (*begin, cells)))
    }
}
