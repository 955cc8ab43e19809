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
    data::{ComparisonData, RegionShares},
    likelihood::{Likelihood, lse},
    prior::{Hypothesis, P_FAULT},
};
use crate::regions::{Region, paths::SubjectPaths};

/// Another subject, with its data from the same start round.
#[derive(Debug)]
pub(crate) struct OtherSubject {
    pub(crate) data: ComparisonData,
    pub(crate) scene: SubjectPaths,
    pub(crate) hypotheses: Vec<Hypothesis>,
}

/// The other subjects, and the predicate that selects regions common to all of them.
#[derive(Debug)]
pub(crate) struct SubjectPool {
    others: Vec<Arc<OtherSubject>>,
    shared: fn(Region) -> bool,
}

impl Default for SubjectPool {
    fn default() -> Self {
        Self::new(Vec::new(), Region::is_global)
    }
}

/// Baseline of [`SubjectPool::gain`]: per other subject, the shares of the given regions and the ln marginal
/// likelihood with only those regions shared.
#[derive(Debug)]
pub(crate) struct BaseRegions<'r> {
    given: &'r [Region],
    each: Vec<(RegionShares, f64)>,
}

impl OtherSubject {
    fn shares(&self, regions: &[Region]) -> RegionShares {
        let mut known: Vec<Region> = Vec::new();
        let mut shares = RegionShares::new();
        for region in regions {
            let own = self.data.shares(*region, &self.scene);
            shares = self.data.union((&shares, &known), (&own, *region), &self.scene);
            known.push(*region);
        }
        shares
    }

    fn with(&self, given: &[Region], shares: &RegionShares, region: Region) -> RegionShares {
        let own = self.data.shares(region, &self.scene);
        self.data.union((shares, given), (&own, region), &self.scene)
    }
}

impl SubjectPool {
    pub(crate) const fn new(others: Vec<Arc<OtherSubject>>, shared: fn(Region) -> bool) -> Self {
        Self { others, shared }
    }

    /// Reports whether the region would affect the other subjects too.
    pub(crate) fn shares(&self, region: Region) -> bool {
        (self.shared)(region)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Computes the baseline in which only the given regions are common to all subjects.
    pub(crate) fn base<'r>(&self, given: &'r [Region], l: &mut Likelihood) -> BaseRegions<'r> {
        let each = self
            .others
            .iter()
            .map(|other| {
                let shares = other.shares(given);
                let mut terms = vec![libm::log(1.0 - P_FAULT) + l.ln_m(&other.data.groups(&shares))];
                if other.data.failures() > 0 {
                    for hypothesis in other.hypotheses.iter().filter(|h| !self.shares(h.region)) {
                        let own = other.data.shares(hypothesis.region, &other.scene);
                        if other.data.touches_failure(&own) {
                            let union = other.with(given, &shares, hypothesis.region);
                            terms.push(hypothesis.ln_prior + l.ln_m(&other.data.groups(&union)));
                        }
                    }
                }
                (shares, lse(&terms))
            })
            .collect();
        BaseRegions { given, each }
    }

    /// Returns the ln Bayes factor that a shared region gains from the other subjects, relative to a baseline.
    pub(crate) fn gain(&self, base: &BaseRegions<'_>, region: Region, l: &mut Likelihood) -> f64 {
        self.others
            .iter()
            .zip(&base.each)
            .map(|(other, (shares, ln))| {
                let union = other.with(base.given, shares, region);
                l.ln_m(&other.data.groups(&union)) - ln
            })
            .sum()
    }
}
