//! The contingency table as data: probes and failures by channel and placement, and whether the named region predicts
//! them.

use parallax_model::{Channel, Front, Placement};

use crate::regions::share::PathShare;

/// Whether the named region predicts that a row's probes fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PredictedFailure {
    /// Every path of these probes crosses the region.
    Certain,
    /// The path of these probes is not known; some of the possible paths cross the region.
    Possible,
    /// No path of these probes crosses the region.
    Outside,
}

impl From<PathShare> for PredictedFailure {
    fn from(share: PathShare) -> Self {
        if share.is_zero() {
            Self::Outside
        } else if share.is_full() {
            Self::Certain
        } else {
            Self::Possible
        }
    }
}

/// The cells that a part of the table covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TablePart {
    /// The subject's own cells and its control probes.
    Own,
    /// Cells of another front of the same Service.
    Sibling(Front),
    /// Cells of all fronts and endpoints, for a finding about nodes or names.
    Everywhere,
}

/// The key of a table row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    pub(crate) part: TablePart,
    pub(crate) channel: Channel,
    pub(crate) prediction: PredictedFailure,
    pub(crate) placement: Option<Placement>,
    /// Whether the probes start on the region's node; absent if the region has none or it does not matter.
    pub(crate) from_member: Option<bool>,
    /// Whether the probes go to the region's node, endpoint or name, if known.
    pub(crate) to_member: Option<bool>,
    /// Whether the probes stay within a node, for regions that depend on it.
    pub(crate) within_node: Option<bool>,
}

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct TableRow {
    pub(crate) key: RowKey,
    pub(crate) probes: u64,
    pub(crate) failures: u64,
    pub(crate) kinds: Vec<(String, u64)>,
}

/// The whole table.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContingencyTable {
    pub(crate) rows: Vec<TableRow>,
}

/// Probes and failures summed over some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProbeSum {
    pub(crate) probes: u64,
    pub(crate) failures: u64,
}

impl ProbeSum {
    /// Reports whether there are such probes and all of them failed.
    pub(crate) const fn all_fail(self) -> bool {
        self.probes > 0 && self.failures >= self.probes
    }

    /// Reports whether there are such probes and some of them failed.
    pub(crate) const fn some_fail(self) -> bool {
        self.failures > 0
    }

    /// Reports whether there are such probes and at most one in twenty failed.
    pub(crate) const fn pass(self) -> bool {
        self.probes > 0 && self.failures * 20 <= self.probes
    }
}

impl ContingencyTable {
    /// Sums the rows that the predicate selects.
    pub(crate) fn sum(&self, meant: impl Fn(&RowKey) -> bool) -> ProbeSum {
        let rows = self.rows.iter().filter(|row| meant(&row.key));
        rows.fold(ProbeSum::default(), |sum, row| ProbeSum {
            probes: sum.probes + row.probes,
            failures: sum.failures + row.failures,
        })
    }
}
