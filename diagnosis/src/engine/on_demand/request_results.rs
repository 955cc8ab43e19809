//! Settles requests by their results, and judges what the rounds show without requested probes.

use parallax_model::{EventTime, Round};

use super::OnDemandEvidence;
use crate::{
    engine::Engine,
    evidence::cells::CellCounts,
    inference::{
        judgement::{Judgement, judge},
        judgement_unit::JudgementUnit,
        likelihood::Likelihood,
        prior::PriorFact,
    },
};

impl Engine {
    /// Settles the outstanding requests until the next round, after all subjects of a round.
    pub(in crate::engine) fn settle_requests(&mut self, round: Round, at: EventTime) {
        let mut asking = std::mem::take(&mut self.outstanding_requests);
        asking.select_requests(round, |unit, want| self.build_request(unit, want, at));
        self.outstanding_requests = asking;
    }

    /// Judges the same window again without the follow-up probes.
    pub(super) fn judge_without_requests(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        facts: &[PriorFact],
        inquiry: &mut OnDemandEvidence,
        likelihood: &mut Likelihood,
    ) {
        let start = judgement.input.start;
        let (own, controls) = self.blocks_of(unit);
        let periods = judgement.input.data.periods();
        let cells = self.cells_since((&own, &controls), start, periods, true);
        for (key, all) in &judgement.input.cells {
            let base = cells.all.get(key).cloned().unwrap_or_default();
            if all.unweighted_probes > base.unweighted_probes {
                let f = all.failures.saturating_sub(base.failures);
                let counts = CellCounts {
                    probes: all.probes.saturating_sub(base.probes).max(f),
                    failures: f,
                    unweighted_probes: all.unweighted_probes - base.unweighted_probes,
                    unweighted_failures: all.unweighted_failures.saturating_sub(base.unweighted_failures),
                    ..CellCounts::default()
                };
                inquiry.requested_cells.insert(*key, counts);
            }
        }
        if inquiry.requested_cells.is_empty() {
            return;
        }
        let (rounds, failing) = self.failing_cells(&own, &controls, start, true);
        let case = self.judgement_input(unit, start, cells, facts, likelihood);
        let named = self.incidents.named_together(unit);
        let named_by_any = self.incidents.named_by_any(&named);
        let without = judge(
            vec![case],
            (&rounds, &failing),
            (&judgement.known, &named, &named_by_any),
            self.residual_doubt(unit),
            likelihood,
        );
        inquiry.judgement_without = without.map(Box::new);
    }
}
