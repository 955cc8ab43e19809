//! Searches for the set of faults that explains the data.

use super::{Comparison, Posterior, ScoredRegion};
use crate::{inference::likelihood::Likelihood, regions::Region};

/// Number of best single regions that are tried as one half of a pair of faults.
const SEARCH_STARTS: usize = 6;
/// Minimum gain of an additional fault, in nats, after its prior.
const MIN_ADDITIONAL_GAIN: f64 = 3.0;

impl Comparison<'_> {
    /// Returns the set of faults that, with the known ones, explains the data: the best one, and further ones while each
    /// gains more than [`MIN_ADDITIONAL_GAIN`]. `single` is the posterior over one fault beside the known ones.
    ///
    /// A purely greedy search starts from the best single region, which for two faults may be a wide region that
    /// covers both badly. So the search starts from several of the best.
    pub(crate) fn search_explanation(
        &self,
        known: &[Region],
        single: &Posterior,
        likelihood: &mut Likelihood,
    ) -> Vec<Region> {
        let with_known = |chosen: &[Region]| [known, chosen].concat();
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
            if let Some(other) = self.best_addition(&with_known(&[seed.region]), likelihood) {
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
            if let Some(single) = self.equal_to_union(&chosen) {
                return vec![single];
            }
            if let Some(third) = self.best_addition(&with_known(&chosen), likelihood)
                && first.ln_prior_with_pool() + second.ln_prior_with_pool() + third.score() - total
                    > MIN_ADDITIONAL_GAIN
            {
                chosen.push(third.region);
            }
        }
        // A direction of a broken link is part of it, even if it fails at another rate.
        let links = chosen.clone();
        chosen.retain(|region| {
            region
                .in_both_directions()
                .is_none_or(|link| !links.contains(&link))
        });
        chosen
    }

    /// Returns the region whose paths are those of two regions of one kind, if there is one. The two directions between two
    /// nodes, or every Pod of a resolver, are one fault: separate rates only fit chance better.
    fn equal_to_union(&self, pair: &[Region]) -> Option<Region> {
        let [first, second] = pair else { return None };
        if first.kind() != second.kind() {
            return None;
        }
        let union = self.fixed_regions(pair).of_cells.shares;
        let equal = self
            .candidates
            .iter()
            .filter(|candidate| candidate.shares == union);
        let best = equal.max_by(|a, b| a.hypothesis.ln_prior.total_cmp(&b.hypothesis.ln_prior));
        best.map(|candidate| candidate.hypothesis.region)
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
}
