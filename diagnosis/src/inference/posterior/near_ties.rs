//! Classes of regions that are nearly as probable as the best one.

use std::collections::BTreeMap;

use super::{Comparison, Posterior, RegionClass};
use crate::evidence::weights::to_probes;

/// ln of a Bayes factor of 10.
const NEAR_TIE_LN_BAYES_FACTOR: f64 = 2.3;
const NEAR_TIE_ODDS: f64 = 10.0;
const NEAR_TIE_PROBES: f64 = 3.0;
/// Classes with less posterior mass are not reported as near ties, however few probes separate them.
const MIN_NEAR_TIE_MASS: f64 = 1e-3;

impl Comparison<'_> {
    /// Returns the classes nearly as good as `best`: a Bayes factor below 10, or fewer than 3 probes that could
    /// separate them.
    ///
    /// With `by_odds`, also the classes with posterior odds below 10. A rare cause that the evidence prefers by 20
    /// and a common one with a prior 20 times higher are equally probable, however well the evidence separates
    /// them.
    pub(crate) fn near_ties<'p>(
        &self,
        posterior: &'p Posterior,
        best: &RegionClass,
        by_odds: bool,
    ) -> Vec<&'p RegionClass> {
        let ln_m = |class: &RegionClass| {
            class
                .members
                .first()
                .map_or(f64::NEG_INFINITY, |i| posterior.scored[*i].ln_marginal)
        };
        posterior
            .classes
            .iter()
            .filter(|class| {
                !class.contains_healthy
                    && class.signature != best.signature
                    && class.mass >= MIN_NEAR_TIE_MASS
            })
            .filter(|class| {
                (ln_m(class) - ln_m(best)).abs() < NEAR_TIE_LN_BAYES_FACTOR
                    || (by_odds && best.mass < NEAR_TIE_ODDS * class.mass)
                    || self.disagreeing_probes(best, class) < NEAR_TIE_PROBES
            })
            .collect()
    }

    /// Returns the number of probes on which two classes disagree.
    fn disagreeing_probes(&self, a: &RegionClass, b: &RegionClass) -> f64 {
        let mut differ: BTreeMap<usize, i64> = BTreeMap::new();
        for (i, permille) in &a.signature {
            *differ.entry(*i).or_default() += i64::from(*permille);
        }
        for (i, permille) in &b.signature {
            *differ.entry(*i).or_default() -= i64::from(*permille);
        }
        differ
            .into_iter()
            .map(|(i, d)| {
                f64::from(u32::try_from(d.abs()).unwrap_or(1000)) / 1000.0
                    * to_probes(self.data.cells[i].probes)
            })
            .sum()
    }
}
