//! From counts to probabilities: posterior over regions, classes that the evidence cannot separate, several faults.

use std::collections::BTreeMap;

use crate::{
    data::Data,
    likelihood::{Groups, Likelihood, lse},
    prior::{Hypothesis, P_FAULT},
    region::Region,
    scene::Scene,
    weights::probes,
};

/// A region that joins a fixed set of others, with what it earns.
#[derive(Debug, Clone)]
pub(crate) struct Scored {
    /// [`Region::Healthy`] stands for "nothing more".
    pub(crate) region: Region,
    pub(crate) ln_prior: f64,
    /// ln m of the union with the fixed regions.
    pub(crate) ln_m: f64,
    /// Posterior given the fixed regions.
    pub(crate) p: f64,
}

/// Regions with equal shares in every observed cell: the evidence cannot tell them apart.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    /// Positions in [`Posterior::scored`], best prior first.
    pub(crate) members: Vec<usize>,
    pub(crate) mass: f64,
    /// It contains "nothing more": the region was not observed.
    pub(crate) unobserved: bool,
    signature: Vec<(usize, u32)>,
}

/// The posterior over what joins a fixed set of regions; with none fixed, the posterior.
#[derive(Debug, Clone)]
pub(crate) struct Posterior {
    pub(crate) scored: Vec<Scored>,
    /// Heaviest first.
    pub(crate) classes: Vec<Class>,
    /// Probability of "nothing more".
    pub(crate) p_none: f64,
}

/// One comparison: all hypotheses on the same data.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) data: &'a Data,
    pub(crate) scene: &'a Scene,
    pub(crate) hypotheses: &'a [Hypothesis],
}

/// Below this many hypotheses all are compared; above, only those whose region holds a failure. The others explain
/// nothing and differ from "healthy" by less than their prior.
const COMPARE_ALL: usize = 400;

impl Problem<'_> {
    /// Posterior given the fixed regions.
    pub(crate) fn given(&self, fixed: &[Region], likelihood: &mut Likelihood) -> Posterior {
        let mut signatures: BTreeMap<Vec<(usize, u32)>, Vec<usize>> = BTreeMap::new();
        let mut known: BTreeMap<Groups, f64> = BTreeMap::new();
        let none = Hypothesis {
            region: Region::Healthy,
            ln_prior: libm::log(1.0 - P_FAULT),
        };
        let skip_unfailing = self.hypotheses.len() > COMPARE_ALL;
        let mut scored = Vec::new();
        let mut union = fixed.to_vec();
        union.push(Region::Healthy);
        for hypothesis in std::iter::once(&none).chain(self.hypotheses) {
            if fixed.contains(&hypothesis.region) {
                continue;
            }
            if skip_unfailing
                && hypothesis.region != Region::Healthy
                && !self.data.touches_failure(&self.data.shares(&[hypothesis.region], self.scene))
            {
                continue;
            }
            if let Some(last) = union.last_mut() {
                *last = hypothesis.region;
            }
            let shares = self.data.shares(&union, self.scene);
            let groups = self.data.groups(&shares);
            let ln_m = *known.entry(groups).or_insert_with_key(|groups| likelihood.ln_m(groups));
            let signature = shares
                .iter()
                .map(|(i, alpha)| (*i, alpha.permille()))
                .filter(|(_, permille)| *permille > 0)
                .collect();
            signatures.entry(signature).or_default().push(scored.len());
            scored.push(Scored {
                region: hypothesis.region,
                ln_prior: hypothesis.ln_prior,
                ln_m,
                p: 0.0,
            });
        }
        let scores: Vec<f64> = scored.iter().map(|s| s.ln_prior + s.ln_m).collect();
        let total = lse(&scores);
        for (entry, score) in scored.iter_mut().zip(&scores) {
            entry.p = libm::exp(score - total);
        }
        let mut classes: Vec<Class> = signatures
            .into_iter()
            .map(|(signature, mut members)| {
                members.sort_by(|a, b| {
                    let (a, b) = (&scored[*a], &scored[*b]);
                    b.ln_prior.total_cmp(&a.ln_prior).then(a.region.cmp(&b.region))
                });
                Class {
                    mass: members.iter().map(|i| scored[*i].p).sum(),
                    unobserved: members.iter().any(|i| scored[*i].region == Region::Healthy),
                    members,
                    signature,
                }
            })
            .collect();
        classes.sort_by(|a, b| b.mass.total_cmp(&a.mass).then_with(|| a.members.cmp(&b.members)));
        let p_none = scored.first().map_or(1.0, |s| s.p);
        Posterior {
            scored,
            classes,
            p_none,
        }
    }

    /// The set of faults that explains the data: the best one, then as long as another one pays for itself.
    ///
    /// Greedy alone starts from the best single region, which for two faults may be a wide one that covers both badly;
    /// so the search starts from several of the best and every member is exchanged in turn while that helps.
    pub(crate) fn explain(&self, likelihood: &mut Likelihood) -> Vec<Region> {
        let single = self.given(&[], likelihood);
        let mut starts: Vec<&Scored> = single
            .classes
            .iter()
            .filter(|class| !class.unobserved)
            .filter_map(|class| class.members.first())
            .map(|i| &single.scored[*i])
            .collect();
        starts.sort_by(|a, b| (b.ln_prior + b.ln_m).total_cmp(&(a.ln_prior + a.ln_m)).then(a.region.cmp(&b.region)));
        let Some(best) = starts.first() else {
            return Vec::new();
        };
        let mut chosen = vec![best.region];
        let mut score = best.ln_prior + best.ln_m;
        let seeds: Vec<(Region, f64)> = starts
            .iter()
            .take(STARTS)
            .map(|s| (s.region, s.ln_prior))
            .collect();
        let mut pair: Option<(Vec<Region>, f64)> = None;
        for (seed, ln_prior) in seeds {
            if let Some((other, gain)) = self.best_addition(&[seed], likelihood) {
                let total = ln_prior + gain;
                if pair.as_ref().is_none_or(|(_, best)| total > *best) {
                    pair = Some((vec![seed, other], total));
                }
            }
        }
        if let Some((regions, total)) = pair
            && total - score > SECOND_FAULT
        {
            (chosen, score) = (regions, total);
            let priors: f64 = chosen.iter().map(|r| self.ln_prior(*r)).sum();
            if let Some((third, gain)) = self.best_addition(&chosen, likelihood)
                && priors + gain - score > SECOND_FAULT
            {
                chosen.push(third);
            }
        }
        chosen
    }

    /// The region that adds most to the fixed ones, and ln m of the union plus its own prior.
    fn best_addition(&self, fixed: &[Region], likelihood: &mut Likelihood) -> Option<(Region, f64)> {
        let posterior = self.given(fixed, likelihood);
        posterior
            .scored
            .iter()
            .filter(|s| s.region != Region::Healthy)
            .map(|s| (s.region, s.ln_prior + s.ln_m))
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }

    pub(crate) fn ln_prior(&self, region: Region) -> f64 {
        self.hypotheses
            .iter()
            .find(|h| h.region == region)
            .map_or(f64::NEG_INFINITY, |h| h.ln_prior)
    }

    /// ln m of a union of regions.
    pub(crate) fn ln_m(&self, regions: &[Region], likelihood: &mut Likelihood) -> f64 {
        let shares = self.data.shares(regions, self.scene);
        likelihood.ln_m(&self.data.groups(&shares))
    }

    /// Classes nearly as good as the first: a Bayes factor below ten, or fewer than three probes that could have told.
    pub(crate) fn near_ties<'p>(&self, posterior: &'p Posterior, best: &Class) -> Vec<&'p Class> {
        let ln_m = |class: &Class| class.members.first().map_or(f64::NEG_INFINITY, |i| posterior.scored[*i].ln_m);
        posterior
            .classes
            .iter()
            .filter(|class| !class.unobserved && class.signature != best.signature && class.mass >= NEAR_MASS)
            .filter(|class| {
                (ln_m(class) - ln_m(best)).abs() < NEAR_FACTOR || self.apart(best, class) < NEAR_PROBES
            })
            .collect()
    }

    /// Probes on which two classes disagree.
    fn apart(&self, a: &Class, b: &Class) -> f64 {
        let mut differ: BTreeMap<usize, i64> = BTreeMap::new();
        for (i, permille) in &a.signature {
            *differ.entry(*i).or_default() += i64::from(*permille);
        }
        for (i, permille) in &b.signature {
            *differ.entry(*i).or_default() -= i64::from(*permille);
        }
        differ
            .into_iter()
            .map(|(i, d)| f64::from(u32::try_from(d.abs()).unwrap_or(1000)) / 1000.0 * probes(self.data.cells[i].n))
            .sum()
    }
}

/// How many of the best regions are tried as one half of two faults.
const STARTS: usize = 6;
/// What another fault must earn beyond its prior, in nats.
const SECOND_FAULT: f64 = 3.0;
/// ln of a Bayes factor of ten.
const NEAR_FACTOR: f64 = 2.3;
const NEAR_PROBES: f64 = 3.0;
/// A class with less is not worth a reader's doubt, however few probes spoke against it.
const NEAR_MASS: f64 = 1e-3;
