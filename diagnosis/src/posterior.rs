//! From counts to probabilities: posterior over regions, classes that the evidence cannot separate, several faults.

use std::collections::BTreeMap;

use crate::{
    data::{Data, Shares},
    likelihood::{Groups, Likelihood, lse},
    prior::{Hypothesis, P_FAULT},
    region::{Alpha, Region},
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
    /// ln of the probability of the kinds of failure.
    pub(crate) ln_kinds: f64,
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
    signature: Signature,
}

/// Observed cells with a share above zero, in thousandths: what two regions must differ in to be told apart.
type Signature = Vec<(usize, u32)>;

impl Scored {
    pub(crate) fn score(&self) -> f64 {
        self.ln_prior + self.ln_m + self.ln_kinds
    }
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

/// A hypothesis with what it touches.
#[derive(Debug)]
struct Candidate {
    hypothesis: Hypothesis,
    shares: Shares,
    failing: Vec<usize>,
}

/// A fixed set of regions with what they touch together.
#[derive(Debug, Default)]
struct Fixed {
    regions: Vec<Region>,
    shares: Shares,
    failing: Vec<Vec<usize>>,
}

/// One comparison: all hypotheses on the same data.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) data: &'a Data,
    pub(crate) scene: &'a Scene,
    candidates: Vec<Candidate>,
    /// Two faults may have a rate each; otherwise their union has one.
    own_rates: bool,
}

/// Below this many hypotheses all are compared; above, only those whose region holds a failure. The others explain
/// nothing and differ from "healthy" by less than their prior.
const COMPARE_ALL: usize = 400;
/// Behind the best by more than this, a second fault is out of the question: not even a rate of its own brings it back.
const OWN_RATE_REACH: f64 = 10.0;

impl<'a> Problem<'a> {
    pub(crate) fn new(data: &'a Data, scene: &'a Scene, hypotheses: &[Hypothesis]) -> Self {
        let all = hypotheses.len() <= COMPARE_ALL;
        let candidates = hypotheses
            .iter()
            .filter_map(|hypothesis| {
                let shares = data.shares(hypothesis.region, scene);
                let failing = data.failing(&shares);
                (all || !failing.is_empty()).then_some(Candidate {
                    hypothesis: *hypothesis,
                    shares,
                    failing,
                })
            })
            .collect();
        Self {
            data,
            scene,
            candidates,
            own_rates: true,
        }
    }

    /// The same with one rate for all faults together.
    #[cfg(test)]
    pub(crate) fn with_one_rate(mut self) -> Self {
        self.own_rates = false;
        self
    }

    fn fix(&self, regions: &[Region]) -> Fixed {
        let mut fixed = Fixed::default();
        for region in regions {
            let shares = self.data.shares(*region, self.scene);
            fixed.failing.push(self.data.failing(&shares));
            fixed.shares = self
                .data
                .union((&fixed.shares, &fixed.regions), (&shares, *region), self.scene);
            fixed.regions.push(*region);
        }
        fixed
    }

    /// Posterior given the fixed regions.
    pub(crate) fn given(&self, fixed: &[Region], likelihood: &mut Likelihood) -> Posterior {
        let mut signatures: BTreeMap<Signature, Vec<usize>> = BTreeMap::new();
        let mut all: Vec<Scored> = Vec::new();
        let fixed = self.fix(fixed);
        let mut unions: BTreeMap<Signature, Vec<(usize, Signature)>> = BTreeMap::new();
        let joined = self.score(&fixed, likelihood);
        let best = joined
            .iter()
            .map(|(s, _)| s.score())
            .fold(f64::NEG_INFINITY, f64::max);
        for (entry, shares) in joined {
            let print = |shares: &[(usize, Alpha)]| -> Signature {
                let shares = shares.iter().map(|(i, alpha)| (*i, alpha.permille()));
                shares.filter(|(_, permille)| *permille > 0).collect()
            };
            let mut signature = print(shares);
            // Two faults can be told by their rates and kinds even where their union is all there is; so what counts is
            // the region's own shares. Unless rates and kinds say nothing: then regions with one union are one.
            let matters = entry.score() + OWN_RATE_REACH >= best && entry.region != Region::Healthy;
            if !fixed.regions.is_empty() && matters {
                let own = shares.to_vec();
                let union =
                    self.data
                        .union((&fixed.shares, &fixed.regions), (&own, entry.region), self.scene);
                let union = print(&union);
                if union != print(&fixed.shares) {
                    let told = |i: &usize| {
                        let other: &Scored = &all[*i];
                        (other.ln_m + other.ln_kinds - entry.ln_m - entry.ln_kinds).abs() >= TOLD
                    };
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
        let total = lse(&all.iter().map(Scored::score).collect::<Vec<_>>());
        for entry in &mut all {
            entry.p = libm::exp(entry.score() - total);
        }
        let scored = all;
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

    /// Scores of "nothing more" and of every region that joins the fixed ones, with the region's own shares.
    fn score<'s>(
        &'s self,
        fixed: &Fixed,
        likelihood: &mut Likelihood,
    ) -> Vec<(Scored, &'s [(usize, Alpha)])> {
        let mut known: BTreeMap<Groups, f64> = BTreeMap::new();
        let mut ln_m = |shares: &Shares, likelihood: &mut Likelihood| {
            let groups = self.data.groups(shares);
            *known
                .entry(groups)
                .or_insert_with_key(|groups| likelihood.ln_m(groups))
        };
        let none = Scored {
            region: Region::Healthy,
            ln_prior: libm::log(1.0 - P_FAULT),
            ln_m: ln_m(&fixed.shares, likelihood),
            ln_kinds: self.ln_kinds(fixed, None),
            p: 0.0,
        };
        let mut scored: Vec<(Scored, &[(usize, Alpha)])> = vec![(none, &[])];
        let mut unions = Vec::new();
        for candidate in &self.candidates {
            let region = candidate.hypothesis.region;
            // Beside other faults, a region without a failure has nothing to explain.
            if !fixed.regions.is_empty() && (candidate.failing.is_empty() || fixed.regions.contains(&region))
            {
                continue;
            }
            let union = self.data.union(
                (&fixed.shares, &fixed.regions),
                (&candidate.shares, region),
                self.scene,
            );
            let entry = Scored {
                region,
                ln_prior: candidate.hypothesis.ln_prior,
                ln_m: ln_m(&union, likelihood),
                ln_kinds: self.ln_kinds(fixed, Some(candidate)),
                p: 0.0,
            };
            scored.push((entry, &candidate.shares));
            unions.push(union);
        }
        if fixed.regions.len() == 1 && self.own_rates {
            let best = scored
                .iter()
                .map(|(s, _)| s.score())
                .fold(f64::NEG_INFINITY, f64::max);
            for ((entry, shares), union) in scored.iter_mut().skip(1).zip(&unions) {
                if entry.score() + OWN_RATE_REACH < best {
                    continue;
                }
                // Even odds that two faults share one rate or have one each.
                let groups = self.data.pair_groups(&fixed.shares, shares, union);
                let ln_own = likelihood.ln_m_pair(&groups);
                entry.ln_m = lse(&[entry.ln_m, ln_own]) - std::f64::consts::LN_2;
            }
        }
        scored
    }

    fn ln_kinds(&self, fixed: &Fixed, joined: Option<&Candidate>) -> f64 {
        let mut blamed: Vec<(Region, &[usize])> = fixed
            .regions
            .iter()
            .copied()
            .zip(fixed.failing.iter().map(Vec::as_slice))
            .collect();
        blamed.extend(joined.map(|c| (c.hypothesis.region, c.failing.as_slice())));
        self.data.ln_kinds(&blamed, self.scene)
    }

    /// The set of faults that explains the data: the best one, then as long as another one pays for itself.
    ///
    /// Greedy alone starts from the best single region, which for two faults may be a wide one that covers both badly;
    /// so the search starts from several of the best.
    pub(crate) fn explain(&self, single: &Posterior, likelihood: &mut Likelihood) -> Vec<Region> {
        let mut starts: Vec<&Scored> = single
            .classes
            .iter()
            .filter(|class| !class.unobserved)
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
            .map(|c| c.hypothesis.ln_prior)
            .fold(f64::NEG_INFINITY, f64::max);
        let mut pair: Option<(Vec<Region>, f64)> = None;
        for seed in starts.iter().take(STARTS) {
            // Likelihood and kinds can at best reach certainty.
            if seed.ln_prior + likeliest_prior < score + SECOND_FAULT {
                continue;
            }
            if let Some((other, gain)) = self.best_addition(&[seed.region], likelihood) {
                let total = seed.ln_prior + gain;
                if pair.as_ref().is_none_or(|(_, best)| total > *best) {
                    pair = Some((vec![seed.region, other], total));
                }
            }
        }
        if let Some((regions, total)) = pair
            && total - score > SECOND_FAULT
        {
            let priors: f64 = regions.iter().map(|r| self.ln_prior(*r)).sum();
            chosen = regions;
            if let Some((third, gain)) = self.best_addition(&chosen, likelihood)
                && priors + gain - total > SECOND_FAULT
            {
                chosen.push(third);
            }
        }
        chosen
    }

    /// The region that adds most to the fixed ones, and the score of the union without the priors of the fixed.
    fn best_addition(&self, fixed: &[Region], likelihood: &mut Likelihood) -> Option<(Region, f64)> {
        self.score(&self.fix(fixed), likelihood)
            .into_iter()
            .skip(1)
            .map(|(s, _)| (s.region, s.score()))
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }

    pub(crate) fn ln_prior(&self, region: Region) -> f64 {
        self.candidates
            .iter()
            .find(|c| c.hypothesis.region == region)
            .map_or(f64::NEG_INFINITY, |c| c.hypothesis.ln_prior)
    }

    /// ln m of a union of regions.
    pub(crate) fn ln_m(&self, regions: &[Region], likelihood: &mut Likelihood) -> f64 {
        let fixed = self.fix(regions);
        likelihood.ln_m(&self.data.groups(&fixed.shares))
    }

    /// Classes nearly as good as the first: a Bayes factor below ten, or fewer than three probes that could have told.
    pub(crate) fn near_ties<'p>(&self, posterior: &'p Posterior, best: &Class) -> Vec<&'p Class> {
        let ln_m = |class: &Class| {
            class
                .members
                .first()
                .map_or(f64::NEG_INFINITY, |i| posterior.scored[*i].ln_m)
        };
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
            .map(|(i, d)| {
                f64::from(u32::try_from(d.abs()).unwrap_or(1000)) / 1000.0 * probes(self.data.cells[i].n)
            })
            .sum()
    }
}

/// How many of the best regions are tried as one half of two faults.
const STARTS: usize = 6;
/// Nats by which rates and kinds must part two regions that, beside other faults, break the same paths.
const TOLD: f64 = 1.0;
/// What another fault must earn beyond its prior, in nats.
const SECOND_FAULT: f64 = 3.0;
/// ln of a Bayes factor of ten.
const NEAR_FACTOR: f64 = 2.3;
const NEAR_PROBES: f64 = 3.0;
/// A class with less is not worth a reader's doubt, however few probes spoke against it.
const NEAR_MASS: f64 = 1e-3;
