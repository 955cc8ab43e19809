//! Goodness of fit: how much better every cell on its own would do than the best explanation.

use super::{data::ComparisonData, sequential::ln_saturated};
use crate::evidence::{
    cells::{CellKey, Destination, is_through_front},
    weights::probes,
};
use std::collections::BTreeMap;

/// Beyond this many nats no set of regions explains the cells.
pub(crate) const UNEXPLAINED: f64 = 3.0;

/// ln m of the model in which every cell has a rate of its own, and the number of its cells. Cells are collapsed so that
/// the outcome does not choose the cell: a success through a virtual address names its endpoint, a failure does not.
pub(crate) fn ln_m_saturated(data: &ComparisonData) -> (usize, f64) {
    let mut collapsed: BTreeMap<CellKey, (u64, u64)> = BTreeMap::new();
    for cell in &data.cells {
        let mut key = cell.key;
        if is_through_front(key.channel) {
            key.dest = Destination::Unknown;
        }
        let sum = collapsed.entry(key).or_default();
        sum.0 += cell.f;
        sum.1 += cell.n;
    }
    let ln_m = collapsed
        .values()
        .map(|(f, n)| ln_saturated(probes(*f), probes(*n)))
        .sum();
    (collapsed.len(), ln_m)
}
