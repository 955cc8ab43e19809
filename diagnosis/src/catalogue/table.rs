//! The contingency table as data: who asked how, how often that failed, and whether the named region predicts it.

use parallax_model::{Channel, Front, Placement};

use crate::regions::share::PathShare;

/// Whether the named region predicts failure of a row's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PredictedFailure {
    /// Every path of these probes crosses the region.
    Sure,
    /// Which path they took is not known, and some of those they may have taken cross it.
    Perhaps,
    /// No path of theirs crosses it.
    Outside,
}

impl From<PathShare> for PredictedFailure {
    fn from(share: PathShare) -> Self {
        if share.is_zero() {
            Self::Outside
        } else if share.is_sure() {
            Self::Sure
        } else {
            Self::Perhaps
        }
    }
}

/// Which cells a part of the table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TablePart {
    /// The subject's own, with its controls.
    Own,
    /// Those of another front of the same Service.
    Sibling(Front),
    /// Those of all fronts and endpoints, beside a finding about nodes or names.
    Everywhere,
}

/// What makes a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    pub(crate) part: TablePart,
    pub(crate) channel: Channel,
    pub(crate) reach: PredictedFailure,
    pub(crate) placement: Option<Placement>,
    /// Whether they start at the node that the region is about; absent where it is about none, or that says nothing.
    pub(crate) from_member: Option<bool>,
    /// Whether they arrive at the node, endpoint or name that the region is about, where that is known.
    pub(crate) to_member: Option<bool>,
    /// Whether they stay within a node, in regions that are about that.
    pub(crate) within: Option<bool>,
}

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct TableRow {
    pub(crate) key: RowKey,
    pub(crate) probes: u64,
    pub(crate) failures: u64,
    pub(crate) kinds: Vec<(String, u64)>,
}

/// All rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContingencyTable {
    pub(crate) rows: Vec<TableRow>,
}

/// Probes and failures of some rows together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProbeSum {
    pub(crate) probes: u64,
    pub(crate) failures: u64,
}

impl ProbeSum {
    /// There are such probes, and every one of them failed.
    pub(crate) const fn all_fail(self) -> bool {
        self.probes > 0 && self.failures >= self.probes
    }

    /// There are such probes, and some of them failed.
    pub(crate) const fn some_fail(self) -> bool {
        self.failures > 0
    }

    /// There are such probes, and at most one in twenty of them failed.
    pub(crate) const fn pass(self) -> bool {
        self.probes > 0 && self.failures * 20 <= self.probes
    }
}

impl ContingencyTable {
    /// The sum of the rows that are meant.
    pub(crate) fn sum(&self, meant: impl Fn(&RowKey) -> bool) -> ProbeSum {
        let rows = self.rows.iter().filter(|row| meant(&row.key));
        rows.fold(ProbeSum::default(), |sum, row| ProbeSum {
            probes: sum.probes + row.probes,
            failures: sum.failures + row.failures,
        })
    }
}
