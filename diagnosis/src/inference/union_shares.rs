//! The counts under a set of fixed regions and one more, from those under the fixed regions alone: most regions affect a few
//! of thousands of cells.

use std::collections::BTreeMap;

use super::{
    comparison_data::{ComparisonData, RegionShares, move_counts},
    likelihood::{PairGroups, ShareGroups},
};
use crate::regions::{Region, paths::SubjectPaths, share::PathShare};

/// The shares of fixed regions, with the counts of all cells by them.
#[derive(Debug, Default)]
pub(super) struct FixedShares {
    pub(super) regions: Vec<Region>,
    pub(super) shares: RegionShares,
    groups: ShareGroups,
}

/// A cell whose share differs under the union of the fixed regions and another region.
#[derive(Debug)]
pub(super) struct UnionCell {
    pub(super) cell: usize,
    pub(super) fixed: PathShare,
    pub(super) added: PathShare,
    pub(super) union: PathShare,
}

impl FixedShares {
    /// Counts the cells of a comparison by the shares of regions.
    pub(super) fn new(data: &ComparisonData, regions: Vec<Region>, shares: RegionShares) -> Self {
        Self {
            groups: data.groups(&shares),
            regions,
            shares,
        }
    }

    /// Returns the cells that another region affects, with the shares of the union.
    pub(super) fn with(
        &self,
        data: &ComparisonData,
        (shares, region): (&RegionShares, Region),
        paths: &SubjectPaths,
    ) -> Vec<UnionCell> {
        let fixed = (&self.shares, self.regions.as_slice());
        if paths.enforces_local && (region == Region::NoLocal || self.regions.contains(&Region::NoLocal)) {
            // With policy Local in the explanation, the shares of all other cells change too.
            let union = data.union(fixed, (shares, region), paths);
            let cells = union.into_iter().map(|(cell, union)| UnionCell {
                cell,
                fixed: share_of(&self.shares, cell),
                added: share_of(shares, cell),
                union,
            });
            return cells.collect();
        }
        let overlap: RegionShares = shares
            .iter()
            .filter_map(|(cell, _)| {
                let at = self.shares.binary_search_by_key(cell, |(i, _)| *i).ok()?;
                Some(self.shares[at])
            })
            .collect();
        let union = data.union((&overlap, fixed.1), (shares, region), paths);
        let cells = union.into_iter().zip(shares);
        cells
            .map(|((cell, union), (_, added))| UnionCell {
                cell,
                fixed: share_of(&overlap, cell),
                added: *added,
                union,
            })
            .collect()
    }

    /// Sums failures and successes by the share of the union; unaffected cells have share zero.
    pub(super) fn groups(&self, data: &ComparisonData, union: &[UnionCell]) -> ShareGroups {
        let mut groups = self.groups.clone();
        for cell in union {
            move_counts(&mut groups, data.counts(cell.cell), (cell.fixed, cell.union));
        }
        without_empty(groups, &PathShare::ZERO)
    }

    /// Sums failures and successes by the shares of the fixed regions, of the other region and of their union.
    pub(super) fn pair_groups(&self, data: &ComparisonData, union: &[UnionCell]) -> PairGroups {
        let alone = |fixed: PathShare| [fixed, PathShare::ZERO, fixed];
        let groups = self.groups.iter();
        let mut groups = groups.map(|(share, counts)| (alone(*share), *counts)).collect();
        for cell in union {
            let shares = [cell.fixed, cell.added, cell.union];
            move_counts(&mut groups, data.counts(cell.cell), (alone(cell.fixed), shares));
        }
        without_empty(groups, &alone(PathShare::ZERO))
    }
}

/// Returns the share of a cell, zero if none of the regions affects it.
fn share_of(shares: &[(usize, PathShare)], cell: usize) -> PathShare {
    let found = shares.binary_search_by_key(&cell, |(i, _)| *i);
    found.map_or(PathShare::ZERO, |at| shares[at].1)
}

/// Drops empty groups, except that of the unaffected cells.
fn without_empty<K: Ord>(mut groups: BTreeMap<K, (u64, u64)>, unaffected: &K) -> BTreeMap<K, (u64, u64)> {
    groups.retain(|key, counts| key == unaffected || *counts != (0, 0));
    groups
}
