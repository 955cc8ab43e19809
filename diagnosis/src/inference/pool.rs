//! What the other subjects say of causes that would concern them too.
//!
//! A local cause here says that the others go their own way: healthy, or with a local cause of their own. A global cause
//! says that it rules there too. So its score gains ln m(global) − ln Σ π(local)·m(local) of each other subject; where
//! that subject is healthy, the sum is all but equal to m(healthy).
//!
//! Beside a global cause that is established already, a further one gains only what it explains in the others beyond
//! the first: the same failures are not paid for twice.

use std::sync::Arc;

use super::{
    data::{ComparisonData, RegionShares},
    likelihood::{Likelihood, lse},
    prior::{Hypothesis, P_FAULT},
};
use crate::regions::{Region, paths::SubjectPaths};

/// Another subject, since the same round.
#[derive(Debug)]
pub(crate) struct OtherSubject {
    pub(crate) data: ComparisonData,
    pub(crate) scene: SubjectPaths,
    pub(crate) hypotheses: Vec<Hypothesis>,
}

/// All subjects that are asked, and the regions that would concern them too.
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

/// The given regions in each other subject: their shares, and ln of the probability of its counts with them alone.
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

    /// Whether a region here would be one of the others too.
    pub(crate) fn shares(&self, region: Region) -> bool {
        (self.shared)(region)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// What the others are held against where only the given regions rule everywhere.
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

    /// What a region that would rule everywhere gains from the others beside a base.
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
