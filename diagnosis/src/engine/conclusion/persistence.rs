//! Faults that strike seldom are named once their evidence has lasted.
//!
//! The evidence of a seldom fault grows slowly, and is looked at in every round: among many subjects and rounds, one of them has
//! its share of accidents several times over and looks like a fault of its own endpoints. More results correct this, or show the
//! cause elsewhere: a node that loses a few packets shows at each subject after a different time.

use parallax_model::{EventTime, Micros};

use crate::{
    engine::Engine,
    inference::{judgement::ExplainedRegion, judgement_unit::JudgementUnit},
    regions::Region,
};

/// Share of the probes across a region that fails, and of the rounds of its clients with a failure, below which the fault is seldom.
/// The probes may be from before the fault began, and a client may select a broken endpoint of many in few of its rounds.
const SELDOM: f64 = 0.25;
/// Rounds for which a finding about a seldom fault must hold before it is named.
const LASTING_ROUNDS: u64 = 6;

impl Engine {
    /// Reports whether a finding about endpoints that fail seldom has not held long enough to be named. A finding between the nodes has
    /// no wider cause for which it could wait.
    pub(super) fn is_too_new(
        &mut self,
        unit: &JudgementUnit,
        finding: &ExplainedRegion,
        at: EventTime,
    ) -> bool {
        let is_open = self.incidents.names_any(unit, &finding.class);
        let Some(state) = self.judgement.units.get_mut(unit) else {
            return false;
        };
        if is_open || !fails_seldom(finding) {
            return false;
        }
        let since = *state.seldom_since.get_or_insert(at);
        at - since < Micros(LASTING_ROUNDS * self.settings.interval.0)
    }

    /// Forgets since when a subject has had a finding about endpoints that fail seldom, if it has none.
    pub(super) fn forget_seldom<'a>(
        &mut self,
        unit: &JudgementUnit,
        mut named: impl Iterator<Item = &'a ExplainedRegion>,
    ) {
        if !named.any(fails_seldom)
            && let Some(state) = self.judgement.units.get_mut(unit)
        {
            state.seldom_since = None;
        }
    }
}

/// Reports whether a finding is about endpoints, and a small share of the probes across them fails.
fn fails_seldom(finding: &ExplainedRegion) -> bool {
    let (failures, all) = finding.crossing;
    let is_of_endpoints = matches!(
        finding.region,
        Region::Backend(_) | Region::Target | Region::DnsAll
    );
    is_of_endpoints && failures < SELDOM * all && finding.failing_share < SELDOM
}
