//! Searches for the set of faults that explains the data.

use super::{Comparison, Posterior, ScoredRegion};
use crate::{inference::likelihood::Likelihood, regions::Region};

/// Number of best single regions that are tried as one half of a pair of faults.
const SEARCH_STARTS: usize = 6;
/// Minimum gain of an additional fault, in nats, after its prior.
const MIN_ADDITIONAL_GAIN: f64 = 3.0;
/// Maximum number of faults of an explanation.
const MAX_FAULTS: usize = 3;

/// A set of faults.
struct Explanation {
    regions: Vec<Region>,
    /// ln of the priors, with the evidence of other subjects.
    ln_prior: f64,
    /// The same and ln of the likelihoods.
    score: f64,
}

impl Explanation {
    fn of_one(scored: &ScoredRegion) -> Self {
        Self {
            regions: vec![scored.region],
            ln_prior: scored.ln_prior_with_pool(),
            score: scored.score(),
        }
    }

    /// Adds a fault that was scored beside the others.
    fn with(&self, scored: &ScoredRegion) -> Self {
        Self {
            regions: [self.regions.as_slice(), &[scored.region]].concat(),
            ln_prior: self.ln_prior + scored.ln_prior_with_pool(),
            score: self.ln_prior + scored.score(),
        }
    }
}

impl Comparison<'_> {
    /// Returns the set of faults that, with the known ones, explains the data: the best one, and further ones while each
    /// gains more than [`MIN_ADDITIONAL_GAIN`]. `single` is the posterior over one fault beside the known ones, `named` are the
    /// regions that open incidents name.
    ///
    /// A purely greedy search starts from the best single region, which for two faults may be a wide region that
    /// covers both badly. So the search starts from several of the best. For three faults, a wide region may be the best one
    /// beside each of them, so the search starts from what has been named, too.
    pub(crate) fn search_explanation(
        &self,
        (known, named): (&[Region], &[Region]),
        single: &Posterior,
        likelihood: &mut Likelihood,
    ) -> Vec<Region> {
        let Some(mut best) = self.search_from_best(known, single, likelihood) else {
            return Vec::new();
        };
        if let Some(before) = self.search_from_named((known, named), single, likelihood)
            && before.score > best.score
        {
            best = before;
        }
        // A direction of a broken link is part of it, even if it fails at another rate.
        let mut chosen = best.regions;
        let links = chosen.clone();
        chosen.retain(|region| {
            region
                .in_both_directions()
                .is_none_or(|link| !links.contains(&link))
        });
        chosen
    }

    /// Searches from the best single regions.
    fn search_from_best(
        &self,
        known: &[Region],
        single: &Posterior,
        likelihood: &mut Likelihood,
    ) -> Option<Explanation> {
        let mut starts: Vec<&ScoredRegion> = single
            .classes
            .iter()
            .filter(|class| !class.contains_healthy)
            .filter_map(|class| class.members.first())
            .map(|i| &single.scored[*i])
            .collect();
        starts.sort_by(|a, b| b.score().total_cmp(&a.score()).then(a.region.cmp(&b.region)));
        let best = starts.first()?;
        let score = best.score();
        let likeliest_prior = single
            .scored
            .iter()
            .skip(1)
            .map(|scored| scored.ln_prior + scored.ln_pooled.max(0.0))
            .fold(f64::NEG_INFINITY, f64::max);
        let mut pair: Option<Explanation> = None;
        for seed in starts.iter().take(SEARCH_STARTS) {
            // Upper bound: neither the likelihood nor the kinds can exceed probability 1.
            if seed.ln_prior_with_pool() + likeliest_prior < score + MIN_ADDITIONAL_GAIN {
                continue;
            }
            let fixed = [known, &[seed.region]].concat();
            if let Some(other) = self.best_addition(&fixed, likelihood) {
                let both = Explanation::of_one(seed).with(&other);
                if pair.as_ref().is_none_or(|best| both.score > best.score) {
                    pair = Some(both);
                }
            }
        }
        let Some(pair) = pair.filter(|pair| pair.score - score > MIN_ADDITIONAL_GAIN) else {
            return Some(Explanation::of_one(best));
        };
        if let Some(single) = self.equal_to_union(&pair.regions) {
            return Some(Explanation {
                regions: vec![single],
                ..pair
            });
        }
        Some(self.extended(known, pair, likelihood))
    }

    /// Searches from the best single region that has been named, adds the best of the others that have been named while each gains
    /// enough, and then any further fault.
    fn search_from_named(
        &self,
        (known, named): (&[Region], &[Region]),
        single: &Posterior,
        likelihood: &mut Likelihood,
    ) -> Option<Explanation> {
        let is_compared = |region: &&Region| {
            let mut candidates = self.candidates.iter();
            let compared = candidates.any(|one| one.hypothesis.region == **region && !one.failing.is_empty());
            compared && !known.contains(region)
        };
        let mut left: Vec<Region> = named.iter().filter(is_compared).copied().collect();
        left.sort_unstable();
        left.dedup();
        if left.len() < 2 {
            return None;
        }
        let scored = single.scored.iter().filter(|one| left.contains(&one.region));
        let mut explanation = Explanation::of_one(best_of(scored)?);
        while explanation.regions.len() < MAX_FAULTS {
            left.retain(|region| !explanation.regions.contains(region));
            let fixed = [known, &explanation.regions].concat();
            let scored = self.score_additions(&self.fixed_regions(&fixed), likelihood);
            let scored = scored
                .iter()
                .map(|(one, _)| one)
                .filter(|one| left.contains(&one.region));
            let Some(next) = best_of(scored).map(|next| explanation.with(next)) else {
                break;
            };
            if next.score - explanation.score <= MIN_ADDITIONAL_GAIN {
                break;
            }
            explanation = next;
        }
        Some(self.extended(known, explanation, likelihood))
    }

    /// Adds the best further fault, if it gains enough.
    fn extended(
        &self,
        known: &[Region],
        explanation: Explanation,
        likelihood: &mut Likelihood,
    ) -> Explanation {
        if explanation.regions.len() >= MAX_FAULTS {
            return explanation;
        }
        let fixed = [known, &explanation.regions].concat();
        let Some(further) = self.best_addition(&fixed, likelihood) else {
            return explanation;
        };
        let extended = explanation.with(&further);
        if extended.score - explanation.score > MIN_ADDITIONAL_GAIN {
            extended
        } else {
            explanation
        }
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
        let scored = self.score_additions(&self.fixed_regions(fixed), likelihood);
        best_of(scored.iter().skip(1).map(|(one, _)| one)).cloned()
    }
}

/// Returns the region with the highest score.
fn best_of<'s>(scored: impl Iterator<Item = &'s ScoredRegion>) -> Option<&'s ScoredRegion> {
    scored.max_by(|a, b| a.score().total_cmp(&b.score()).then(b.region.cmp(&a.region)))
}
