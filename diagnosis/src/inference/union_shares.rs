//! The counts under a set of fixed regions and one more, from those under the fixed regions alone: most regions affect a few
//! of thousands of cells.

use std::collections::BTreeMap;

use super::{
    comparison_data::{ComparisonData, RegionShares},
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
    cell: usize,
    /// `None` if the fixed regions do not affect the cell.
    fixed: Option<PathShare>,
    added: PathShare,
    union: PathShare,
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
                added: share_of(shares, cell).unwrap_or(PathShare::ZERO),
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
    ///
    /// As in [`ComparisonData::groups`], an affected cell whose share is zero counts in no group: policy Local may leave a client
    /// no path through a region.
    pub(super) fn groups(&self, data: &ComparisonData, union: &[UnionCell]) -> ShareGroups {
        let counted = |share: &PathShare| !share.is_zero();
        let moves = union.iter().map(|cell| {
            let from = cell
                .fixed
                .map_or(Some(PathShare::ZERO), |share| Some(share).filter(counted));
            (cell, from, Some(cell.union).filter(counted))
        });
        move_counts(self.groups.clone(), PathShare::ZERO, data, moves)
    }

    /// Sums failures and successes by the shares of the fixed regions, of the other region and of their union.
    pub(super) fn pair_groups(&self, data: &ComparisonData, union: &[UnionCell]) -> PairGroups {
        let alone = |fixed: PathShare| [fixed, PathShare::ZERO, fixed];
        let groups = self.groups.iter();
        let groups = groups.map(|(share, counts)| (alone(*share), *counts)).collect();
        let moves = union.iter().map(|cell| {
            let fixed = cell.fixed.unwrap_or(PathShare::ZERO);
            (cell, Some(alone(fixed)), Some([fixed, cell.added, cell.union]))
        });
        move_counts(groups, alone(PathShare::ZERO), data, moves)
    }
}

fn share_of(shares: &[(usize, PathShare)], cell: usize) -> Option<PathShare> {
    let found = shares.binary_search_by_key(&cell, |(i, _)| *i);
    found.ok().map(|at| shares[at].1)
}

/// Moves the counts of cells, each from one group to another, if there is one. Empty groups are dropped, except that of the
/// unaffected cells.
fn move_counts<'a, K: Ord + Copy>(
    mut groups: BTreeMap<K, (u64, u64)>,
    unaffected: K,
    data: &ComparisonData,
    moves: impl Iterator<Item = (&'a UnionCell, Option<K>, Option<K>)>,
) -> BTreeMap<K, (u64, u64)> {
    for (cell, from, to) in moves {
        let (failures, successes) = data.counts(cell.cell);
        if let Some(sum) = from.and_then(|from| groups.get_mut(&from)) {
            sum.0 -= failures;
            sum.1 -= successes;
        }
        if let Some(to) = to {
            let sum = groups.entry(to).or_default();
            sum.0 += failures;
            sum.1 += successes;
        }
    }
    groups.retain(|key, counts| *key == unaffected || *counts != (0, 0));
    groups
}
