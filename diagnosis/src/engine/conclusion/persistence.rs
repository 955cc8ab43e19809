//! Findings that are named once they have lasted.
//!
//! The evidence of a seldom fault grows slowly, and is looked at in every round: among many subjects and rounds, one of them has
//! its share of accidents several times over and looks like a fault of its own endpoints or of its address. More results correct
//! this, or show the cause elsewhere: a node that loses a few packets shows at each subject after a different time.
//!
//! A finding with a probability of nine in ten is wrong once in ten. A further round decides it: the evidence of a real cause
//! grows, and a subject that is judged later in the round may name what explains it.
//!
//! A finding that contains what the subject has named already is either what the named region has become, or a second cause whose
//! share of the failures looks like the rest of the wider region: the node of the only endpoint that was left. The network names the
//! node a round or two later.

use crate::{
    engine::Engine,
    inference::{
        judgement::{CERTAIN_CLASS_MASS, ExplainedRegion, Judgement, MIN_CLASS_MASS},
        judgement_unit::JudgementUnit,
    },
    regions::Region,
};

/// Share of the probes across a region that fails, and of the rounds of its clients with a failure, below which the fault is seldom.
/// The probes may be from before the fault began, and a client may select a broken endpoint of many in few of its rounds.
const SELDOM: f64 = 0.25;
/// Rounds for which a finding about a seldom fault must hold before it is named.
const SELDOM_ROUNDS: i64 = 6;

/// How many times longer than an uncertain finding one must hold that contains what the subject has named.
const WIDENING_FACTOR: i64 = 2;

impl Engine {
    /// Reports whether a finding must hold for longer before it is named.
    pub(super) fn is_too_new(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &ExplainedRegion,
    ) -> bool {
        let lasting = self.lasting_rounds(unit, judgement, finding);
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
    pub(super) fn forget_doubtful(&mut self, unit: &JudgementUnit, judgement: &Judgement) {
        let mut named = judgement.findings.iter().filter(|finding| finding.is_verdict);
        if !named.any(|finding| self.lasting_rounds(unit, judgement, finding) > 0)
            && let Some(state) = self.judgement.units.get_mut(unit)
        {
            state.doubtful_since = None;
        }
    }

    /// Returns for how many rounds a finding must hold before it is named.
    fn lasting_rounds(&self, unit: &JudgementUnit, judgement: &Judgement, finding: &ExplainedRegion) -> i64 {
        if fails_seldom(finding) {
            SELDOM_ROUNDS
        } else if self.contains_named(unit, judgement, finding) {
            WIDENING_FACTOR * self.rules.confirming_rounds
        } else if finding.probability < CERTAIN_CLASS_MASS {
            self.rules.confirming_rounds
        } else {
            0
        }
    }

    /// Reports whether a finding contains another one that an open incident of the subject names.
    fn contains_named(&self, unit: &JudgementUnit, judgement: &Judgement, finding: &ExplainedRegion) -> bool {
        let node_of = |pod| judgement.input.paths.mesh.pod_node(pod);
        let contains = |other: Region| other != finding.region && finding.region.covers(other, node_of);
        let mut likely = judgement
            .findings
            .iter()
            .filter(|other| other.probability >= MIN_CLASS_MASS);
        likely.any(|other| contains(other.region) && self.incidents.is_open(unit, other.region))
    }
}

/// Reports whether a small share of the probes across a finding's region fails. A finding between the nodes has no wider cause for
/// which it could wait.
fn fails_seldom(finding: &ExplainedRegion) -> bool {
    let (failures, all) = finding.crossing;
    !finding.region.is_between_nodes() && failures < SELDOM * all && finding.failing_share < SELDOM
}
