//! Goodness of fit: the best explanation against the saturated model.

use super::{comparison_data::ComparisonData, sequential_tests::ln_marginal_independent_cell};
use crate::evidence::{
    cells::{CellKey, Destination, is_through_front},
    weights::to_probes,
};
use std::collections::BTreeMap;

/// Lack of fit, in nats, above which no set of regions explains the cells.
pub(crate) const MAX_LACK_OF_FIT: f64 = 3.0;

/// Returns the number of cells and the ln marginal likelihood of the saturated model, in which every cell has its
/// own rate. Cells are collapsed so that the outcome does not select the cell: a success through a virtual address
/// identifies its endpoint, a failure does not.
pub(crate) fn ln_marginal_saturated(data: &ComparisonData) -> (usize, f64) {
    let mut collapsed: BTreeMap<CellKey, (u64, u64)> = BTreeMap::new();
    for cell in &data.cells {
        let mut key = cell.key;
        if is_through_front(key.channel) {
            key.dest = Destination::Unknown;
        }
        let sum = collapsed.entry(key).or_default();
        sum.0 += cell.failures;
        sum.1 += cell.probes;
    }
    let ln_m = collapsed
        .values()
        .map(|(f, n)| ln_marginal_independent_cell(to_probes(*f), to_probes(*n)))
        .sum();
    (collapsed.len(), ln_m)
}
