//! Expected information gain of a probe: the expected reduction of uncertainty about the cause, in bits.
//!
//! `EIG(x) = Hb(Σ P(h)·p_h(x)) − Σ P(h)·Hb(p_h(x))`, with `p_h` the failure probability under h, rates integrated
//! out. Since p = α·(1 − (1−θ1)(1−θ0)) + (1−α)·θ0 = θ0 + α·θ1·(1−θ0), two moments of each hypothesis suffice: the
//! result is exact, not a plug-in estimate.

use crate::{
    evidence::cells::CellKey,
    inference::{
        comparison_data::{ComparisonData, RegionShares},
        likelihood::Likelihood,
        posterior::{Posterior, ScoredRegion},
    },
    regions::{Region, paths::SubjectPaths, share::alpha},
};

/// One explanation with its predictive moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WeightedExplanation {
    pub(crate) region: Region,
    pub(crate) probability: f64,
    /// E[θ0].
    background_rate: f64,
    /// E[θ1·(1−θ0)].
    caused_rate: f64,
}

impl WeightedExplanation {
    /// Returns the probability that a probe fails if this share of its paths crosses the region.
    pub(crate) fn failure_probability(&self, share: f64) -> f64 {
        self.background_rate + self.caused_rate * share
    }
}

/// The posterior over the next region given the fixed ones, in descending order of mass.
#[derive(Debug, Clone)]
pub(crate) struct ExplanationWeights {
    pub(crate) fixed: Vec<Region>,
    pub(crate) explanations: Vec<WeightedExplanation>,
}

/// Minimum mass of an explanation.
const MIN_MASS: f64 = 1e-6;
/// Maximum number of explanations; the others have negligible mass.
const MAX_EXPLANATIONS: usize = 64;

impl ExplanationWeights {
    pub(crate) fn new(
        data: &ComparisonData,
        paths: &SubjectPaths,
        given: &Posterior,
        fixed: &[Region],
        likelihood: &mut Likelihood,
    ) -> Self {
        let mut regions = Vec::new();
        let mut shares = RegionShares::new();
        for region in fixed {
            let own = data.shares(*region, paths);
            shares = data.union((&shares, &regions), (&own, *region), paths);
            regions.push(*region);
        }
        let mut heaviest: Vec<&ScoredRegion> = given
            .scored
            .iter()
            .filter(|s| s.probability >= MIN_MASS)
            .collect();
        heaviest.sort_by(|a, b| {
            b.probability
                .total_cmp(&a.probability)
                .then(a.region.cmp(&b.region))
        });
        heaviest.truncate(MAX_EXPLANATIONS);
        let total: f64 = heaviest.iter().map(|s| s.probability).sum();
        let list = heaviest
            .into_iter()
            .map(|scored| {
                let own = data.shares(scored.region, paths);
                let union = data.union((&shares, &regions), (&own, scored.region), paths);
                let (background, caused) = likelihood.expected_rates(&data.groups(&union));
                WeightedExplanation {
                    region: scored.region,
                    probability: scored.probability / total,
                    background_rate: background,
                    caused_rate: caused,
                }
            })
            .collect();
        Self {
            fixed: regions,
            explanations: list,
        }
    }

    /// Returns the share of a cell's paths that each explanation breaks, including the fixed regions.
    pub(crate) fn shares(&self, key: &CellKey, paths: &SubjectPaths) -> Vec<f64> {
        let mut regions = self.fixed.clone();
        regions.push(Region::Healthy);
        let last = regions.len() - 1;
        self.explanations
            .iter()
            .map(|belief| {
                regions[last] = belief.region;
                alpha(&regions, key, paths).as_f64()
            })
            .collect()
    }

    /// Returns the expected information gain of a probe with these shares, in bits.
    pub(crate) fn expected_gain(&self, shares: &[f64]) -> f64 {
        let (mut mixed, mut kept) = (0.0, 0.0);
        for (belief, share) in self.explanations.iter().zip(shares) {
            let fails = belief.failure_probability(*share);
            mixed += belief.probability * fails;
            kept += belief.probability * binary_entropy(fails);
        }
        (binary_entropy(mixed) - kept).max(0.0)
    }

    /// Returns the two explanations that the probe separates best, weighted by mass. "Healthy" only if there is no
    /// alternative.
    pub(crate) fn best_separated_pair(&self, shares: &[f64]) -> Option<(Region, Region)> {
        let mut best: Option<(f64, Region, Region)> = None;
        let top = || {
            self.explanations
                .iter()
                .zip(shares)
                .take(MAX_COMPARED)
                .enumerate()
        };
        for (i, (a, share_a)) in top() {
            for (_, (b, share_b)) in top().filter(|(j, _)| *j > i) {
                let apart = a.failure_probability(*share_a) - b.failure_probability(*share_b);
                let mut weight = a.probability * b.probability * apart * apart;
                if a.region == Region::Healthy || b.region == Region::Healthy {
                    weight *= HEALTHY_WEIGHT;
                }
                if best.is_none_or(|(most, ..)| weight > most) {
                    best = Some((weight, a.region, b.region));
                }
            }
        }
        best.filter(|(weight, ..)| *weight > 0.0).map(|(_, a, b)| (a, b))
    }
}

/// Number of explanations that a reason may name.
const MAX_COMPARED: usize = 12;
/// Weight of "healthy": a comparison with another cause tells a reader more.
const HEALTHY_WEIGHT: f64 = 0.01;

/// Binary entropy in bits.
fn binary_entropy(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return 0.0;
    }
    -p * libm::log2(p) - (1.0 - p) * libm::log2(1.0 - p)
}
