//! Attributes failures of a subject to incidents that other subjects named, and withdraws what these make unnecessary.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Micros};

use crate::{
    engine::Engine,
    ids::VantageIx,
    incident::ExplainedSubject,
    inference::{
        judgement::{ExplainedRegion, Judgement, MIN_CLASS_MASS},
        judgement_unit::JudgementUnit,
        likelihood::Likelihood,
    },
    regions::Region,
};

/// Rounds for which a verdict waits for a subject nearer to the cause.
const MAX_HELD_ROUNDS: u64 = 3;

/// A region that gains less than this beyond the known causes is not a fault of its own, in nats.
const MIN_OWN_GAIN: f64 = 3.0;

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

    /// Records the regions that the subject suspects and did not name, for the subjects that are judged after it, each with its
    /// probability. Little evidence of a cause is enough to make a consequence of it the less probable explanation.
    pub(super) fn record_pending(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        nothing_reported: bool,
    ) {
        let mut regions = BTreeMap::new();
        if nothing_reported && !unit.is_latency() {
            for finding in &judgement.findings {
                let class = finding.class.iter().filter(|region| region.is_cluster_wide());
                regions.extend(class.map(|region| (*region, finding.probability)));
            }
        }
        if regions.is_empty() {
            self.judgement.pending.remove(unit);
        } else {
            self.judgement.pending.insert(unit.clone(), regions);
        }
    }

    /// Returns a region that a subject nearer to the cause, or another host, suspects, if it would make a finding unnecessary.
    /// That subject gets a few rounds to name it.
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
        let suspecting = self.judgement.pending.iter().filter(|(other, _)| {
            let are_hosts = |unit: &JudgementUnit| matches!(unit, JudgementUnit::Target(_));
            let is_host_beside = *other != unit && are_hosts(other) && are_hosts(unit);
            is_host_beside || other.depth() < unit.depth()
        });
        let mut pending: BTreeMap<Region, f64> = BTreeMap::new();
        for (region, probability) in suspecting.flat_map(|(_, regions)| regions) {
            let highest = pending.entry(*region).or_default();
            *highest = highest.max(*probability);
        }
        let cause = pending
            .into_iter()
            .filter(|(region, _)| *region != finding.region && !judgement.known.contains(region))
            .find(|suspected| may_be_explained(judgement, finding, *suspected))
            .map(|(region, _)| region);
        let state = self.judgement.units.get_mut(unit)?;
        match cause {
            None => {
                state.held_since = None;
                None
            }
            Some(region) => {
                let since = *state.held_since.get_or_insert(at);
                (at - since < Micros(MAX_HELD_ROUNDS * self.settings.interval.0)).then_some(region)
            }
        }
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

/// Reports whether a region that other subjects suspect, with a probability, explains what a finding does, and is probable enough
/// to leave the finding without a verdict. That probability takes the place of the region's prior, because the finding's subject
/// does not see the evidence for it.
fn may_be_explained(
    judgement: &Judgement,
    finding: &ExplainedRegion,
    (region, probability): (Region, f64),
) -> bool {
    let problem = judgement.input.comparison();
    let mut likelihood = Likelihood::default();
    let beside_known = |region: Region| [judgement.known.as_slice(), &[region]].concat();
    let fixed = beside_known(region);
    let mut scored = judgement.posterior.scored.iter();
    if let Some(own) = scored.find(|scored| scored.region == finding.region) {
        let named = problem.ln_marginal(&beside_known(finding.region), &mut likelihood);
        let suspected = problem.ln_marginal(&fixed, &mut likelihood);
        let ln_odds = own.ln_prior_with_pool() + named - libm::log(probability) - suspected;
        if 1.0 / (1.0 + libm::exp(-ln_odds)) >= MIN_CLASS_MASS {
            return false;
        }
    }
    if problem.explaining(&[region], &mut likelihood).is_empty() {
        return false;
    }
    let given = problem.posterior_given(&fixed, &mut likelihood);
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
