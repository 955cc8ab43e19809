//! Scores of the regions that can be added to a fixed set.

use std::collections::BTreeMap;

use super::{Comparison, FixedRegions, PRUNING_MARGIN, ScoredRegion, separate_rates::TwoFixed};
use crate::{
    inference::{
        candidates::CandidateHypothesis,
        failure_kinds::KindLikelihoods,
        likelihood::{Likelihood, ShareGroups, ln_max_likelihood, log_sum_exp},
        prior::P_FAULT,
        union_shares::UnionCell,
    },
    regions::{Region, share::PathShare},
};

/// How much separate rates of three regions may gain over a common one, in nats, for the regions that are compared with them.
const MAX_RATES_GAIN: f64 = 40.0;

impl Comparison<'_> {
    /// Scores "no further fault" and every region that can be added to the fixed ones; returns each region's own
    /// shares.
    pub(super) fn score_additions<'s>(
        &'s self,
        fixed: &FixedRegions,
        likelihood: &mut Likelihood,
    ) -> Vec<(ScoredRegion, &'s [(usize, PathShare)])> {
        let mut known: BTreeMap<ShareGroups, f64> = BTreeMap::new();
        let mut ln_m = |groups: ShareGroups, likelihood: &mut Likelihood| {
            *known
                .entry(groups)
                .or_insert_with_key(|groups| likelihood.ln_marginal(groups))
        };
        let mut kinds = KindLikelihoods::default();
        let two = TwoFixed::new(self, fixed);
        let none = ScoredRegion {
            region: Region::Healthy,
            ln_prior: libm::log(1.0 - P_FAULT),
            ln_pooled: 0.0,
            ln_marginal: self.ln_marginal_fixed(fixed, two.as_ref(), likelihood),
            ln_kinds: self.ln_kinds(fixed, None, &mut kinds),
            probability: 0.0,
        };
        let mut scored: Vec<(ScoredRegion, &[(usize, PathShare)])> = vec![(none, &[])];
        let mut unions = Vec::new();
        for candidate in self.candidates {
            let region = candidate.hypothesis.region;
            // Next to other faults, a region without failures has nothing to explain.
            if !fixed.regions().is_empty()
                && (candidate.failing.is_empty() || fixed.regions().contains(&region))
            {
                continue;
            }
            let union = fixed
                .of_cells
                .with(self.data, (&candidate.shares, region), self.paths);
            let entry = ScoredRegion {
                region,
                ln_prior: candidate.hypothesis.ln_prior,
                ln_pooled: 0.0,
                ln_marginal: ln_m(fixed.of_cells.groups(self.data, &union), likelihood),
                ln_kinds: self.ln_kinds(fixed, Some(candidate), &mut kinds),
                probability: 0.0,
            };
            scored.push((entry, &candidate.shares));
            unions.push(union);
        }
        self.refine_scores((fixed, two.as_ref()), &mut scored, &unions, likelihood);
        scored
    }

    /// Computes the two expensive terms: the evidence of the other subjects beyond the fixed regions, and, next to one or two fixed
    /// regions, the marginal likelihood with separate rates. They are computed only for regions that may become the best, in
    /// descending order of an upper bound of their score.
    fn refine_scores(
        &self,
        (fixed, two): (&FixedRegions, Option<&TwoFixed>),
        scored: &mut [(ScoredRegion, &[(usize, PathShare)])],
        unions: &[Vec<UnionCell>],
        likelihood: &mut Likelihood,
    ) {
        let own_rates = self.separate_rates && fixed.regions().len() == 1;
        let pool = self.pool.filter(|pool| !pool.is_empty()).map(|pool| {
            let regions = fixed.regions().iter().copied();
            let shared: Vec<Region> = regions.filter(|region| pool.shares(*region)).collect();
            let base = pool.baseline(&shared, likelihood);
            (pool, base)
        });
        if !own_rates && two.is_none() && pool.is_none() {
            return;
        }
        let max_pooled = pool.as_ref().map_or(0.0, |(_, base)| base.max_gain());
        // A region without failures of this subject is no explanation, whatever fails in the others.
        let pool_of = |region: Region, shares: &[(usize, PathShare)]| {
            let pool = pool.as_ref().filter(|(pool, _)| pool.shares(region));
            pool.filter(|_| self.data.has_failures(shares))
        };
        let mut order: Vec<(f64, usize)> = Vec::new();
        for (i, ((entry, shares), union)) in scored.iter().skip(1).zip(unions).enumerate() {
            let pooled = pool_of(entry.region, shares).map_or(0.0, |_| max_pooled);
            let most = if own_rates {
                let groups = fixed.of_cells.pair_groups(self.data, union);
                ln_max_likelihood(groups.values().copied())
            } else if two.is_some() {
                entry.ln_marginal + MAX_RATES_GAIN
            } else {
                entry.ln_marginal
            };
            order.push((entry.ln_prior + pooled + most + entry.ln_kinds, i));
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut best = scored[0].0.score();
        // As many as there are must not add up to a considerable probability.
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of regions stay far below 2^53"
        )]
        let margin = PRUNING_MARGIN + libm::log(order.len() as f64);
        for (most, i) in order {
            let (entry, shares) = &mut scored[i + 1];
            if most + margin < best {
                break;
            }
            if own_rates {
                // Equal prior odds for one common rate and for separate rates.
                let groups = fixed.of_cells.pair_groups(self.data, &unions[i]);
                let ln_own = likelihood.ln_marginal_pair(&groups);
                entry.ln_marginal = log_sum_exp(&[entry.ln_marginal, ln_own]) - std::f64::consts::LN_2;
            }
            if let Some(two) = two {
                let candidate = (&shares.to_vec(), entry.region);
                entry.ln_marginal = two.ln_marginal(
                    self,
                    candidate,
                    (entry.ln_marginal, fixed, &unions[i]),
                    likelihood,
                );
            }
            if let Some((pool, base)) = pool_of(entry.region, shares) {
                entry.ln_pooled = pool.ln_gain(base, entry.region, likelihood);
            }
            best = best.max(entry.score());
        }
    }

    pub(super) fn ln_kinds(
        &self,
        fixed: &FixedRegions,
        joined: Option<&CandidateHypothesis>,
        likelihoods: &mut KindLikelihoods,
    ) -> f64 {
        let joined = joined.map(|c| (c.hypothesis.region, c.failing.as_slice()));
        fixed
            .kinds
            .ln_likelihood(self.data, joined, self.paths, likelihoods)
    }
}
