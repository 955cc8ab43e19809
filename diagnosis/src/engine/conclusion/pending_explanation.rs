//! Verdicts wait for an explanation that another subject suspects and has not named yet.

use std::collections::BTreeMap;

use parallax_model::{EventTime, Micros};

use super::attribution::MIN_FURTHER_GAIN;
use crate::{
    engine::Engine,
    ids::NodeIx,
    inference::{
        judgement::{ExplainedRegion, Judgement, MIN_CLASS_MASS},
        judgement_unit::JudgementUnit,
        likelihood::Likelihood,
        posterior::MIN_KNOWN_GAIN,
    },
    regions::Region,
};

/// Rounds in which a subject can name a region that it suspects, while the verdicts that the region would explain wait.
const ROUNDS_TO_NAME: u64 = 3;

/// Rounds for which a verdict waits at most, for any number of subjects that begin to suspect something.
const MAX_HELD_ROUNDS: u64 = 6;

/// Probability from which a region that is not named yet is a possible cause of what fails behind it.
const MIN_SUSPICION: f64 = 0.2;

/// How strongly a subject suspects a region that it did not name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine) enum Suspicion {
    /// Nothing may be wrong; the region has this probability.
    Possible(f64),
    /// Something is wrong since this time, and the region explains it best.
    Likely { since: EventTime },
}

impl Suspicion {
    /// Returns the suspicion for which a verdict waits longer.
    fn stronger(self, other: Self) -> Self {
        match (self, other) {
            (Self::Possible(a), Self::Possible(b)) => Self::Possible(a.max(b)),
            (Self::Likely { since: a }, Self::Likely { since: b }) => Self::Likely { since: a.max(b) },
            (Self::Likely { .. }, Self::Possible(_)) => self,
            (Self::Possible(_), Self::Likely { .. }) => other,
        }
    }

    /// Reports whether a verdict that is held since `held` still waits. A subject that begins to suspect a region while the
    /// verdict waits gets its own rounds to name it.
    fn holds(self, held: EventTime, at: EventTime, interval: Micros) -> bool {
        let is_within = |since: EventTime, rounds: u64| at - since < Micros(rounds * interval.0);
        match self {
            Self::Possible(_) => is_within(held, 1),
            Self::Likely { since } => {
                is_within(held.max(since), ROUNDS_TO_NAME) && is_within(held, MAX_HELD_ROUNDS)
            }
        }
    }
}

impl Engine {
    /// Records the regions that the subject suspects and did not name, for the subjects that are judged after it.
    pub(super) fn record_pending(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        nothing_reported: bool,
        at: EventTime,
    ) {
        let before = self.judgement.pending.get(unit);
        let likely = |region: &Region| match before.and_then(|regions| regions.get(region)) {
            Some(likely @ Suspicion::Likely { .. }) => *likely,
            Some(Suspicion::Possible(_)) | None => Suspicion::Likely { since: at },
        };
        let mut regions = BTreeMap::new();
        if nothing_reported && !unit.is_latency() {
            for finding in &judgement.findings {
                let class = finding.class.iter().filter(|region| region.is_cluster_wide());
                if judgement.p_healthy < 0.5 {
                    regions.extend(class.map(|region| (*region, likely(region))));
                } else if finding.probability >= MIN_SUSPICION {
                    let possible = Suspicion::Possible(finding.probability);
                    regions.extend(class.map(|region| (*region, possible)));
                }
            }
        }
        if regions.is_empty() {
            self.judgement.pending.remove(unit);
        } else {
            self.judgement.pending.insert(unit.clone(), regions);
        }
    }

    /// Returns a region that a subject judged earlier, or another host, suspects, if it would make a finding unnecessary. That
    /// subject gets a few rounds to name it, or one if the region is merely possible.
    pub(super) fn pending_explanation(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &ExplainedRegion,
        at: EventTime,
    ) -> Option<Region> {
        if unit.is_latency() || self.incidents.is_open(unit, finding.region) {
            return None;
        }
        let held = self.judgement.units.get(unit)?.held_since.unwrap_or(at);
        let interval = self.settings.interval;
        let (holding, expired): (Vec<_>, Vec<_>) = self
            .suspected_regions(unit, judgement, finding, at)
            .into_iter()
            .partition(|(_, suspicion)| suspicion.holds(held, at, interval));
        // What the subject has named remains a cause if another one explains the rest.
        let open = self.incidents.named_together(unit).into_iter();
        let open = open.filter_map(|named| named.first().copied());
        let others = judgement.known.iter().copied().chain(open);
        let others: Vec<Region> = others.filter(|other| *other != finding.region).collect();
        // One for all suspected regions: it keeps what was computed for the other subjects.
        let mut likelihood = Likelihood::default();
        let mut explanation = |suspected: Vec<(Region, Suspicion)>| {
            let mut suspected = suspected.into_iter();
            suspected
                .find(|suspected| may_be_explained(judgement, finding, &others, *suspected, &mut likelihood))
        };
        let cause = explanation(holding);
        // A verdict that waited long enough does not begin to wait anew while the region is still suspected.
        let is_suspected = cause.is_some() || explanation(expired).is_some();
        self.judgement.units.get_mut(unit)?.held_since = is_suspected.then_some(held);
        cause.map(|(region, _)| region)
    }

    /// Returns the regions that subjects judged earlier, other hosts and silent probers point to, apart from the finding and known
    /// causes.
    fn suspected_regions(
        &self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &ExplainedRegion,
        at: EventTime,
    ) -> BTreeMap<Region, Suspicion> {
        let is_host = |unit: &JudgementUnit| matches!(unit, JudgementUnit::Target(_));
        let mut pending: BTreeMap<Region, Suspicion> = BTreeMap::new();
        // A subject that suspects the finding's region as well agrees with it.
        let disagrees = |(_, regions): &(&JudgementUnit, &BTreeMap<Region, Suspicion>)| {
            !regions.contains_key(&finding.region)
        };
        for (other, regions) in self.judgement.pending.iter().filter(disagrees) {
            let is_judged_before = other.judgement_order() < unit.judgement_order();
            let is_host_beside = other != unit && is_host(other) && is_host(unit);
            for (region, suspicion) in regions {
                let counts = match suspicion {
                    Suspicion::Likely { .. } => is_judged_before || is_host_beside,
                    Suspicion::Possible(_) => is_judged_before,
                };
                if counts && *region != finding.region && !judgement.known.contains(region) {
                    let strongest = pending.entry(*region).or_insert(*suspicion);
                    *strongest = strongest.stronger(*suspicion);
                }
            }
        }
        // The network can name them once their echoes are not withheld any more.
        let silent = Suspicion::Likely { since: at };
        let nodes = self.suspected_nodes(unit, judgement, finding);
        pending.extend(nodes.map(|node| (Region::Bnode(node), silent)));
        pending
    }

    /// Returns the nodes whose prober neither answers nor reports, except those of known causes and of the finding itself. The
    /// network cannot tell yet whether the node or only its prober is away.
    fn suspected_nodes(
        &self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &ExplainedRegion,
    ) -> impl Iterator<Item = NodeIx> {
        let is_network = matches!(unit, JudgementUnit::Mesh);
        let mut silent: Vec<NodeIx> = self.presence.withheld.silent_nodes().collect();
        let named = || judgement.known.iter().chain([&finding.region]);
        silent.retain(|node| !is_network && named().all(|region| region.node() != Some(*node)));
        silent.into_iter()
    }
}

/// Reports whether a region that other subjects suspect explains, beside the other causes, what a finding does. A region that is
/// only possible must leave the finding without a verdict, too: its probability takes the place of its prior, because the finding's
/// subject does not see the evidence for it.
fn may_be_explained(
    judgement: &Judgement,
    finding: &ExplainedRegion,
    others: &[Region],
    (region, suspicion): (Region, Suspicion),
    likelihood: &mut Likelihood,
) -> bool {
    let problem = judgement.input.comparison();
    let beside_others = |region: Region| {
        let others = others.iter().filter(|other| **other != region);
        others.copied().chain([region]).collect::<Vec<_>>()
    };
    let scored = |region: Region| {
        let mut scored = judgement.posterior.scored.iter();
        scored.find(|scored| scored.region == region)
    };
    if let (Suspicion::Possible(probability), Some(own)) = (suspicion, scored(finding.region)) {
        let pooled = scored(region).map_or(0.0, |scored| scored.ln_pooled);
        let named = problem.ln_marginal(&beside_others(finding.region), likelihood);
        let suspected = problem.ln_marginal(&beside_others(region), likelihood);
        let ln_odds = own.ln_prior_with_pool() + named - libm::log(probability) - pooled - suspected;
        if 1.0 / (1.0 + libm::exp(-ln_odds)) >= MIN_CLASS_MASS {
            return false;
        }
    }
    // Where the subject has few failures, those of other subjects decide, as they did for the finding.
    let explains = judgement.posterior.likelihood_gain(region).map_or_else(
        || !problem.explaining(&[region], likelihood).is_empty(),
        |gain| gain > MIN_KNOWN_GAIN,
    );
    if !explains {
        return false;
    }
    let given = problem.posterior_given(&beside_others(region), likelihood);
    given
        .gain(finding.region)
        .is_none_or(|gain| gain < MIN_FURTHER_GAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Micros = Micros(5_000_000);

    fn round(round: i64) -> EventTime {
        EventTime(round * 5_000_000)
    }

    /// Returns the number of rounds for which a verdict waits that is held since round 0.
    fn held_rounds(suspicion: impl Fn(i64) -> Suspicion) -> usize {
        let rounds = (0..20).take_while(|now| suspicion(*now).holds(round(0), round(*now), INTERVAL));
        rounds.count()
    }

    fn likely_since(since: i64) -> Suspicion {
        Suspicion::Likely { since: round(since) }
    }

    #[test]
    fn a_subject_that_suspects_a_region_has_three_rounds_to_name_it_or_one_if_nothing_may_be_wrong() {
        assert_eq!(held_rounds(|_| likely_since(-9)), 3);
        assert_eq!(held_rounds(|_| Suspicion::Possible(0.4)), 1);
    }

    /// The hosts of a node suspect each other first. Two rounds later, its addresses suspect the node.
    #[test]
    fn a_subject_that_begins_to_suspect_a_region_later_has_its_own_rounds_to_name_it() {
        let hosts = likely_since(0);
        assert_eq!(
            held_rounds(|now| if now < 2 {
                hosts
            } else {
                hosts.stronger(likely_since(2))
            }),
            5
        );
    }

    #[test]
    fn no_number_of_suspicions_delays_a_verdict_for_more_than_six_rounds() {
        assert_eq!(held_rounds(likely_since), 6);
    }
}
