//! Pooled evidence: the contribution of other subjects to hypotheses that would affect them too.
//!
//! A local hypothesis leaves the other subjects independent: healthy, or with a local cause of their own. A global
//! hypothesis applies to them as well, so its score gains ln m(global) − ln Σ π(local)·m(local) for each other
//! subject. For a healthy subject the sum is almost equal to m(healthy).
//!
//! When a global region is already part of the explanation, a further one gains only what it explains in the other
//! subjects beyond the first, so the same failures are not counted twice. The same holds for the regions of open
//! incidents: what they explain in another subject is no evidence for a further fault of this one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    candidates::CandidateHypothesis,
    comparison_data::{ComparisonData, RegionShares},
    likelihood::{Likelihood, ln_max_likelihood, log_sum_exp},
    posterior::Comparison,
    prior::{Hypothesis, P_FAULT},
};
use crate::regions::{Region, paths::SubjectPaths};

/// Probability that a shared cause which may spare a subject affects it.
const P_AFFECTED: f64 = 0.1;
/// Distance to the best local hypothesis of another subject, in nats, beyond which its others are left out.
const LOCAL_MARGIN: f64 = 5.0;
/// Maximum number of local hypotheses of another subject that are combined with a shared region.
const MAX_LOCAL: usize = 4;

/// Number of an [`OtherSubject`], different from those of all earlier rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OtherSubjectNumber(pub(crate) u64);

/// Another subject, with its data from the same start round.
#[derive(Debug)]
pub(crate) struct OtherSubject {
    pub(crate) number: OtherSubjectNumber,
    pub(crate) data: ComparisonData,
    pub(crate) paths: SubjectPaths,
    pub(crate) candidates: Vec<CandidateHypothesis>,
}

/// What another subject of a pool is to the judged one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// A subject of the same kind.
    Sibling,
    /// The front through which the subject is reached.
    Front,
}

/// Another subject of a pool.
#[derive(Debug)]
struct PooledSubject {
    subject: Arc<OtherSubject>,
    relation: Relation,
    /// The regions of open incidents that explain its failures.
    explained_by: Vec<Region>,
}

/// The other subjects, and the predicate that selects regions common to all of them.
#[derive(Debug)]
pub(crate) struct SubjectPool {
    others: Vec<PooledSubject>,
    /// The regions of open incidents that each of the others was compared with.
    known: Vec<Region>,
    is_shared: fn(Region) -> bool,
    is_local: fn(Region) -> bool,
}

impl Default for SubjectPool {
    fn default() -> Self {
        Self::new(Vec::new(), Region::is_global, |region| !region.is_global())
    }
}

/// Baseline of [`SubjectPool::ln_gain`], for each other subject.
#[derive(Debug)]
pub(crate) struct BaseRegions {
    per_subject: Vec<Arc<SubjectBaseline>>,
}

/// What was computed for the other subjects of a round. If a node fails, dozens of subjects are compared with the same others.
#[derive(Debug, Clone, Default)]
pub(crate) struct PooledResults {
    explained_by: BTreeMap<(OtherSubjectNumber, Vec<Region>), Vec<Region>>,
    /// By the subject, the regions of open incidents that explain its failures, and the given regions.
    baselines: BTreeMap<(OtherSubjectNumber, Vec<Region>, Vec<Region>), Arc<SubjectBaseline>>,
    /// [`OtherSubject::ln_gain`] for each baseline, by [`SubjectBaseline::index`].
    gains: Vec<BTreeMap<Region, f64>>,
}

/// Another subject with only the given regions shared.
#[derive(Debug)]
struct SubjectBaseline {
    /// Position of its gains in [`PooledResults`].
    index: usize,
    /// The regions of open incidents that explain its failures, and the given regions.
    regions: Vec<Region>,
    /// The shares of each of them.
    each: Vec<RegionShares>,
    /// The failing cells of each of the former.
    explained_by: Vec<Vec<usize>>,
    shares: RegionShares,
    /// The local hypotheses that make its results likelier than none.
    local: Vec<Hypothesis>,
    ln_marginal: f64,
    /// Upper bound of [`OtherSubject::ln_gain`].
    max_gain: f64,
}

impl PooledResults {
    /// Makes room for the gains beyond a further baseline, and returns its index.
    fn add_baseline(&mut self) -> usize {
        self.gains.push(BTreeMap::new());
        self.gains.len() - 1
    }
}

impl BaseRegions {
    /// Upper bound of [`SubjectPool::ln_gain`] for every region.
    pub(crate) fn max_gain(&self) -> f64 {
        self.per_subject.iter().map(|base| base.max_gain).sum()
    }
}

impl OtherSubject {
    /// Returns the union of regions, given the shares of each.
    fn union<'a>(&self, each: impl Iterator<Item = (Region, &'a RegionShares)>) -> RegionShares {
        let mut known: Vec<Region> = Vec::new();
        let mut shares = RegionShares::new();
        for (region, own) in each {
            shares = self.data.union((&shares, &known), (own, region), &self.paths);
            known.push(region);
        }
        shares
    }

    /// Returns the shares with a region added to others, or `None` if the region contains no failure.
    fn with_failing(
        &self,
        (shares, regions): (&RegionShares, &[Region]),
        region: Region,
    ) -> Option<RegionShares> {
        let own = self.data.shares(region, &self.paths);
        self.data
            .has_failures(&own)
            .then(|| self.data.union((shares, regions), (&own, region), &self.paths))
    }

    fn baseline(
        &self,
        (explained_by, given): (&[Region], &[Region]),
        is_local: fn(Region) -> bool,
        l: &mut Likelihood,
    ) -> SubjectBaseline {
        let regions = [explained_by, given].concat();
        let each: Vec<RegionShares> = regions
            .iter()
            .map(|region| self.data.shares(*region, &self.paths))
            .collect();
        let shares = self.union(regions.iter().copied().zip(&each));
        let none = libm::log(1.0 - P_FAULT) + l.ln_marginal(&self.data.groups(&shares));
        let mut terms = vec![none];
        let mut local = Vec::new();
        if self.data.failures() > 0 {
            let may_explain = |candidate: &&CandidateHypothesis| {
                is_local(candidate.hypothesis.region) && !candidate.failing.is_empty()
            };
            for CandidateHypothesis {
                hypothesis,
                shares: own,
                ..
            } in self.candidates.iter().filter(may_explain)
            {
                let union = self
                    .data
                    .union((&shares, &regions), (own, hypothesis.region), &self.paths);
                let term = hypothesis.ln_prior + l.ln_marginal(&self.data.groups(&union));
                terms.push(term);
                if term > none {
                    local.push((term, *hypothesis));
                }
            }
        }
        local.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.region.cmp(&b.1.region)));
        let best = local.first().map_or(0.0, |(term, _)| *term);
        let near = local
            .into_iter()
            .take_while(|(term, _)| best - term < LOCAL_MARGIN);
        let ln_marginal = log_sum_exp(&terms);
        let cells = (0..self.data.cells.len()).map(|cell| self.data.counts(cell));
        SubjectBaseline {
            index: l.pooled.add_baseline(),
            regions,
            explained_by: each[..explained_by.len()]
                .iter()
                .map(|shares| self.data.failing_cells(shares))
                .collect(),
            each,
            shares,
            local: near.take(MAX_LOCAL).map(|(_, hypothesis)| hypothesis).collect(),
            ln_marginal,
            max_gain: (ln_max_likelihood(cells) - ln_marginal).max(0.0),
        }
    }

    /// Returns the ln Bayes factor of a region beyond a baseline. The subject may have a local fault beside it: two faults
    /// at a time must not rule each other out.
    fn ln_gain(&self, base: &SubjectBaseline, region: Region, l: &mut Likelihood) -> f64 {
        let own = self.data.shares(region, &self.paths);
        if own.is_empty() {
            return 0.0;
        }
        let all = self.ln_marginal_with((&base.shares, &base.regions), (&own, region), &base.local, l);
        let best = match self.necessary_beside(base, &own) {
            Some(necessary) => {
                let shares = self.union(necessary.iter().map(|i| (base.regions[*i], &base.each[*i])));
                let regions: Vec<Region> = necessary.iter().map(|i| base.regions[*i]).collect();
                let without = self.ln_marginal_with((&shares, &regions), (&own, region), &base.local, l);
                all.max(without)
            }
            None => all,
        };
        best - base.ln_marginal
    }

    /// Returns the positions of a baseline's regions without the open incidents all of whose failures here lie in another region,
    /// too; `None` if there are none. Without that region, an incident that is not at work here may have explained a part of what it
    /// causes.
    fn necessary_beside(&self, base: &SubjectBaseline, own: &RegionShares) -> Option<Vec<usize>> {
        if base.explained_by.is_empty() {
            return None;
        }
        let covered: BTreeSet<usize> = self.data.failing_cells(own).into_iter().collect();
        let is_necessary = |position: &usize| {
            let failing = base.explained_by.get(*position);
            failing.is_none_or(|failing| failing.iter().any(|cell| !covered.contains(cell)))
        };
        let necessary: Vec<usize> = (0..base.regions.len()).filter(is_necessary).collect();
        (necessary.len() < base.regions.len()).then_some(necessary)
    }

    /// Returns the ln marginal likelihood of a region beside others, and beside the local hypotheses.
    fn ln_marginal_with(
        &self,
        (shares, regions): (&RegionShares, &[Region]),
        (own, region): (&RegionShares, Region),
        local: &[Hypothesis],
        l: &mut Likelihood,
    ) -> f64 {
        let union = self.data.union((shares, regions), (own, region), &self.paths);
        let mut terms = vec![libm::log(1.0 - P_FAULT) + l.ln_marginal(&self.data.groups(&union))];
        if !local.is_empty() {
            let regions = [regions, &[region]].concat();
            for hypothesis in local.iter().filter(|h| h.region != region) {
                if let Some(both) = self.with_failing((&union, &regions), hypothesis.region) {
                    terms.push(hypothesis.ln_prior + l.ln_marginal(&self.data.groups(&both)));
                }
            }
        }
        log_sum_exp(&terms)
    }
}

impl SubjectPool {
    /// `is_shared` selects the regions that may affect the other subjects too, `is_local` those that each may have of its
    /// own. The same broken Pod may be both.
    pub(crate) fn new(
        others: Vec<Arc<OtherSubject>>,
        is_shared: fn(Region) -> bool,
        is_local: fn(Region) -> bool,
    ) -> Self {
        let pooled = |subject| PooledSubject {
            subject,
            relation: Relation::Sibling,
            explained_by: Vec::new(),
        };
        Self {
            others: others.into_iter().map(pooled).collect(),
            known: Vec::new(),
            is_shared,
            is_local,
        }
    }

    /// Adds the front through which the subject is reached. Its connections support faults of the front, such as of the way to it
    /// from one zone, which the answers to requests may show as well. They need not, so the front says nothing against them.
    pub(crate) fn with_front(mut self, front: Arc<OtherSubject>) -> Self {
        self.others.push(PooledSubject {
            subject: front,
            relation: Relation::Front,
            explained_by: Vec::new(),
        });
        self
    }

    /// Sets the regions of open incidents that may explain failures of the other subjects.
    pub(crate) fn with_known(mut self, known: &[Region], l: &mut Likelihood) -> Self {
        for other in &mut self.others {
            let OtherSubject {
                number, data, paths, ..
            } = other.subject.as_ref();
            if known.is_empty() || data.failures() == 0 {
                continue;
            }
            let key = (*number, known.to_vec());
            other.explained_by = if let Some(explained_by) = l.pooled.explained_by.get(&key) {
                explained_by.clone()
            } else {
                let new = Comparison::new(data, paths, &[]).explaining(known, l);
                l.pooled.explained_by.insert(key, new.clone());
                new
            };
        }
        self.known = known.to_vec();
        self
    }

    /// Reports whether the region would affect the other subjects too.
    pub(crate) fn shares(&self, region: Region) -> bool {
        (self.is_shared)(region)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Computes the baseline in which only the given regions are common to all subjects. The region of an open incident is part
    /// of it only for those that it explains: where it is not at work, it would contradict whatever shares its rate.
    pub(crate) fn baseline(&self, given: &[Region], l: &mut Likelihood) -> BaseRegions {
        let each = self.others.iter().map(|other| {
            let given = given.iter().filter(|region| !self.known.contains(region));
            let key = (
                other.subject.number,
                other.explained_by.clone(),
                given.copied().collect(),
            );
            if let Some(baseline) = l.pooled.baselines.get(&key) {
                return Arc::clone(baseline);
            }
            let is_local = match other.relation {
                Relation::Sibling => self.is_local,
                Relation::Front => |region: Region| !region.is_global(),
            };
            let new = Arc::new(other.subject.baseline((&key.1, &key.2), is_local, l));
            l.pooled.baselines.insert(key, Arc::clone(&new));
            new
        });
        BaseRegions {
            per_subject: each.collect(),
        }
    }

    /// Returns the ln Bayes factor that a shared region gains from the other subjects, relative to a baseline.
    pub(crate) fn ln_gain(&self, base: &BaseRegions, region: Region, l: &mut Likelihood) -> f64 {
        let each = self.others.iter().zip(&base.per_subject);
        each.map(|(other, base)| {
            let subject = other.subject.as_ref();
            let is_concerned = other.relation == Relation::Sibling || region.is_of_front();
            let gain = if is_concerned && subject.data.may_affect(region, &subject.paths) {
                let known = l.pooled.gains[base.index].get(&region).copied();
                known.unwrap_or_else(|| {
                    let new = subject.ln_gain(base, region, l);
                    l.pooled.gains[base.index].insert(region, new);
                    new
                })
            } else {
                0.0
            };
            let may_spare = match other.relation {
                Relation::Sibling => {
                    !region.is_global() && (self.is_local)(region) && !matches!(region, Region::Backend(_))
                }
                Relation::Front => true,
            };
            if may_spare {
                log_sum_exp(&[libm::log(P_AFFECTED) + gain, libm::log(1.0 - P_AFFECTED)])
            } else {
                gain
            }
        })
        .sum()
    }
}
