//! The posterior over regions: classes that the evidence cannot separate, and explanations with several faults.

mod explanation_search;
mod known_causes;
mod near_ties;
mod scores;
mod separate_rates;

use std::collections::BTreeMap;

use super::{
    candidates::CandidateHypothesis,
    comparison_data::{ComparisonData, RegionShares},
    failure_kinds::KindAttribution,
    likelihood::{Likelihood, log_sum_exp},
    subject_pool::SubjectPool,
    union_shares::FixedShares,
};
use crate::regions::{Region, paths::SubjectPaths, share::PathShare};
pub(crate) use known_causes::MIN_KNOWN_GAIN;
use separate_rates::TwoFixed;

/// A region added to a fixed set of others, with the terms of its score.
#[derive(Debug, Clone)]
pub(crate) struct ScoredRegion {
    /// [`Region::Healthy`] means "no further fault".
    pub(crate) region: Region,
    pub(crate) ln_prior: f64,
    /// ln Bayes factor from the other subjects, in addition to the fixed regions.
    pub(crate) ln_pooled: f64,
    /// ln marginal likelihood of the union with the fixed regions.
    pub(crate) ln_marginal: f64,
    /// ln likelihood of the failure kinds.
    pub(crate) ln_kinds: f64,
    /// Posterior probability, given the fixed regions.
    pub(crate) probability: f64,
}

/// An equivalence class: regions with equal shares in every observed cell, which the evidence cannot separate.
#[derive(Debug, Clone)]
pub(crate) struct RegionClass {
    /// Indexes into [`Posterior::scored`] in descending order of score. Members differ only in prior and failure
    /// kinds.
    pub(crate) members: Vec<usize>,
    pub(crate) mass: f64,
    /// Whether the class contains "no further fault": the paths of its regions were not observed.
    pub(crate) contains_healthy: bool,
    signature: ShareSignature,
}

/// The observed cells with a share above zero, in thousandths. Regions with equal signatures cannot be separated.
type ShareSignature = Vec<(usize, u32)>;

impl ScoredRegion {
    pub(crate) fn score(&self) -> f64 {
        self.ln_prior_with_pool() + self.ln_marginal + self.ln_kinds
    }

    /// Returns the ln prior including the evidence of other subjects.
    pub(crate) fn ln_prior_with_pool(&self) -> f64 {
        self.ln_prior + self.ln_pooled
    }
}

/// The posterior over the next region, given a fixed set; with an empty set, the posterior over single regions.
#[derive(Debug, Clone)]
pub(crate) struct Posterior {
    pub(crate) scored: Vec<ScoredRegion>,
    /// In descending order of mass.
    pub(crate) classes: Vec<RegionClass>,
    /// Posterior probability of "no further fault".
    pub(crate) p_no_further_fault: f64,
}

impl Posterior {
    /// Returns the regions of a class.
    pub(crate) fn regions_of(&self, class: &RegionClass) -> Vec<Region> {
        class.members.iter().map(|i| self.scored[*i].region).collect()
    }

    /// Reports whether the evidence for the best regions of two classes is within a factor of 2, so that only their priors
    /// distinguish them.
    pub(crate) fn differ_in_prior_only(&self, a: &RegionClass, b: &RegionClass) -> bool {
        self.ln_evidence_ratio(a, b)
            .is_some_and(|ratio| ratio.abs() < core::f64::consts::LN_2)
    }

    /// Returns the classes of the regions that contain every endpoint, if `regions` are several tied endpoints, unless the
    /// evidence is at least 100 times likelier under `tied`.
    ///
    /// Evidence that does not separate the endpoints decides only between one that fails always and all that fail seldom, and
    /// nothing but the prior of the failure rate does that.
    pub(crate) fn classes_around_tied_endpoints(
        &self,
        tied: &RegionClass,
        regions: &[Region],
    ) -> Vec<&RegionClass> {
        let endpoints = regions
            .iter()
            .filter(|region| matches!(region, Region::Backend(_)));
        if endpoints.count() < 2 {
            return Vec::new();
        }
        let contains_endpoints = |class: &RegionClass| {
            let around = self.regions_of(class);
            !class.contains_healthy
                && !around.iter().any(|region| regions.contains(region))
                && around
                    .iter()
                    .any(|region| matches!(region, Region::Target | Region::DnsAll))
        };
        self.classes
            .iter()
            .filter(|class| contains_endpoints(class))
            .filter(|class| {
                self.ln_evidence_ratio(tied, class)
                    .is_some_and(|ratio| ratio < SEPARATION)
            })
            .collect()
    }

    /// Returns how much likelier the evidence is under the best region of one class than under that of another, in nats.
    fn ln_evidence_ratio(&self, a: &RegionClass, b: &RegionClass) -> Option<f64> {
        let evidence = |class: &RegionClass| {
            let best = &self.scored[*class.members.first()?];
            Some(best.score() - best.ln_prior)
        };
        Some(evidence(a)? - evidence(b)?)
    }

    /// Returns the posterior probability of "no further fault" without the failure kinds.
    pub(crate) fn p_no_further_fault_by_counts(&self) -> f64 {
        let plain = |s: &ScoredRegion| s.ln_prior_with_pool() + s.ln_marginal;
        let all: Vec<f64> = self.scored.iter().map(plain).collect();
        self.scored
            .first()
            .map_or(1.0, |none| libm::exp(plain(none) - log_sum_exp(&all)))
    }
}

/// A fixed set of regions with the cells they affect.
#[derive(Debug, Default)]
struct FixedRegions {
    of_cells: FixedShares,
    kinds: KindAttribution,
}

impl FixedRegions {
    fn regions(&self) -> &[Region] {
        &self.of_cells.regions
    }

    fn shares(&self) -> &RegionShares {
        &self.of_cells.shares
    }
}

/// One comparison: all hypotheses evaluated on the same data.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    pub(crate) data: &'a ComparisonData,
    pub(crate) paths: &'a SubjectPaths,
    candidates: &'a [CandidateHypothesis],
    pool: Option<&'a SubjectPool>,
    /// Whether two faults may have separate rates; otherwise their union has one rate.
    separate_rates: bool,
}

/// ln of a Bayes factor of 100: evidence that separates two regions.
const SEPARATION: f64 = 4.6;
/// Distance to the best score, in nats, beyond which exact scores are not computed.
const PRUNING_MARGIN: f64 = 10.0;

impl<'a> Comparison<'a> {
    pub(crate) const fn new(
        data: &'a ComparisonData,
        paths: &'a SubjectPaths,
        candidates: &'a [CandidateHypothesis],
    ) -> Self {
        Self {
            data,
            paths,
            candidates,
            pool: None,
            separate_rates: true,
        }
    }

    /// Adds the evidence of the other subjects.
    pub(crate) const fn with_pool(mut self, pool: &'a SubjectPool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Uses one common rate for all faults.
    #[cfg(test)]
    pub(crate) fn with_common_rate(mut self) -> Self {
        self.separate_rates = false;
        self
    }

    fn fixed_regions(&self, regions: &[Region]) -> FixedRegions {
        let mut known: Vec<Region> = Vec::new();
        let mut union = RegionShares::new();
        let mut failing_cells = Vec::new();
        for region in regions {
            let candidate = self.candidates.iter().find(|c| c.hypothesis.region == *region);
            let computed;
            let (shares, failing) = if let Some(candidate) = candidate {
                (&candidate.shares, candidate.failing.clone())
            } else {
                computed = self.data.shares(*region, self.paths);
                (&computed, self.data.failing_cells(&computed))
            };
            failing_cells.push(failing);
            union = self.data.union((&union, &known), (shares, *region), self.paths);
            known.push(*region);
        }
        let failing = failing_cells.iter().map(Vec::as_slice);
        let attributed: Vec<(Region, &[usize])> = known.iter().copied().zip(failing).collect();
        FixedRegions {
            kinds: KindAttribution::new(self.data, &attributed),
            of_cells: FixedShares::new(self.data, known, union),
        }
    }

    /// Computes the posterior, given the fixed regions.
    pub(crate) fn posterior_given(&self, fixed: &[Region], likelihood: &mut Likelihood) -> Posterior {
        self.posterior_with_none(fixed, None, likelihood)
    }

    /// Computes the posterior, given the fixed regions. `none` is "no further fault" beside other fixed regions; it is used if it
    /// is likelier.
    fn posterior_with_none(
        &self,
        fixed: &[Region],
        none: Option<&ScoredRegion>,
        likelihood: &mut Likelihood,
    ) -> Posterior {
        let mut signatures: BTreeMap<ShareSignature, Vec<usize>> = BTreeMap::new();
        let mut all: Vec<ScoredRegion> = Vec::new();
        let fixed = self.fixed_regions(fixed);
        let mut unions: BTreeMap<ShareSignature, Vec<(usize, ShareSignature)>> = BTreeMap::new();
        let mut joined = self.score_additions(&fixed, likelihood);
        if let Some(none) = none.filter(|none| none.score() > joined[0].0.score()) {
            joined[0].0 = none.clone();
        }
        let best = joined
            .iter()
            .map(|(s, _)| s.score())
            .fold(f64::NEG_INFINITY, f64::max);
        for (entry, shares) in joined {
            let print = |shares: &[(usize, PathShare)]| -> ShareSignature {
                let shares = shares.iter().map(|(i, alpha)| (*i, alpha.permille()));
                shares.filter(|(_, permille)| *permille > 0).collect()
            };
            let mut signature = print(shares);
            // Two faults may be separable by their rates and kinds even if their unions are equal, so the
            // signature is that of the region itself. If rates and kinds do not separate them either, regions with
            // equal unions share a signature.
            if entry.region == Region::OutsideFrontNode {
                // All outside cells have the same share and a flaky front fails at any rate, so counts cannot
                // separate the two.
                for (_, permille) in &mut signature {
                    *permille = 1000;
                }
            }
            let matters = entry.score() + PRUNING_MARGIN >= best && entry.region != Region::Healthy;
            if !fixed.regions().is_empty() && matters {
                let own = shares.to_vec();
                let union = self.data.union(
                    (fixed.shares(), fixed.regions()),
                    (&own, entry.region),
                    self.paths,
                );
                let union = print(&union);
                if union != print(fixed.shares()) {
                    let evidence = |s: &ScoredRegion| s.ln_pooled + s.ln_marginal + s.ln_kinds;
                    let separable =
                        |i: &usize| (evidence(&all[*i]) - evidence(&entry)).abs() >= MIN_SEPARATION;
                    let known = unions.entry(union).or_default();
                    match known.iter().find(|(i, _)| !separable(i)) {
                        Some((_, same)) => signature.clone_from(same),
                        None => known.push((all.len(), signature.clone())),
                    }
                }
            }
            signatures.entry(signature).or_default().push(all.len());
            all.push(entry);
        }
        let total = log_sum_exp(&all.iter().map(ScoredRegion::score).collect::<Vec<_>>());
        for entry in &mut all {
            entry.probability = libm::exp(entry.score() - total);
        }
        let scored = all;
        let mut classes: Vec<RegionClass> = Vec::new();
        for (signature, mut members) in signatures {
            members.sort_by(|a, b| {
                let (a, b) = (&scored[*a], &scored[*b]);
                b.score().total_cmp(&a.score()).then(a.region.cmp(&b.region))
            });
            let head = members.first().map_or(0.0, |i| scored[*i].ln_pooled);
            // Other subjects may separate what this subject cannot.
            let (alike, separable): (Vec<usize>, Vec<usize>) = members
                .into_iter()
                .partition(|i| head - scored[*i].ln_pooled < SEPARATION);
            for members in [alike, separable] {
                if members.is_empty() {
                    continue;
                }
                classes.push(RegionClass {
                    mass: members.iter().map(|i| scored[*i].probability).sum(),
                    contains_healthy: members.iter().any(|i| scored[*i].region == Region::Healthy),
                    members,
                    signature: signature.clone(),
                });
            }
        }
        classes.sort_by(|a, b| b.mass.total_cmp(&a.mass).then_with(|| a.members.cmp(&b.members)));
        let p_none = scored.first().map_or(1.0, |s| s.probability);
        Posterior {
            scored,
            classes,
            p_no_further_fault: p_none,
        }
    }

    #[cfg(test)]
    pub(crate) fn ln_prior(&self, region: Region) -> f64 {
        self.candidates
            .iter()
            .find(|c| c.hypothesis.region == region)
            .map_or(f64::NEG_INFINITY, |c| c.hypothesis.ln_prior)
    }

    /// Returns the ln marginal likelihood of fixed regions. Two may have separate rates, as a region beside a fixed one has.
    fn ln_marginal_fixed(
        &self,
        fixed: &FixedRegions,
        two: Option<&TwoFixed>,
        likelihood: &mut Likelihood,
    ) -> f64 {
        let ln_common = likelihood.ln_marginal(&fixed.of_cells.groups(self.data, &[]));
        match two {
            Some(two) => two.ln_marginal_alone(ln_common, likelihood),
            None => ln_common,
        }
    }

    /// Returns the ln marginal likelihood of a union of regions.
    pub(crate) fn ln_marginal(&self, regions: &[Region], likelihood: &mut Likelihood) -> f64 {
        let fixed = self.fixed_regions(regions);
        likelihood.ln_marginal(&self.data.groups(fixed.shares()))
    }
}

/// Difference of evidence, in nats, that separates two regions whose unions with the fixed ones are equal.
const MIN_SEPARATION: f64 = 1.0;
