//! Known causes: regions of open incidents that explain a part of a subject's failures already.
//!
//! A region that another subject named is established. It needs no prior here, only to make this subject's results
//! likelier. What it explains is no evidence of a further fault.

use super::{Comparison, Posterior, SEPARATION, ScoredRegion};
use crate::{
    inference::{failure_kinds::KindLikelihoods, likelihood::Likelihood},
    regions::Region,
};

/// Minimum gain of a known cause, in nats. A cause that nothing here contradicts or supports is left out.
const MIN_KNOWN_GAIN: f64 = 0.5;

impl Comparison<'_> {
    /// Returns the known causes that explain the subject's failures, in the order of what each adds to the previous ones.
    pub(crate) fn explaining(&self, known: &[Region], likelihood: &mut Likelihood) -> Vec<Region> {
        // What goes wrong on the way to a front shows behind it as missing answers, not as errors.
        let unanswered = self.data.mostly_unanswered();
        let touches_failure = |region: &Region| {
            if region.is_of_front() && !region.is_cluster_wide() && !unanswered {
                return false;
            }
            let shares = self.data.shares(*region, self.paths);
            self.data.has_failures(&shares)
        };
        let mut left: Vec<Region> = known.iter().copied().filter(touches_failure).collect();
        let mut chosen = Vec::new();
        if left.is_empty() {
            return chosen;
        }
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
        chosen
    }

    /// Returns the ln likelihood of counts and kinds, given a set of regions.
    fn ln_evidence(&self, regions: &[Region], likelihood: &mut Likelihood) -> f64 {
        let fixed = self.fixed_regions(regions);
        likelihood.ln_marginal(&self.data.groups(fixed.shares()))
            + self.ln_kinds(&fixed, None, &mut KindLikelihoods::default())
    }
}

impl Posterior {
    /// Returns how much a region gains over "no further fault", in nats. `None` if it was not compared: it contains no
    /// failure, or is one of the fixed regions.
    pub(crate) fn gain(&self, region: Region) -> Option<f64> {
        self.gain_by(region, ScoredRegion::score)
    }

    /// Returns the gain without the prior and the evidence of other subjects.
    pub(crate) fn own_gain(&self, region: Region) -> Option<f64> {
        self.gain_by(region, |scored| scored.ln_marginal + scored.ln_kinds)
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
