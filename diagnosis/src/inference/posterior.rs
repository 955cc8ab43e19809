//! The posterior over regions: classes that the evidence cannot separate, and explanations with several faults.

use std::collections::BTreeMap;

use super::{
    comparison_data::{ComparisonData, RegionShares},
    likelihood::{Likelihood, ShareGroups, log_sum_exp},
    prior::{Hypothesis, P_FAULT},
    subject_pool::SubjectPool,
};
use crate::{
    evidence::weights::to_probes,
    regions::{Region, paths::SubjectPaths, share::PathShare},
};

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
    fn ln_prior_with_pool(&self) -> f64 {
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

    /// Returns the posterior probability of "no further fault" without the failure kinds.
    pub(crate) fn p_no_further_fault_by_counts(&self) -> f64 {
        let plain = |s: &ScoredRegion| s.ln_prior_with_pool() + s.ln_marginal;
        let all: Vec<f64> = self.scored.iter().map(plain).collect();
        self.scored
            .first()
            .map_or(1.0, |none| libm::exp(plain(none) - log_sum_exp(&all)))
    }
}

/// A hypothesis with the cells it affects.
#[derive(Debug)]
struct CandidateHypothesis {
    hypothesis: Hypothesis,
    shares: RegionShares,
    failing: Vec<usize>,
}

/// A fixed set of regions with the cells they affect.
#[derive(Debug, Default)]
struct FixedRegions {
    regions: Vec<Region>,
    shares: RegionShares,
    failing: Vec<Vec<usize>>,
}

/// One comparison: all hypotheses evaluated on the same data.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    pub(crate) data: &'a ComparisonData,
    pub(crate) paths: &'a SubjectPaths,
    candidates: Vec<CandidateHypothesis>,
    pool: Option<&'a SubjectPool>,
    /// Whether two faults may have separate rates; otherwise their union has one rate.
    separate_rates: bool,
}

/// Up to this many hypotheses all are compared; above it, only those whose region contains a failure. The others
/// explain nothing and differ from "healthy" by less than their prior.
const MAX_COMPARED_WITHOUT_FAILURES: usize = 400;
/// ln of a Bayes factor of 100: pooled evidence that separates regions with equal signatures.
const POOL_SEPARATION: f64 = 4.6;
/// Distance to the best score, in nats, beyond which exact scores are not computed.
const PRUNING_MARGIN: f64 = 10.0;

impl<'a> Comparison<'a> {
    pub(crate) fn new(data: &'a ComparisonData, scene: &'a SubjectPaths, hypotheses: &[Hypothesis]) -> Self {
        let all = hypotheses.len() <= MAX_COMPARED_WITHOUT_FAILURES;
        let candidates = hypotheses
            .iter()
            .filter_map(|hypothesis| {
                let shares = data.shares(hypothesis.region, scene);
                let failing = data.failing_cells(&shares);
                (all || !failing.is_empty()).then_some(CandidateHypothesis {
                    hypothesis: *hypothesis,
                    shares,
                    failing,
                })
            })
            .collect();
        Self {
            data,
            paths: scene,
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
        let mut fixed = FixedRegions::default();
        for region in regions {
            let shares = self.data.shares(*region, self.paths);
            fixed.failing.push(self.data.failing_cells(&shares));
            fixed.shares = self
                .data
                .union((&fixed.shares, &fixed.regions), (&shares, *region), self.paths);
            fixed.regions.push(*region);
        }
        fixed
    }

    /// Computes the posterior, given the fixed regions.
    pub(crate) fn posterior_given(&self, fixed: &[Region], likelihood: &mut Likelihood) -> Posterior {
        let mut signatures: BTreeMap<ShareSignature, Vec<usize>> = BTreeMap::new();
        let mut all: Vec<ScoredRegion> = Vec::new();
        let fixed = self.fixed_regions(fixed);
        let mut unions: BTreeMap<ShareSignature, Vec<(usize, ShareSignature)>> = BTreeMap::new();
        let joined = self.score_additions(&fixed, likelihood);
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
            if !fixed.regions.is_empty() && matters {
                let own = shares.to_vec();
                let union =
                    self.data
                        .union((&fixed.shares, &fixed.regions), (&own, entry.region), self.paths);
                let union = print(&union);
                if union != print(&fixed.shares) {
                    let evidence = |s: &ScoredRegion| s.ln_pooled + s.ln_marginal + s.ln_kinds;
                    let told = |i: &usize| (evidence(&all[*i]) - evidence(&entry)).abs() >= MIN_SEPARATION;
                    let known = unions.entry(union).or_default();
                    match known.iter().find(|(i, _)| !told(i)) {
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
            let (alike, told): (Vec<usize>, Vec<usize>) = members
                .into_iter()
                .partition(|i| head - scored[*i].ln_pooled < POOL_SEPARATION);
            for members in [alike, told] {
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

    /// Scores "no further fault" and every region that can be added to the fixed ones; returns each region's own
    /// shares.
    fn score_additions<'s>(
        &'s self,
        fixed: &FixedRegions,
        likelihood: &mut Likelihood,
    ) -> Vec<(ScoredRegion, &'s [(usize, PathShare)])> {
        let mut known: BTreeMap<ShareGroups, f64> = BTreeMap::new();
        let mut ln_m = |shares: &RegionShares, likelihood: &mut Likelihood| {
            let groups = self.data.groups(shares);
            *known
                .entry(groups)
                .or_insert_with_key(|groups| likelihood.ln_marginal(groups))
        };
        let none = ScoredRegion {
            region: Region::Healthy,
            ln_prior: libm::log(1.0 - P_FAULT),
            ln_pooled: 0.0,
            ln_marginal: ln_m(&fixed.shares, likelihood),
            ln_kinds: self.ln_kinds(fixed, None),
            probability: 0.0,
        };
        let mut scored: Vec<(ScoredRegion, &[(usize, PathShare)])> = vec![(none, &[])];
        let mut unions = Vec::new();
        for candidate in &self.candidates {
            let region = candidate.hypothesis.region;
            // Next to other faults, a region without failures has nothing to explain.
            if !fixed.regions.is_empty() && (candidate.failing.is_empty() || fixed.regions.contains(&region))
            {
                continue;
            }
            let union = self.data.union(
                (&fixed.shares, &fixed.regions),
                (&candidate.shares, region),
                self.paths,
            );
            let entry = ScoredRegion {
                region,
                ln_prior: candidate.hypothesis.ln_prior,
                ln_pooled: candidate.hypothesis.ln_pooled,
                ln_marginal: ln_m(&union, likelihood),
                ln_kinds: self.ln_kinds(fixed, Some(candidate)),
                probability: 0.0,
            };
            scored.push((entry, &candidate.shares));
            unions.push(union);
        }
        if !fixed.regions.is_empty() {
            self.refine_scores(fixed, &mut scored, &unions, likelihood);
        }
        scored
    }

    /// Computes the two expensive terms, needed only next to fixed regions: the evidence of the other subjects
    /// beyond those regions, and the marginal likelihood with separate rates. They are computed only for regions
    /// that may become the best, in descending order of an upper bound of their score.
    fn refine_scores(
        &self,
        fixed: &FixedRegions,
        scored: &mut [(ScoredRegion, &[(usize, PathShare)])],
        unions: &[RegionShares],
        likelihood: &mut Likelihood,
    ) {
        let own_rates = self.separate_rates && fixed.regions.len() == 1;
        let shares = |region: Region| self.pool.is_some_and(|pool| pool.shares(region));
        let global: Vec<Region> = fixed.regions.iter().copied().filter(|r| shares(*r)).collect();
        let pool = self.pool.filter(|pool| !pool.is_empty() && !global.is_empty());
        if !own_rates && pool.is_none() {
            return;
        }
        let mut order: Vec<(f64, usize)> = Vec::new();
        for (i, ((entry, shares), union)) in scored.iter().skip(1).zip(unions).enumerate() {
            let most = if own_rates {
                let groups = self.data.pair_groups(&fixed.shares, shares, union);
                ln_max_likelihood(groups.values())
            } else {
                entry.ln_marginal
            };
            let pooled = entry.ln_pooled.max(0.0);
            order.push((entry.ln_prior + pooled + most + entry.ln_kinds, i));
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut best = scored[0].0.score();
        let mut base = None;
        for (most, i) in order {
            let (entry, shares) = &mut scored[i + 1];
            if most + PRUNING_MARGIN < best {
                // Keeps the evidence against it from the other subjects, drops the evidence for it.
                entry.ln_pooled = entry.ln_pooled.min(0.0);
                continue;
            }
            if own_rates {
                // Equal prior odds for one common rate and for separate rates.
                let groups = self.data.pair_groups(&fixed.shares, shares, &unions[i]);
                let ln_own = likelihood.ln_marginal_pair(&groups);
                entry.ln_marginal = log_sum_exp(&[entry.ln_marginal, ln_own]) - std::f64::consts::LN_2;
            }
            if let Some(pool) = pool.filter(|pool| pool.shares(entry.region)) {
                let base = base.get_or_insert_with(|| pool.baseline(&global, likelihood));
                entry.ln_pooled = pool.ln_gain(base, entry.region, likelihood);
            }
            best = best.max(entry.score());
        }
    }

    fn ln_kinds(&self, fixed: &FixedRegions, joined: Option<&CandidateHypothesis>) -> f64 {
        let mut blamed: Vec<(Region, &[usize])> = fixed
            .regions
            .iter()
            .copied()
            .zip(fixed.failing.iter().map(Vec::as_slice))
            .collect();
        blamed.extend(joined.map(|c| (c.hypothesis.region, c.failing.as_slice())));
        self.data.ln_kinds(&blamed, self.paths)
    }

    /// Returns the set of faults that explains the data: the best one, and further ones while each gains more than
    /// [`SECOND_FAULT`].
    ///
    /// A purely greedy search starts from the best single region, which for two faults may be a wide region that
    /// covers both badly. So the search starts from several of the best.
    pub(crate) fn search_explanation(&self, single: &Posterior, likelihood: &mut Likelihood) -> Vec<Region> {
        let mut starts: Vec<&ScoredRegion> = single
            .classes
            .iter()
            .filter(|class| !class.contains_healthy)
            .filter_map(|class| class.members.first())
            .map(|i| &single.scored[*i])
            .collect();
        starts.sort_by(|a, b| b.score().total_cmp(&a.score()).then(a.region.cmp(&b.region)));
        let Some(best) = starts.first() else {
            return Vec::new();
        };
        let mut chosen = vec![best.region];
        let score = best.score();
        let likeliest_prior = self
            .candidates
            .iter()
            .map(|c| c.hypothesis.ln_prior + c.hypothesis.ln_pooled.max(0.0))
            .fold(f64::NEG_INFINITY, f64::max);
        let mut pair: Option<(ScoredRegion, ScoredRegion, f64)> = None;
        for seed in starts.iter().take(SEARCH_STARTS) {
            // Upper bound: neither the likelihood nor the kinds can exceed probability 1.
            if seed.ln_prior_with_pool() + likeliest_prior < score + MIN_ADDITIONAL_GAIN {
                continue;
            }
            if let Some(other) = self.best_addition(&[seed.region], likelihood) {
                let total = seed.ln_prior_with_pool() + other.score();
                if pair.as_ref().is_none_or(|(_, _, best)| total > *best) {
                    pair = Some(((*seed).clone(), other, total));
                }
            }
        }
        if let Some((first, second, total)) = pair
            && total - score > MIN_ADDITIONAL_GAIN
        {
            chosen = vec![first.region, second.region];
            if let Some(third) = self.best_addition(&chosen, likelihood)
                && first.ln_prior_with_pool() + second.ln_prior_with_pool() + third.score() - total
                    > MIN_ADDITIONAL_GAIN
            {
                chosen.push(third.region);
            }
        }
        chosen
    }

    /// Returns the region that adds most to the fixed ones. Its score contains the likelihood of the union, but
    /// not the priors of the fixed regions.
    fn best_addition(&self, fixed: &[Region], likelihood: &mut Likelihood) -> Option<ScoredRegion> {
        self.score_additions(&self.fixed_regions(fixed), likelihood)
            .into_iter()
            .skip(1)
            .map(|(s, _)| s)
            .max_by(|a, b| a.score().total_cmp(&b.score()).then(b.region.cmp(&a.region)))
    }

    #[cfg(test)]
    pub(crate) fn ln_prior(&self, region: Region) -> f64 {
        self.candidates
            .iter()
            .find(|c| c.hypothesis.region == region)
            .map_or(f64::NEG_INFINITY, |c| c.hypothesis.ln_prior)
    }

    /// Returns the ln marginal likelihood of a union of regions.
    pub(crate) fn ln_marginal(&self, regions: &[Region], likelihood: &mut Likelihood) -> f64 {
        let fixed = self.fixed_regions(regions);
        likelihood.ln_marginal(&self.data.groups(&fixed.shares))
    }

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

/// Returns the ln likelihood of the counts with a maximum-likelihood rate per group: an upper bound for every
/// model.
fn ln_max_likelihood<'g>(groups: impl Iterator<Item = &'g (u64, u64)>) -> f64 {
    let ln_share = |part: f64, all: f64| {
        if part > 0.0 {
            part * libm::log(part / all)
        } else {
            0.0
        }
    };
    groups
        .map(|(failures, successes)| {
            let (failures, successes) = (to_probes(*failures), to_probes(*successes));
            let all = failures + successes;
            ln_share(failures, all) + ln_share(successes, all)
        })
        .sum()
}

/// Number of best single regions that are tried as one half of a pair of faults.
const SEARCH_STARTS: usize = 6;
/// Difference of evidence, in nats, that separates two regions whose unions with the fixed ones are equal.
const MIN_SEPARATION: f64 = 1.0;
/// Minimum gain of an additional fault, in nats, after its prior.
const MIN_ADDITIONAL_GAIN: f64 = 3.0;
/// ln of a Bayes factor of 10.
const NEAR_TIE_LN_BAYES_FACTOR: f64 = 2.3;
const NEAR_TIE_ODDS: f64 = 10.0;
const NEAR_TIE_PROBES: f64 = 3.0;
/// Classes with less posterior mass are not reported as near ties, however few probes separate them.
const MIN_NEAR_TIE_MASS: f64 = 1e-3;
