//! The judgement of a run: a separate engine judges its observations, with rounds of the run's own.

use std::{collections::BTreeMap, sync::Arc};

use parallax_api::runs::{RunOutcome, VantageResult};
use parallax_diagnosis::{
    Engine, Settings,
    findings::FindingKind,
    topology::Topology,
    verdict::{Incident, IncidentState},
};
use parallax_model::{AssignmentId, Channel, EventTime, Micros, Recorded, Round, Vantage};

/// The input of the judgement.
#[derive(Debug)]
pub(super) struct JudgementInput {
    pub(super) topology: Arc<Topology>,
    pub(super) settings: Settings,
    pub(super) rounds: u32,
    pub(super) requested_at: EventTime,
    /// In order of arrival.
    pub(super) observations: Vec<Recorded>,
    pub(super) vantages: Vec<VantageResult>,
}

/// The judgement.
#[derive(Debug)]
pub(super) struct RunJudgement {
    pub(super) outcome: RunOutcome,
    pub(super) sentence: String,
    pub(super) verdict: Option<Box<Incident>>,
}

/// Reports whether a channel decides the outcome: `vip` and `dns`, as a user would connect, or `mesh` in a mesh
/// run. The other channels only help to tell causes apart.
pub(super) const fn decides_outcome(channel: Channel, of_the_mesh: bool) -> bool {
    match channel {
        Channel::Vip | Channel::Dns => !of_the_mesh,
        Channel::Mesh => of_the_mesh,
        Channel::Direct | Channel::Proxied | Channel::NodePort => false,
    }
}

pub(super) fn judge_run(input: &JudgementInput) -> RunJudgement {
    let sum = |of: fn(&VantageResult) -> u64| input.vantages.iter().map(of).sum::<u64>();
    let (planned, probes) = (sum(|v| v.planned), sum(|v| v.probes));
    let (failures, not_asked) = (sum(|v| v.failures), sum(|v| v.not_made));
    let outcome = match () {
        () if failures > 0 => RunOutcome::Failed,
        () if planned > 0 && probes == planned && not_asked == 0 => RunOutcome::Passed,
        () => RunOutcome::Unknown,
    };
    if outcome != RunOutcome::Failed {
        let sentence = if outcome == RunOutcome::Passed {
            // Where a target must not respond, silence is the expected result.
            let silent = input
                .observations
                .iter()
                .any(|seen| input.topology.is_separate(&seen.observation.target));
            let success_text = if silent { "ended as expected" } else { "succeeded" };
            format!(
                "all {probes} probes {success_text}, from {}",
                vantage_count(input.vantages.len())
            )
        } else {
            let silent = input.vantages.iter().filter(|v| v.probes < v.planned).count();
            let mut parts = Vec::new();
            if silent > 0 {
                parts.push(format!(
                    "{} did not respond in time (gone, or too old to take part in runs)",
                    vantage_count(silent)
                ));
            }
            if not_asked > 0 {
                let reason = input
                    .vantages
                    .iter()
                    .find(|v| v.not_made > 0)
                    .and_then(|v| v.detail.as_deref());
                parts.push(format!(
                    "{not_asked} probes were not made ({})",
                    reason.unwrap_or("unknown")
                ));
            }
            format!("nothing failed, but the result is unknown: {}", parts.join("; "))
        };
        return RunJudgement {
            outcome,
            sentence,
            verdict: None,
        };
    }
    let (verdict, fallback) = diagnose(input);
    let failing = input.vantages.iter().filter(|v| v.failures > 0).count();
    let sentence = match (&verdict, fallback) {
        (Some(incident), _) => incident.verdict.sentence.clone(),
        (None, Some(fallback)) => fallback,
        (None, None) => {
            let kind = input
                .vantages
                .iter()
                .find(|v| v.failures > 0)
                .and_then(|v| v.detail.clone());
            format!(
                "{failures} of {probes} probes failed, from {failing} of {} ({}); too little evidence to name a cause",
                vantage_count(input.vantages.len()),
                kind.unwrap_or_default()
            )
        }
    };
    RunJudgement {
        outcome,
        sentence,
        verdict,
    }
}

fn vantage_count(n: usize) -> String {
    format!("{n} vantage{}", if n == 1 { "" } else { "s" })
}

/// Returns the incident that the engine names, or otherwise a sentence on what is known so far.
fn diagnose(input: &JudgementInput) -> (Option<Box<Incident>>, Option<String>) {
    let mut engine = Engine::on_demand(input.settings, Arc::clone(&input.topology));
    let interval = input.settings.interval;
    let first = input.requested_at.round(interval);
    // A vantage's n-th result of an assignment counts for round n, whatever its time: a run's rounds are not
    // aligned with the clock.
    let mut counts: BTreeMap<(&Vantage, Option<&AssignmentId>), i64> = BTreeMap::new();
    for recorded in &input.observations {
        let n = counts
            .entry((&recorded.vantage, recorded.observation.assignment.as_ref()))
            .or_default();
        let mut placed = recorded.clone();
        placed.observation.started = Round(first.0 + *n).start(interval).plus(Micros(interval.0 / 2));
        *n += 1;
        engine.observe(&placed);
    }
    let last = Round(first.0 + i64::from(input.rounds)).end(interval);
    let end = last.plus(input.settings.timeout).plus(Micros::from_secs(2));
    engine.advance(end);
    let view = engine.view(end);
    let named = view
        .incidents
        .into_iter()
        .find(|incident| !matches!(incident.state, IncidentState::Closed { .. }));
    // A response that must not happen is a finding, and needs no cause.
    let exposed = view
        .findings
        .into_iter()
        .find(|finding| finding.kind == FindingKind::Exposed);
    let exposed = exposed.map(|finding| finding.sentence);
    let fallback = exposed.or_else(|| view.investigations.into_iter().next().map(|open| open.sentence));
    (named.map(Box::new), fallback)
}
