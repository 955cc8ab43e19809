//! Attributes failures of a subject to incidents that other subjects named, and withdraws what these make unnecessary.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Micros};

use crate::{
    engine::Engine,
    ids::{NodeIx, VantageIx},
    incident::ExplainedSubject,
    inference::{
        judgement::{ExplainedRegion, Judgement, MIN_CLASS_MASS},
        judgement_unit::JudgementUnit,
        likelihood::Likelihood,
        posterior::MIN_KNOWN_GAIN,
    },
    regions::Region,
};

/// Rounds for which a verdict waits for a subject judged earlier, or for another host.
const MAX_HELD_ROUNDS: u64 = 3;

/// A region that gains less than this beyond the known causes is not a fault of its own, in nats.
const MIN_OWN_GAIN: f64 = 3.0;

/// Probability from which a region that is not named yet is a possible cause of what fails behind it.
const MIN_SUSPICION: f64 = 0.2;

/// How strongly a subject suspects a region that it did not name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine) enum Suspicion {
    /// Nothing may be wrong; the region has this probability.
    Possible(f64),
    /// Something is wrong, and the region explains it best.
    Likely,
}

impl Suspicion {
    const fn stronger(self, other: Self) -> Self {
        match (self, other) {
            (Self::Possible(a), Self::Possible(b)) => Self::Possible(a.max(b)),
            _ => Self::Likely,
        }
    }
}

impl Engine {
    /// Makes the subject a member of the incidents that explain its failures, and withdraws its own verdicts that they make
    /// unnecessary. `reported` are the ids of the incidents that it named in this round.
    pub(super) fn attribute_to_incidents(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        reported: &BTreeSet<String>,
    ) {
        if unit.is_latency() {
            return;
        }
        let explained: Vec<(Region, ExplainedSubject)> = judgement
            .known
            .iter()
            .map(|region| (*region, self.explained_subject(unit, judgement, *region)))
            .collect();
        let front = self.front_of_unit(unit);
        self.incidents.attribute((unit, front), &explained, reported);
        if judgement.known.is_empty() {
            return;
        }
        let unconfirmed = self.incidents.unconfirmed(unit, reported);
        for region in unconfirmed {
            let mut named = judgement.findings.iter().filter(|finding| finding.is_verdict);
            if named.any(|finding| finding.region == region) {
                continue;
            }
            if judgement.known.contains(&region) {
                self.incidents.withdraw(unit, region, region);
                continue;
            }
            if adds_nothing(judgement, region) {
                self.incidents.withdraw(unit, region, judgement.known[0]);
            }
        }
    }

    /// Records the regions that the subject suspects and did not name, for the subjects that are judged after it.
    pub(super) fn record_pending(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        nothing_reported: bool,
    ) {
        let mut regions = BTreeMap::new();
        if nothing_reported && !unit.is_latency() {
            for finding in &judgement.findings {
                let suspicion = if judgement.p_healthy < 0.5 {
                    Suspicion::Likely
                } else if finding.probability >= MIN_SUSPICION {
                    Suspicion::Possible(finding.probability)
                } else {
                    continue;
                };
                let class = finding.class.iter().filter(|region| region.is_cluster_wide());
                regions.extend(class.map(|region| (*region, suspicion)));
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
                    Suspicion::Likely => is_judged_before || is_host_beside,
                    Suspicion::Possible(_) => is_judged_before,
                };
                if counts && *region != finding.region && !judgement.known.contains(region) {
                    let strongest = pending.entry(*region).or_insert(*suspicion);
                    *strongest = strongest.stronger(*suspicion);
                }
            }
        }
        let nodes = self.suspected_nodes(unit, judgement, finding);
        pending.extend(nodes.map(|node| (Region::Bnode(node), Suspicion::Likely)));
        // One for all suspected regions: it keeps what was computed for the other subjects.
        let mut likelihood = Likelihood::default();
        let cause = pending
            .into_iter()
            .find(|suspected| may_be_explained(judgement, finding, *suspected, &mut likelihood));
        let state = self.judgement.units.get_mut(unit)?;
        match cause {
            None => {
                state.held_since = None;
                None
            }
            Some((region, suspicion)) => {
                let since = *state.held_since.get_or_insert(at);
                let rounds = match suspicion {
                    Suspicion::Likely => MAX_HELD_ROUNDS,
                    Suspicion::Possible(_) => 1,
                };
                (at - since < Micros(rounds * self.settings.interval.0)).then_some(region)
            }
        }
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

    fn explained_subject(
        &self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        region: Region,
    ) -> ExplainedSubject {
        let input = &judgement.input;
        let failing = input.data.failing_cells(&input.data.shares(region, &input.paths));
        let failing_clients: BTreeSet<VantageIx> = failing
            .into_iter()
            .map(|cell| input.data.cells[cell].key.client)
            .collect();
        ExplainedSubject {
            targets: self.targets_of(unit),
            failing_clients,
        }
    }
}

/// Reports whether a region that other subjects suspect explains what a finding does. A region that is only possible must leave
/// the finding without a verdict, too: its probability takes the place of its prior, because the finding's subject does not see the
/// evidence for it.
fn may_be_explained(
    judgement: &Judgement,
    finding: &ExplainedRegion,
    (region, suspicion): (Region, Suspicion),
    likelihood: &mut Likelihood,
) -> bool {
    let problem = judgement.input.comparison();
    let beside_known = |region: Region| [judgement.known.as_slice(), &[region]].concat();
    let scored = |region: Region| {
        let mut scored = judgement.posterior.scored.iter();
        scored.find(|scored| scored.region == region)
    };
    if let (Suspicion::Possible(probability), Some(own)) = (suspicion, scored(finding.region)) {
        let pooled = scored(region).map_or(0.0, |scored| scored.ln_pooled);
        let named = problem.ln_marginal(&beside_known(finding.region), likelihood);
        let suspected = problem.ln_marginal(&beside_known(region), likelihood);
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
    let given = problem.posterior_given(&beside_known(region), likelihood);
    given.gain(finding.region).is_none_or(|gain| gain < MIN_OWN_GAIN)
}

/// Reports whether a region that the subject named earlier explains nothing beyond the known causes and what the subject
/// names now.
fn adds_nothing(judgement: &Judgement, region: Region) -> bool {
    let is_small = |gain: Option<f64>| gain.is_some_and(|gain| gain < MIN_OWN_GAIN);
    // With named regions beside them the gain would be smaller still.
    if is_small(judgement.posterior.gain(region)) {
        return true;
    }
    let named = judgement.findings.iter().filter(|finding| finding.is_verdict);
    let named: Vec<Region> = named.map(|finding| finding.region).collect();
    if named.is_empty() {
        return false;
    }
    let fixed = [judgement.known.as_slice(), named.as_slice()].concat();
    let problem = judgement.input.comparison();
    is_small(
        problem
            .posterior_given(&fixed, &mut Likelihood::default())
            .gain(region),
    )
}
