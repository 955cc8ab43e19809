//! Follow-up probes: what is still open after a round, which probes would settle it, and what their results decided.

mod probe_request;
mod request_results;

use std::collections::BTreeSet;

use parallax_model::Round;

use super::Engine;
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::{CellKey, RoundCells},
        ledger::OutcomeSplit,
    },
    explanation::{
        RequestedProbes,
        separation::{RegionSeparation, RegionSeparations},
    },
    inference::{
        judgement::{ExplainedRegion, FailingCells, Judgement},
        judgement_unit::JudgementUnit,
        likelihood::Likelihood,
        prior::PriorFact,
    },
    regions::{Region, share::alpha},
    requests::{
        ExplanationWeights, ProbeCapabilities, ProbeRequest, ProbeRequests, ProbeVariant, WantedProbe,
        candidates, choose, deciding_result, pair_probes, suggested_by_kinds, why_inseparable,
    },
};

/// Maximum number of subjects that request probes in one round; more failing subjects share a few common causes.
const MAX_REQUESTING_SUBJECTS: usize = 64;
/// Below this probability of "nothing further", probes for a further fault are requested.
const SETTLED_PROBABILITY: f64 = 0.95;
/// Minimum difference of path shares that tells two regions apart.
const MIN_SHARE_DIFFERENCE: f64 = 0.1;

/// Effect of follow-up probes on one judgement.
#[derive(Debug, Default)]
pub(super) struct OnDemandEvidence {
    separations: RegionSeparations,
    /// Results of the follow-up probes alone; empty if none was answered.
    requested_cells: RoundCells,
    /// The judgement of the same window without those probes.
    judgement_without: Option<Box<Judgement>>,
    results: Vec<String>,
}

impl OnDemandEvidence {
    /// Returns the part that a verdict reports.
    pub(super) fn requested_probes(
        &self,
        engine: &Engine,
        judgement: &Judgement,
        finding: &ExplainedRegion,
    ) -> RequestedProbes {
        let decided_by = if self.requested_cells.is_empty() {
            None
        } else {
            let without = self.judgement_without.as_deref();
            deciding_result(
                judgement,
                finding,
                without,
                &self.requested_cells,
                &engine.registry,
            )
        };
        RequestedProbes {
            separations: self.separations.clone(),
            decided_by,
            results: self.results.clone(),
        }
    }
}

impl Engine {
    /// Outstanding follow-up probes beyond the plan.
    #[must_use]
    pub fn probe_requests(&self) -> &[ProbeRequest] {
        self.outstanding_requests.probe_requests()
    }

    /// Follow-up probes that were requested or repeated with the round that was judged last.
    pub(crate) fn new_probe_requests(&self) -> &[ProbeRequest] {
        self.outstanding_requests.new_probe_requests()
    }

    /// Requests probes for what is open about a subject, and determines which results were decisive.
    pub(super) fn request_probes(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        failing: &FailingCells,
        facts: &[PriorFact],
        round: Round,
        likelihood: &mut Likelihood,
    ) -> OnDemandEvidence {
        let mut inquiry = OnDemandEvidence {
            results: self.outstanding_requests.separate_results(unit),
            ..OnDemandEvidence::default()
        };
        if self.outstanding_requests.subjects_with_proposals() < MAX_REQUESTING_SUBJECTS {
            let requests = self.build_requests(
                unit,
                judgement,
                failing,
                round,
                &mut inquiry.separations,
                likelihood,
            );
            self.outstanding_requests.set_proposals(unit, requests);
        }
        if judgement.findings.iter().any(|f| f.is_verdict) {
            self.judge_without_requests(unit, judgement, facts, &mut inquiry, likelihood);
        }
        inquiry
    }

    /// Builds the open questions of a judgement: each fixes the settled regions and weighs what may join them.
    fn open_questions(judgement: &Judgement, likelihood: &mut Likelihood) -> Vec<ExplanationWeights> {
        let problem = judgement.input.comparison();
        let regions: Vec<Region> = judgement.findings.iter().map(|f| f.region).collect();
        let known = judgement.known.as_slice();
        let mut fixed_sets: Vec<Vec<Region>> = judgement
            .findings
            .iter()
            .filter(|f| !f.is_verdict || f.class.len() > 1 || !f.near_ties.is_empty())
            .map(|f| {
                let others = regions.iter().filter(|region| **region != f.region);
                known.iter().chain(others).copied().collect()
            })
            .collect();
        let all_named = judgement.findings.iter().all(|f| f.is_verdict);
        if all_named {
            fixed_sets.push([known, regions.as_slice()].concat());
        }
        let mut questions = Vec::new();
        for fixed in fixed_sets {
            let given = if fixed == known {
                judgement.posterior.clone()
            } else {
                problem.posterior_given(&fixed, likelihood)
            };
            // If the named regions explain everything, a further fault is unlikely.
            if !fixed.is_empty() && all_named && given.p_no_further_fault > SETTLED_PROBABILITY {
                continue;
            }
            let case = &judgement.input;
            questions.push(ExplanationWeights::new(
                &case.data,
                &case.paths,
                &given,
                &fixed,
                likelihood,
            ));
        }
        questions
    }

    fn build_requests(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        failing: &FailingCells,
        round: Round,
        separations: &mut RegionSeparations,
        likelihood: &mut Likelihood,
    ) -> ProbeRequests {
        let questions = Self::open_questions(judgement, likelihood);
        let speaking = self.outstanding_requests.reporting_vantages();
        let ground = self.probe_capabilities(unit, judgement, &speaking, round);
        let paths = &judgement.input.paths;
        let mut lists: Vec<Vec<WantedProbe>> = Vec::new();
        let mut possible: Vec<CellKey> = Vec::new();
        for beliefs in &questions {
            let keys = candidates(beliefs, &ground);
            lists.push(choose(beliefs, &keys, &ground));
            possible.extend(keys);
        }
        if let Some(beliefs) = questions.first() {
            let named: Vec<Region> = judgement
                .findings
                .iter()
                .filter(|f| f.is_verdict)
                .map(|f| f.region)
                .collect();
            lists.push(pair_probes(failing, round, &named, beliefs, &ground));
            lists.push(suggested_by_kinds(beliefs, &ground));
        }
        let wants = interleave(&lists);
        for finding in &judgement.findings {
            for other in finding.class.iter().chain(&finding.near_ties) {
                if *other == finding.region {
                    continue;
                }
                let separates = |key: &CellKey| {
                    let share = |region: Region| alpha(&[region], key, paths).as_f64();
                    (share(finding.region) - share(*other)).abs() >= MIN_SHARE_DIFFERENCE
                };
                let separating = wants
                    .iter()
                    .find(|w| w.variant == ProbeVariant::Plain && separates(&w.key));
                let separation = match (separating, possible.iter().find(|key| separates(key))) {
                    (Some(want), _) => RegionSeparation::Requested(self.describe_probe(unit, want)),
                    (None, Some(_)) => continue,
                    (None, None) if judgement.input.cells.keys().any(separates) => continue,
                    (None, None) => RegionSeparation::Impossible(why_inseparable(&ground)),
                };
                separations.insert((finding.region, *other), separation);
            }
        }
        ProbeRequests {
            is_suspect: judgement.p_healthy < 0.5,
            proposals: wants,
        }
    }

    fn probe_capabilities<'a>(
        &'a self,
        unit: &JudgementUnit,
        judgement: &'a Judgement,
        speaking: &'a BTreeSet<crate::ids::VantageIx>,
        round: Round,
    ) -> ProbeCapabilities<'a> {
        let front = self.front_of_unit(unit);
        let (own, controls) = self.blocks_of(unit);
        let mut planned = Vec::new();
        if self.rules.outcome_split == OutcomeSplit::PerPhase {
            // Several probes of one path and round share one vote.
            for block in own.iter().chain(&controls) {
                let all = self.evidence.blocks.get(block).and_then(|ring| ring.at(round));
                if let Some(cells) = self.outstanding_requests.without_requests(block, round).or(all) {
                    planned.push(cells);
                }
            }
        }
        let info = front.and_then(|f| self.cluster.topology.front(&f));
        let no_direct = match (unit, info) {
            (JudgementUnit::Front(front), Some(info)) => {
                let silent = |direct| {
                    self.evidence.blocks.contains_key(&direct)
                        && !self.history.worked_blocks.contains(&direct)
                };
                let forbidden = self.direct_block(info).is_some_and(silent)
                    && self
                        .history
                        .worked_blocks
                        .contains(&CellBlock::failures(EvidenceKind::Vip(*front)));
                forbidden.then_some(
                    "no endpoint ever accepted a direct connection: a NetworkPolicy or mutual TLS may forbid it",
                )
            }
            _ => None,
        };
        let port = info.and_then(|info| {
            let service = self.cluster.topology.service(&info.service)?;
            service.ports.iter().find(|p| p.port == info.port)?.node_port
        });
        ProbeCapabilities {
            registry: &self.registry,
            paths: &judgement.input.paths,
            cells: &judgement.input.cells,
            reporting_vantages: speaking,
            planned_cells: planned,
            front: front.filter(|_| !matches!(unit, JudgementUnit::Dns | JudgementUnit::Mesh)),
            direct_unavailable: no_direct,
            dns_possible: matches!(unit, JudgementUnit::Dns | JudgementUnit::SingleTarget(_)),
            has_node_port: port.is_some(),
            round: round.0,
        }
    }
}

/// Merges lists round-robin without duplicates: the first of each, then the second of each.
fn interleave(lists: &[Vec<WantedProbe>]) -> Vec<WantedProbe> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for i in 0..longest {
        for list in lists {
            if let Some(want) = list.get(i)
                && seen.insert((want.key, want.variant))
            {
                all.push(want.clone());
            }
        }
    }
    all
}
