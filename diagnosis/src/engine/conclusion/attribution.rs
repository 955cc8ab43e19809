//! Attributes failures of a subject to incidents that other subjects named, and withdraws what these make unnecessary.

use std::collections::BTreeSet;

use crate::{
    engine::Engine,
    ids::VantageIx,
    incident::ExplainedSubject,
    inference::{judgement::Judgement, judgement_unit::JudgementUnit, likelihood::Likelihood},
    regions::Region,
};

/// A region that gains less than this beyond the known causes is not a fault of its own, in nats.
pub(super) const MIN_FURTHER_GAIN: f64 = 3.0;

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

/// Reports whether a region that the subject named earlier explains nothing beyond the known causes and what the subject
/// names now.
fn adds_nothing(judgement: &Judgement, region: Region) -> bool {
    let is_small = |gain: Option<f64>| gain.is_some_and(|gain| gain < MIN_FURTHER_GAIN);
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
