//! Pooled evidence: the contribution of other subjects to hypotheses that would affect them too.
//!
//! A local hypothesis leaves the other subjects independent: healthy, or with a local cause of their own. A global
//! hypothesis applies to them as well, so its score gains ln m(global) − ln Σ π(local)·m(local) for each other
//! subject. For a healthy subject the sum is almost equal to m(healthy).
//!
//! When a global region is already part of the explanation, a further one gains only what it explains in the other
//! subjects beyond the first, so the same failures are not counted twice.

use std::sync::Arc;

use super::{
    comparison_data::{ComparisonData, RegionShares},
    likelihood::{Likelihood, log_sum_exp},
    prior::{Hypothesis, P_FAULT},
};
use crate::regions::{Region, paths::SubjectPaths};

/// Probability that a shared cause which may spare a subject affects it.
const P_AFFECTED: f64 = 0.1;

/// Another subject, with its data from the same start round.
#[derive(Debug)]
pub(crate) struct OtherSubject {
    pub(crate) data: ComparisonData,
    pub(crate) paths: SubjectPaths,
    pub(crate) hypotheses: Vec<Hypothesis>,
}

/// The other subjects, and the predicate that selects regions common to all of them.
#[derive(Debug)]
pub(crate) struct SubjectPool {
    others: Vec<Arc<OtherSubject>>,
    is_shared: fn(Region) -> bool,
    is_local: fn(Region) -> bool,
}

impl Default for SubjectPool {
    fn default() -> Self {
        Self::new(Vec::new(), Region::is_global, |region| !region.is_global())
    }
}

/// Baseline of [`SubjectPool::ln_gain`]: per other subject, the shares of the given regions and the ln marginal
/// likelihood with only those regions shared.
#[derive(Debug)]
pub(crate) struct BaseRegions<'r> {
    regions: &'r [Region],
    per_subject: Vec<(RegionShares, f64)>,
}

impl OtherSubject {
    fn shares(&self, regions: &[Region]) -> RegionShares {
        let mut known: Vec<Region> = Vec::new();
        let mut shares = RegionShares::new();
        for region in regions {
            let own = self.data.shares(*region, &self.paths);
            shares = self.data.union((&shares, &known), (&own, *region), &self.paths);
            known.push(*region);
        }
        shares
    }

    fn union_shares(&self, given: &[Region], shares: &RegionShares, region: Region) -> RegionShares {
        let own = self.data.shares(region, &self.paths);
        self.data.union((shares, given), (&own, region), &self.paths)
    }
}

impl SubjectPool {
    /// `is_shared` selects the regions that may affect the other subjects too, `is_local` those that each may have of its
    /// own. The same broken Pod may be both.
    pub(crate) const fn new(
        others: Vec<Arc<OtherSubject>>,
        is_shared: fn(Region) -> bool,
        is_local: fn(Region) -> bool,
    ) -> Self {
        Self {
            others,
            is_shared,
            is_local,
        }
    }

    /// Reports whether the region would affect the other subjects too.
    pub(crate) fn shares(&self, region: Region) -> bool {
        (self.is_shared)(region)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Computes the baseline in which only the given regions are common to all subjects.
    pub(crate) fn baseline<'r>(&self, given: &'r [Region], l: &mut Likelihood) -> BaseRegions<'r> {
        let each = self
            .others
            .iter()
            .map(|other| {
                let shares = other.shares(given);
                let mut terms = vec![libm::log(1.0 - P_FAULT) + l.ln_marginal(&other.data.groups(&shares))];
                if other.data.failures() > 0 {
                    for hypothesis in other.hypotheses.iter().filter(|h| (self.is_local)(h.region)) {
                        let own = other.data.shares(hypothesis.region, &other.paths);
                        if other.data.has_failures(&own) {
                            let union = other.union_shares(given, &shares, hypothesis.region);
                            terms.push(hypothesis.ln_prior + l.ln_marginal(&other.data.groups(&union)));
                        }
                    }
                }
                (shares, log_sum_exp(&terms))
            })
            .collect();
        BaseRegions {
            regions: given,
            per_subject: each,
        }
    }

    /// Returns the ln Bayes factor that a shared region gains from the other subjects, relative to a baseline.
    pub(crate) fn ln_gain(&self, base: &BaseRegions<'_>, region: Region, l: &mut Likelihood) -> f64 {
        self.others
            .iter()
            .zip(&base.per_subject)
            .map(|(other, (shares, ln))| {
                let own = other.data.shares(region, &other.paths);
                let may_spare = !region.is_global() && (self.is_local)(region);
                if own.is_empty() && may_spare {
                    return 0.0;
                }
                let union = other
                    .data
                    .union((shares, base.regions), (&own, region), &other.paths);
                let gain = l.ln_marginal(&other.data.groups(&union)) - ln;
                if may_spare && !matches!(region, Region::Backend(_)) {
                    log_sum_exp(&[libm::log(P_AFFECTED) + gain, libm::log(1.0 - P_AFFECTED)])
                } else {
                    gain
                }
            })
            .sum()
    }
}
