//! Known causes: regions of open incidents that explain a part of a subject's failures already.
//!
//! A region that another subject named is established. It needs no prior here, only to make this subject's results
//! likelier. What it explains is no evidence of a further fault.

use super::{Comparison, Posterior, SEPARATION, ScoredRegion, separate_rates::TwoFixed};
use crate::{
    inference::{failure_kinds::KindLikelihoods, likelihood::Likelihood},
    regions::Region,
};

/// Minimum gain of a known cause, in nats. A cause that nothing here contradicts or supports is left out.
pub(crate) const MIN_KNOWN_GAIN: f64 = 0.5;

impl Comparison<'_> {
    /// Returns the known causes that explain a part of the subject's failures, and the posterior over one further fault beside
    /// them.
    ///
    /// What a further fault does can hide a known cause, or one of its directions. So further known causes are selected beside
    /// the likeliest further fault, and used if the two explain more.
    pub(crate) fn beside_known(
        &self,
        known: &[Region],
        likelihood: &mut Likelihood,
    ) -> (Vec<Region>, Posterior) {
        let explaining = self.explaining(known, likelihood);
        let posterior = self.posterior_given(&explaining, likelihood);
        let further = posterior.best().region;
        if known.is_empty() || further == Region::Healthy {
            return (explaining, posterior);
        }
        let base = [explaining.as_slice(), &[further]].concat();
        let added = self.explaining_beside(&base, known, likelihood);
        if added.is_empty() {
            return (explaining, posterior);
        }
        let all = [explaining.as_slice(), &added].concat();
        // The known causes need no prior, so that "no further fault" has the ones that fit it best.
        let beside_all = self.posterior_with_none(&all, Some(&posterior.scored[0]), likelihood);
        if beside_all.best().score() > posterior.best().score() + MIN_KNOWN_GAIN {
            (all, beside_all)
        } else {
            (explaining, posterior)
        }
    }

    /// Returns the score of the best explanation by known causes and at most one further fault, which may explain what a known
    /// cause seemed to explain.
    pub(crate) fn best_score(&self, known: &[Region], likelihood: &mut Likelihood) -> f64 {
        let (explaining, posterior) = self.beside_known(known, likelihood);
        let best = posterior.best();
        if known.is_empty() || best.region == Region::Healthy {
            return best.score();
        }
        let others = self.explaining_beside(&[best.region], known, likelihood);
        if others == explaining {
            return best.score();
        }
        let beside_others = self.posterior_given(&others, likelihood);
        best.score().max(beside_others.best().score())
    }

    /// Returns the known causes that explain the subject's failures, in the order of what each adds to the previous ones.
    pub(crate) fn explaining(&self, known: &[Region], likelihood: &mut Likelihood) -> Vec<Region> {
        self.explaining_beside(&[], known, likelihood)
    }

    /// Returns the known causes that explain the failures beside other regions, in the order of what each adds.
    fn explaining_beside(
        &self,
        others: &[Region],
        known: &[Region],
        likelihood: &mut Likelihood,
    ) -> Vec<Region> {
        // What goes wrong on the way to a front shows behind it as missing answers, not as errors.
        let unanswered = self.data.mostly_unanswered();
        let touches_failure = |region: &Region| {
            if region.is_of_front() && !region.is_cluster_wide() && !unanswered {
                return false;
            }
            let shares = self.data.shares(*region, self.paths);
            self.data.has_failures(&shares)
        };
        let left = known.iter().copied().filter(|region| !others.contains(region));
        let mut left: Vec<Region> = left.filter(touches_failure).collect();
        if left.is_empty() {
            return Vec::new();
        }
        let mut chosen = others.to_vec();
        let mut best = self.ln_evidence(&chosen, likelihood);
        while !left.is_empty() {
            let mut next: Option<(f64, usize)> = None;
            for (i, region) in left.iter().enumerate() {
                chosen.push(*region);
                let evidence = self.ln_evidence(&chosen, likelihood);
                chosen.pop();
                if next.is_none_or(|(most, _)| evidence > most) {
                    next = Some((evidence, i));
                }
            }
            let Some((evidence, i)) = next.filter(|(evidence, _)| *evidence > best + MIN_KNOWN_GAIN) else {
                break;
            };
            best = evidence;
            chosen.push(left.remove(i));
        }
        chosen.split_off(others.len())
    }

    /// Returns the ln likelihood of counts and kinds, given a set of regions.
    fn ln_evidence(&self, regions: &[Region], likelihood: &mut Likelihood) -> f64 {
        let fixed = self.fixed_regions(regions);
        let two = TwoFixed::new(self, &fixed);
        self.ln_marginal_fixed(&fixed, two.as_ref(), likelihood)
            + self.ln_kinds(&fixed, None, &mut KindLikelihoods::default())
    }
}

impl Posterior {
    /// Returns the likeliest region; [`Region::Healthy`] is "no further fault".
    pub(crate) fn best(&self) -> &ScoredRegion {
        let later = self.scored.iter().skip(1);
        later.fold(&self.scored[0], |best, one| {
            if one.score() > best.score() { one } else { best }
        })
    }

    /// Returns how much a region gains over "no further fault", in nats. `None` if it was not compared: it contains no
    /// failure, or is one of the fixed regions.
    pub(crate) fn gain(&self, region: Region) -> Option<f64> {
        self.gain_by(region, ScoredRegion::score)
    }

    /// Returns the gain without the prior and the evidence of other subjects.
    pub(crate) fn own_gain(&self, region: Region) -> Option<f64> {
        self.gain_by(region, |scored| scored.ln_marginal + scored.ln_kinds)
    }

    /// Returns the gain without the prior.
    pub(crate) fn likelihood_gain(&self, region: Region) -> Option<f64> {
        self.gain_by(region, |scored| scored.score() - scored.ln_prior)
    }

    /// Reports whether the subject's own results are at least 100 times likelier under one region than under another.
    pub(crate) fn favors(&self, region: Region, other: Region) -> bool {
        match (self.own_gain(region), self.own_gain(other)) {
            (Some(gain), Some(least)) => gain - least >= SEPARATION,
            _ => false,
        }
    }

    fn gain_by(&self, region: Region, score: impl Fn(&ScoredRegion) -> f64) -> Option<f64> {
        let scored = self.scored.iter().find(|scored| scored.region == region)?;
        Some(score(scored) - score(self.scored.first()?))
    }
}
