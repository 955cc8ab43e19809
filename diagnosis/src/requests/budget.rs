//! The budget of requested probes: a tenth of the base plan for all subjects together, at least one per suspect,
//! round-robin.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Round;

use super::{
    ProbeRequest, ProbeVariant,
    choice::WantedProbe,
    outstanding::{OutstandingRequest, OutstandingRequests, ProbeRoute, RequestId},
};
use crate::inference::unit::JudgementUnit;

/// Base probes per requested probe.
const ONE_IN: usize = 10;
/// Rounds after which an unanswered request expires.
const PATIENCE: i64 = 3;
/// Rounds before an unanswered request, or one reported separately from the evidence, may be repeated.
const REST: i64 = 12;

impl OutstandingRequests {
    /// Selects the requests for the next round. `write` converts a proposed probe to a request, or returns `None`
    /// if a name is missing.
    pub(crate) fn settle(
        &mut self,
        round: Round,
        mut write: impl FnMut(&JudgementUnit, &WantedProbe) -> Option<(ProbeRequest, ProbeRoute)>,
    ) {
        self.resting.retain(|_, until| *until > round);
        let mut kept = Vec::new();
        for live in std::mem::take(&mut self.live) {
            // A result that is reported separately needs no sample size: one result is enough for a while.
            let over = live.answered && live.ask.variant == ProbeVariant::Plain;
            if over {
                continue;
            }
            if live.answered || round.0 - live.asked.0 >= PATIENCE {
                self.resting.insert(live.identity(), Round(round.0 + REST));
                continue;
            }
            kept.push(live);
        }
        let suspects = self.pleas.values().filter(|plea| plea.suspect).count();
        let most = (self.base / ONE_IN).max(suspects);
        // An unanswered request is still valid and still uses the budget.
        kept.truncate(most);
        let mut taken: BTreeSet<RequestId> = kept.iter().map(OutstandingRequest::identity).collect();
        self.live = kept;
        let pleas = std::mem::take(&mut self.pleas);
        let mut order: Vec<(bool, &JudgementUnit)> =
            pleas.iter().map(|(unit, plea)| (!plea.suspect, unit)).collect();
        order.sort();
        let mut next: BTreeMap<&JudgementUnit, usize> = BTreeMap::new();
        let mut left = true;
        while left && self.live.len() < most {
            left = false;
            for (_, unit) in &order {
                let wants = &pleas[*unit].wants;
                let at = next.entry(unit).or_default();
                // One probe per subject and turn.
                while let Some(want) = wants.get(*at) {
                    *at += 1;
                    let Some((ask, spot)) = write(unit, want) else {
                        continue;
                    };
                    let identity = (ask.vantage.clone(), ask.id.clone());
                    if self.resting.contains_key(&identity) || !taken.insert(identity) {
                        continue;
                    }
                    self.fresh.push(ask.clone());
                    self.live.push(OutstandingRequest {
                        ask,
                        unit: (*unit).clone(),
                        spot,
                        asked: round,
                        answered: false,
                    });
                    left = true;
                    break;
                }
                if self.live.len() >= most {
                    break;
                }
            }
        }
        self.live.sort_by_key(OutstandingRequest::identity);
        self.asks = self.live.iter().map(|live| live.ask.clone()).collect();
    }
}
