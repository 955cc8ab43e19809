//! Separate failure rates of two fixed regions, and of a further one beside them.
//!
//! A cable that is cut fails everything, and a lossy path one connection in three: with one common rate, the second of two known
//! causes would explain nothing, and what it leaves would look like a further fault.

use super::{Comparison, FixedRegions};
use crate::{
    inference::{
        comparison_data::{RegionShares, move_counts},
        likelihood::{Likelihood, PairGroups, log_sum_exp},
        union_shares::{FixedShares, UnionCell},
    },
    regions::Region,
};

/// Two fixed regions, each with the cells that it affects.
#[derive(Debug)]
pub(super) struct TwoFixed {
    first: FixedShares,
    second: FixedShares,
    /// Counts by the shares of the first, of the second, and of their union.
    groups: PairGroups,
}

impl TwoFixed {
    /// Returns `None` if another number of regions is fixed, or all have one rate.
    pub(super) fn new(comparison: &Comparison<'_>, fixed: &FixedRegions) -> Option<Self> {
        let [first, second] = fixed.regions() else {
            return None;
        };
        // With policy Local in the explanation, the shares of all cells change together.
        let is_coupled = comparison.paths.enforces_local && fixed.regions().contains(&Region::NoLocal);
        // How many questions a lookup asks is not known. With a rate of its own, every Pod of the resolver would fit as well as one
        // with the right number.
        let asks_pods = !comparison.paths.resolver_pods.is_empty();
        if !comparison.separate_rates || is_coupled || asks_pods {
            return None;
        }
        let [first, second] = [first, second].map(|region| comparison.fixed_regions(&[*region]).of_cells);
        let union = first.with(
            comparison.data,
            (&second.shares, second.regions[0]),
            comparison.paths,
        );
        Some(Self {
            groups: first.pair_groups(comparison.data, &union),
            first,
            second,
        })
    }

    /// Returns the ln marginal likelihood of the two, given that of a common rate: equal prior odds of both.
    pub(super) fn ln_marginal_alone(&self, ln_common: f64, likelihood: &mut Likelihood) -> f64 {
        mean(&[ln_common, likelihood.ln_marginal_pair(&self.groups)])
    }

    /// Returns the ln marginal likelihood with a further region, given that of a common rate and the union's cells: all three have
    /// one rate, or one of them has a rate of its own, with equal prior odds.
    pub(super) fn ln_marginal(
        &self,
        comparison: &Comparison<'_>,
        further: (&RegionShares, Region),
        (ln_common, fixed, union): (f64, &FixedRegions, &[UnionCell]),
        likelihood: &mut Likelihood,
    ) -> f64 {
        let (data, paths) = (comparison.data, comparison.paths);
        if paths.enforces_local && further.1 == Region::NoLocal {
            return ln_common;
        }
        let beside_first = self.first.with(data, further, paths);
        let beside_second = self.second.with(data, further, paths);
        let mut second_apart = self.groups.clone();
        let groups = self.groups.iter();
        let mut first_apart: PairGroups = groups
            .map(|([first, second, both], counts)| ([*second, *first, *both], *counts))
            .collect();
        for ((all, first), second) in union.iter().zip(&beside_first).zip(&beside_second) {
            let counts = data.counts(all.cell);
            let (a, b) = (first.fixed, second.fixed);
            move_counts(
                &mut second_apart,
                counts,
                ([a, b, all.fixed], [first.union, b, all.union]),
            );
            move_counts(
                &mut first_apart,
                counts,
                ([b, a, all.fixed], [second.union, a, all.union]),
            );
        }
        let further_apart = fixed.of_cells.pair_groups(data, union);
        let apart = [second_apart, first_apart, further_apart];
        let [second, first, further] = apart.map(|groups| likelihood.ln_marginal_pair(&groups));
        mean(&[ln_common, second, first, further])
    }
}

/// Returns ln of the mean of likelihoods, given their ln.
fn mean(ln_likelihoods: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "at most four")]
    let count = ln_likelihoods.len() as f64;
    log_sum_exp(ln_likelihoods) - libm::log(count)
}
