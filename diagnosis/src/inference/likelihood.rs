//! The likelihood of the counts under a region: a noisy-OR of two failure rates, both integrated out over a grid.
//!
//! p = α·(1 − (1−θ1)(1−θ0)) + (1−α)·θ0, where θ1 is the failure rate that the region causes and θ0 the background
//! rate. Grids are used instead of conjugate priors because α may be fractional.

use std::collections::BTreeMap;

use super::subject_pool::PooledResults;
use crate::{evidence::weights::to_probes, regions::share::PathShare};

/// Grid of θ1 with prior weights. A flaky cause is the same region with a smaller θ1.
pub(crate) const THETA1: [(f64, f64); 9] = [
    (0.03, 0.05),
    (0.06, 0.06),
    (0.12, 0.07),
    (0.25, 0.09),
    (0.5, 0.12),
    (0.75, 0.11),
    (0.9, 0.12),
    (0.97, 0.18),
    (0.995, 0.20),
];

/// A finer grid of θ1. If the chosen endpoint is unknown, one broken endpoint of several looks like a flaky front,
/// and only the exact rate separates them.
const THETA1_FINE: [(f64, f64); 17] = [
    (0.03, 0.0375),
    (0.045, 0.0275),
    (0.06, 0.03),
    (0.09, 0.0325),
    (0.12, 0.035),
    (0.18, 0.04),
    (0.25, 0.045),
    (0.35, 0.0525),
    (0.5, 0.06),
    (0.62, 0.0575),
    (0.75, 0.055),
    (0.83, 0.0575),
    (0.9, 0.06),
    (0.94, 0.075),
    (0.97, 0.09),
    (0.985, 0.095),
    (0.995, 0.15),
];

/// The grids used for a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct RateGrid {
    /// Whether to use [`THETA1_FINE`].
    pub(crate) fine: bool,
    /// Whether to place points between those of [`THETA1_FINE`]: with many failures, a rate between two points of a coarse
    /// grid looks like a further fault.
    pub(crate) dense: bool,
    /// Multiplier of the background rates.
    pub(crate) background: BackgroundRate,
}

/// Background failure rate of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum BackgroundRate {
    /// Not measured, or as usual.
    #[default]
    Usual,
    /// Measured to be low. Of [`THETA0`], only the rates of a quiet subject are left: a lasting loss of a few percent is a
    /// fault, not its background.
    Quiet,
    /// Higher than usual, as an index into [`BACKGROUND_FACTORS`].
    Raised(u8),
}

/// Weighted median of [`THETA0`].
const THETA0_MEDIAN: f64 = 1e-3;
/// Factors on the rates of [`THETA0`]; noisier subjects use the last one.
const BACKGROUND_FACTORS: [f64; 4] = [3.0, 8.0, 20.0, 50.0];
/// Upper bound of the background rates: above it a fault could no longer stand out.
const MAX_BACKGROUND: f64 = 0.25;

impl BackgroundRate {
    /// Returns the smallest step whose median is at least the measured rate.
    pub(crate) fn for_rate(rate: f64) -> Self {
        if rate <= THETA0_MEDIAN {
            return Self::Usual;
        }
        let step = BACKGROUND_FACTORS
            .iter()
            .position(|step| rate <= THETA0_MEDIAN * step);
        Self::Raised(u8::try_from(step.unwrap_or(BACKGROUND_FACTORS.len() - 1)).unwrap_or(0))
    }

    /// Reports whether a measured rate is that of a quiet subject.
    pub(crate) fn is_quiet(rate: f64) -> bool {
        rate <= THETA0[QUIET_RATES - 1].0
    }

    /// Returns the grid of θ0.
    fn grid(self) -> Vec<(f64, f64)> {
        match self {
            Self::Usual => THETA0.to_vec(),
            Self::Quiet => THETA0[..QUIET_RATES].to_vec(),
            Self::Raised(step) => {
                let factor = BACKGROUND_FACTORS[usize::from(step).min(BACKGROUND_FACTORS.len() - 1)];
                let raised = THETA0
                    .iter()
                    .map(|(rate, weight)| ((rate * factor).min(MAX_BACKGROUND), *weight));
                raised.collect()
            }
        }
    }
}

/// Grid of θ0 with prior weights. Without the fifth point, a real background of 3–5 % raises false alarms.
pub(crate) const THETA0: [(f64, f64); 5] = [
    (2e-4, 0.33),
    (1e-3, 0.33),
    (4e-3, 0.19),
    (1.5e-2, 0.10),
    (5e-2, 0.05),
];

/// Number of rates of [`THETA0`] that a quiet subject may have.
const QUIET_RATES: usize = 3;

/// Failures and successes by share of the region, in units of [`crate::evidence::weights::ONE`].
pub(crate) type ShareGroups = BTreeMap<PathShare, (u64, u64)>;

/// Failures and successes for two faults with separate rates, by share of the first, of the second, and of their
/// union.
pub(crate) type PairGroups = BTreeMap<[PathShare; 3], (u64, u64)>;

/// Distance to the largest value from which [`log_sum_exp`] leaves a value out: thousands of them are less than the rounding
/// error of the sum.
const NEGLIGIBLE: f64 = 60.0;

/// ln Σ exp, summed in the given order.
pub(crate) fn log_sum_exp(values: &[f64]) -> f64 {
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return max;
    }
    // Most points of a grid are this unlikely, and the exponential function takes most of the time.
    let counted = values.iter().filter(|v| max - **v < NEGLIGIBLE);
    max + libm::log(counted.map(|v| libm::exp(v - max)).sum())
}

/// Returns the ln likelihood of the counts with a maximum-likelihood rate per group: an upper bound for every model.
pub(super) fn ln_max_likelihood(groups: impl Iterator<Item = (u64, u64)>) -> f64 {
    let ln_share = |part: f64, all: f64| {
        if part > 0.0 {
            part * libm::log(part / all)
        } else {
            0.0
        }
    };
    groups
        .map(|(failures, successes)| {
            let (failures, successes) = (to_probes(failures), to_probes(successes));
            let all = failures + successes;
            ln_share(failures, all) + ln_share(successes, all)
        })
        .sum()
}

/// Failure probability of a path set with share `alpha` in the region.
pub(crate) fn failure_probability(alpha: f64, theta1: f64, theta0: f64) -> f64 {
    alpha * (1.0 - (1.0 - theta1) * (1.0 - theta0)) + (1.0 - alpha) * theta0
}

#[derive(Debug, Clone)]
struct LikelihoodTable {
    ln_fail: Vec<f64>,
    ln_ok: Vec<f64>,
}

/// The likelihood on one grid, with a cache of tables by share.
#[derive(Debug, Clone)]
pub(crate) struct Likelihood {
    theta1: Vec<f64>,
    pair_theta1: Vec<f64>,
    theta0: Vec<f64>,
    ln_weights: Vec<f64>,
    eta: f64,
    tables: BTreeMap<PathShare, LikelihoodTable>,
    ln_pair_weights: Vec<f64>,
    pair_tables: BTreeMap<[PathShare; 3], LikelihoodTable>,
    /// Results on this grid for the other subjects of the current round.
    pub(super) pooled: PooledResults,
}

impl Default for Likelihood {
    fn default() -> Self {
        Self::new(&THETA1, &THETA1, &THETA0, 1.0)
    }
}

/// Points between two neighbours of the fine grid.
const POINTS_BETWEEN: usize = 3;

/// Returns the fine grid with further points between its own, equidistant in the logit; weights are interpolated.
fn dense_rates() -> Vec<(f64, f64)> {
    let logit = |p: f64| libm::log(p / (1.0 - p));
    let mut points = Vec::new();
    for pair in THETA1_FINE.windows(2) {
        let (lower, upper) = (pair[0], pair[1]);
        let (from, to) = (logit(lower.0), logit(upper.0));
        for step in 0..=POINTS_BETWEEN {
            #[expect(clippy::cast_precision_loss, reason = "below ten")]
            let share = step as f64 / (POINTS_BETWEEN + 1) as f64;
            let rate = 1.0 / (1.0 + libm::exp(-(from + share * (to - from))));
            points.push((rate, lower.1 + share * (upper.1 - lower.1)));
        }
    }
    points.extend(THETA1_FINE.last().copied());
    let total: f64 = points.iter().map(|(_, weight)| weight).sum();
    points
        .into_iter()
        .map(|(rate, weight)| (rate, weight / total))
        .collect()
}

/// Limit of the cache. Shares are fractions of endpoint counts; more of them means that endpoint counts have
/// changed.
const MAX_TABLES: usize = 4096;

impl Likelihood {
    /// Creates the likelihood for a grid.
    pub(crate) fn with_grid(grid: RateGrid) -> Self {
        let theta0 = grid.background.grid();
        let pairs: &[(f64, f64)] = if grid.fine { &THETA1_FINE } else { &THETA1 };
        if grid.dense {
            Self::new(&dense_rates(), pairs, &theta0, 1.0)
        } else {
            Self::new(pairs, pairs, &theta0, 1.0)
        }
    }

    #[cfg(test)]
    pub(crate) fn from_grids(theta1: &[(f64, f64)], theta0: &[(f64, f64)], eta: f64) -> Self {
        Self::new(theta1, theta1, theta0, eta)
    }

    /// `pairs` is the grid of each rate of two faults.
    fn new(theta1: &[(f64, f64)], pairs: &[(f64, f64)], theta0: &[(f64, f64)], eta: f64) -> Self {
        Self {
            pair_theta1: pairs.iter().map(|(value, _)| *value).collect(),
            theta1: theta1.iter().map(|(value, _)| *value).collect(),
            theta0: theta0.iter().map(|(value, _)| *value).collect(),
            ln_weights: theta1
                .iter()
                .flat_map(|(_, u)| theta0.iter().map(move |(_, v)| libm::log(*u) + libm::log(*v)))
                .collect(),
            eta,
            tables: BTreeMap::new(),
            ln_pair_weights: pairs
                .iter()
                .flat_map(|(_, a)| pairs.iter().map(move |(_, b)| libm::log(*a) + libm::log(*b)))
                .flat_map(|u| theta0.iter().map(move |(_, v)| u + libm::log(*v)))
                .collect(),
            pair_tables: BTreeMap::new(),
            pooled: PooledResults::default(),
        }
    }

    /// Forgets the results for other subjects: no later round uses them.
    pub(crate) fn clear_pooled(&mut self) {
        self.pooled = PooledResults::default();
    }

    fn table(&mut self, alpha: PathShare) -> &LikelihoodTable {
        if self.tables.len() >= MAX_TABLES && !self.tables.contains_key(&alpha) {
            self.tables.clear();
        }
        let (theta1, theta0) = (&self.theta1, &self.theta0);
        self.tables.entry(alpha).or_insert_with(|| {
            let p: Vec<f64> = theta1
                .iter()
                .flat_map(|t1| {
                    theta0
                        .iter()
                        .map(|t0| failure_probability(alpha.as_f64(), *t1, *t0))
                })
                .collect();
            LikelihoodTable {
                ln_fail: p.iter().map(|p| libm::log(*p)).collect(),
                ln_ok: p.iter().map(|p| libm::log(1.0 - p)).collect(),
            }
        })
    }

    /// Returns the ln joint weight of each grid point.
    fn ln_grid_weights(&mut self, groups: &ShareGroups) -> Vec<f64> {
        let mut points = vec![0.0; self.ln_weights.len()];
        for (alpha, (failures, successes)) in groups {
            let (failures, successes) = (to_probes(*failures), to_probes(*successes));
            let table = self.table(*alpha);
            for ((point, ln_fail), ln_ok) in points.iter_mut().zip(&table.ln_fail).zip(&table.ln_ok) {
                *point += failures * ln_fail + successes * ln_ok;
            }
        }
        let eta = self.eta;
        for (point, weight) in points.iter_mut().zip(&self.ln_weights) {
            *point = weight + eta * *point;
        }
        points
    }

    /// Returns ln m, the ln marginal likelihood of the counts with both rates integrated out.
    pub(crate) fn ln_marginal(&mut self, groups: &ShareGroups) -> f64 {
        let points = self.ln_grid_weights(groups);
        log_sum_exp(&points)
    }

    /// Returns the ln marginal likelihood of two faults with separate rates.
    pub(crate) fn ln_marginal_pair(&mut self, groups: &PairGroups) -> f64 {
        let mut points = vec![0.0; self.ln_pair_weights.len()];
        for (shares, (failures, successes)) in groups {
            let (failures, successes) = (to_probes(*failures), to_probes(*successes));
            let table = self.pair_table(*shares);
            for ((point, ln_fail), ln_ok) in points.iter_mut().zip(&table.ln_fail).zip(&table.ln_ok) {
                *point += failures * ln_fail + successes * ln_ok;
            }
        }
        for (point, weight) in points.iter_mut().zip(&self.ln_pair_weights) {
            *point = weight + self.eta * *point;
        }
        log_sum_exp(&points)
    }

    fn pair_table(&mut self, shares: [PathShare; 3]) -> &LikelihoodTable {
        if self.pair_tables.len() >= MAX_TABLES && !self.pair_tables.contains_key(&shares) {
            self.pair_tables.clear();
        }
        let (theta1, theta0) = (&self.pair_theta1, &self.theta0);
        self.pair_tables.entry(shares).or_insert_with(|| {
            let [first, second, either] = shares.map(PathShare::as_f64);
            let both = first + second - either;
            let p: Vec<f64> = theta1
                .iter()
                .flat_map(|a| theta1.iter().map(move |b| (*a, *b)))
                .flat_map(|(a, b)| theta0.iter().map(move |t| (a, b, *t)))
                .map(|(a, b, t)| {
                    let miss = |rate: f64| 1.0 - (1.0 - rate) * (1.0 - t);
                    (first - both) * miss(a)
                        + (second - both) * miss(b)
                        + both * miss(1.0 - (1.0 - a) * (1.0 - b))
                        + (1.0 - either) * t
                })
                .collect();
            LikelihoodTable {
                ln_fail: p.iter().map(|p| libm::log(*p)).collect(),
                ln_ok: p.iter().map(|p| libm::log(1.0 - p)).collect(),
            }
        })
    }

    /// Returns E[θ0] and E[θ1·(1−θ0)] under the posterior of the rates. The failure probability of any share is
    /// linear in them.
    pub(crate) fn expected_rates(&mut self, groups: &ShareGroups) -> (f64, f64) {
        let points = self.ln_grid_weights(groups);
        let total = log_sum_exp(&points);
        let (mut background, mut caused) = (0.0, 0.0);
        let columns = self.theta0.len();
        for (i, point) in points.iter().enumerate() {
            let weight = libm::exp(point - total);
            let theta0 = self.theta0[i % columns];
            background += weight * theta0;
            caused += weight * self.theta1[i / columns] * (1.0 - theta0);
        }
        (background, caused)
    }

    /// Returns the posterior means of θ1 and θ0.
    #[cfg(test)]
    pub(crate) fn posterior_means(&mut self, groups: &ShareGroups) -> (f64, f64) {
        let points = self.ln_grid_weights(groups);
        let total = log_sum_exp(&points);
        let (mut mean1, mut mean0) = (0.0, 0.0);
        let columns = self.theta0.len();
        for (i, point) in points.iter().enumerate() {
            let weight = libm::exp(point - total);
            mean1 += weight * self.theta1[i / columns];
            mean0 += weight * self.theta0[i % columns];
        }
        (mean1, mean0)
    }
}

#[cfg(test)]
mod tests;
