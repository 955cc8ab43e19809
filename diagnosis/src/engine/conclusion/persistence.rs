//! Findings that are named once they have lasted.
//!
//! The evidence of a seldom fault grows slowly, and is looked at in every round: among many subjects and rounds, one of them has
//! its share of accidents several times over and looks like a fault of its own endpoints or of its address. More results correct
//! this, or show the cause elsewhere: a node that loses a few packets shows at each subject after a different time.
//!
//! A finding with a probability of nine in ten is wrong once in ten. A further round decides it: the evidence of a real cause
//! grows, and a subject that is judged later in the round may name what explains it.

use crate::{
    engine::Engine,
    inference::{
        judgement::{CERTAIN_CLASS_MASS, ExplainedRegion},
        judgement_unit::JudgementUnit,
    },
};

/// Share of the probes across a region that fails, and of the rounds of its clients with a failure, below which the fault is seldom.
/// The probes may be from before the fault began, and a client may select a broken endpoint of many in few of its rounds.
const SELDOM: f64 = 0.25;
/// Rounds for which a finding about a seldom fault must hold before it is named.
const SELDOM_ROUNDS: i64 = 6;

impl Engine {
    /// Reports whether a finding must hold for longer before it is named.
    pub(super) fn is_too_new(&mut self, unit: &JudgementUnit, finding: &ExplainedRegion) -> bool {
        let lasting = self.lasting_rounds(finding);
        if lasting == 0 || self.incidents.names_any(unit, &finding.class) {
            return false;
        }
        let round = self.incidents.round();
        let Some(state) = self.judgement.units.get_mut(unit) else {
            return false;
        };
        let since = *state.doubtful_since.get_or_insert(round);
        round.0 - since.0 < lasting
    }

    /// Forgets since when a subject has had a finding that must hold for longer, if it has none.
    pub(super) fn forget_doubtful<'a>(
        &mut self,
        unit: &JudgementUnit,
        mut named: impl Iterator<Item = &'a ExplainedRegion>,
    ) {
        if !named.any(|finding| self.lasting_rounds(finding) > 0)
            && let Some(state) = self.judgement.units.get_mut(unit)
        {
            state.doubtful_since = None;
        }
    }

    /// Returns for how many rounds a finding must hold before it is named.
    fn lasting_rounds(&self, finding: &ExplainedRegion) -> i64 {
        if fails_seldom(finding) {
            SELDOM_ROUNDS
        } else if finding.probability < CERTAIN_CLASS_MASS {
            self.rules.confirming_rounds
        } else {
            0
        }
    }
}

/// Reports whether a small share of the probes across a finding's region fails. A finding between the nodes has no wider cause for
/// which it could wait.
fn fails_seldom(finding: &ExplainedRegion) -> bool {
    let (failures, all) = finding.crossing;
    !finding.region.is_between_nodes() && failures < SELDOM * all && finding.failing_share < SELDOM
}
