//! Decides what becomes of a finding that fulfils the conditions of a verdict: a report, a reason to wait, or nothing.

use std::collections::BTreeSet;

use parallax_model::EventTime;

use crate::{
    catalogue::WITHDRAWN_ENDPOINTS,
    engine::{Engine, on_demand::OnDemandEvidence},
    ids::PodIx,
    incident::{Report, Scope},
    inference::{
        judgement::{ExplainedRegion, Judgement},
        judgement_unit::JudgementUnit,
        prior::PriorFact,
    },
    regions::Region,
};

/// Rounds without a failure after which a region is not named any more.
const MAX_QUIET_ROUNDS: i64 = 1;

/// What becomes of a finding.
#[derive(Debug)]
pub(super) enum WeighedFinding {
    /// It is named.
    Reported(Box<Report>),
    /// It is not named yet.
    Waiting {
        /// What would be named, and why it is not.
        sentence: String,
        /// Whether the failures have a known reason.
        is_excused: bool,
    },
    /// It is explained by an incident.
    Consequence,
    /// It no longer fails.
    Over,
}

impl Engine {
    /// Weighs one finding.
    pub(super) fn weigh_finding(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &ExplainedRegion,
        inquiry: &OnDemandEvidence,
        facts: &[PriorFact],
        at: EventTime,
    ) -> WeighedFinding {
        let wait = |sentence: String, is_excused: bool| WeighedFinding::Waiting { sentence, is_excused };
        // What no longer fails is not named on the evidence of its recovery, and an open incident is not named anew.
        let quiet_rounds = self.incidents.round().0 - finding.last_failure.0;
        let allowed = if self.incidents.has_open(unit) {
            0
        } else {
            MAX_QUIET_ROUNDS
        };
        if quiet_rounds > allowed && !unit.is_latency() {
            return WeighedFinding::Over;
        }
        if let Some(cause) = self.pending_explanation(unit, judgement, finding, at) {
            let sentence = format!(
                "failing, likeliest so far: {}; but {} would explain it and is under investigation",
                finding.region.describe(&self.registry).description(),
                cause.describe(&self.registry).description()
            );
            return wait(sentence, false);
        }
        if self.is_too_new(unit, judgement, finding) {
            let sentence = format!(
                "failing, likeliest so far: {}; it is named if this lasts",
                finding.region.describe(&self.registry).description()
            );
            return wait(sentence, false);
        }
        let verdict = {
            let mut context = self.verdict_context(unit, judgement, finding, facts);
            context.requested_probes = inquiry.requested_probes(self, judgement, finding);
            context.verdict(judgement, finding)
        };
        let node_of = |pod| judgement.input.paths.mesh.pod_node(pod);
        if unit.is_latency() && self.incidents.explains_delay(unit, finding.region, at, node_of) {
            return WeighedFinding::Consequence;
        }
        if self.rules.require_prior_success && !self.ever_worked_in_region(unit, finding.region) {
            return wait(format!("never worked so far; {}", verdict.sentence), false);
        }
        if let Some(node) = self.node_with_only_prober_down(unit, judgement, finding) {
            let sentence = format!(
                "the prober on node {node} does not respond, but the other Pods on the node do: check the prober, not the \
                 node"
            );
            return wait(sentence, true);
        }
        let doubt = self
            .orphan_explanation(unit, finding.region, at)
            .or_else(|| self.outdated_topology_explanation(unit, judgement, finding, at));
        if let Some(doubt) = doubt {
            return wait(format!("{}; but {doubt}", verdict.sentence), true);
        }
        WeighedFinding::Reported(Box::new(Report {
            // Withdrawn endpoints are a fault of the nodes, whichever subject shows it.
            scope: match verdict.cause() {
                Some(WITHDRAWN_ENDPOINTS) if !unit.is_latency() => Scope::Withdrawn,
                _ => self.scope(unit, judgement, finding),
            },
            region: finding.region,
            class: finding.class.clone(),
            is_one_way: finding.is_one_way,
            failing_endpoints: failing_endpoints(unit, judgement, finding),
            odds_over_next: finding.odds_over_next,
            failing_clients: finding.failing_clients.clone(),
            crossing_counts: finding.crossing,
            since: finding.first_failure.start(self.settings.interval),
            before_start: self.ended_before_start(finding.last_failure),
            verdict,
        }))
    }
}

/// Returns the endpoints of a Service if a finding names all of them. The answers of a host show nothing of them: they may come
/// from the entry.
fn failing_endpoints(
    unit: &JudgementUnit,
    judgement: &Judgement,
    finding: &ExplainedRegion,
) -> BTreeSet<PodIx> {
    let is_of_endpoints = matches!(unit, JudgementUnit::Front(_) | JudgementUnit::Endpoints(..));
    if is_of_endpoints && finding.region == Region::Target {
        judgement.input.paths.backends.iter().copied().collect()
    } else {
        BTreeSet::new()
    }
}
