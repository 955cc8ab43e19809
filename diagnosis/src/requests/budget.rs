//! Who gets how much: a tenth of the base probes for all subjects together, each suspect at least one, in turn.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Round;

use super::{
    ProbeRequest, ProbeVariant,
    choice::WantedProbe,
    outstanding::{OutstandingRequest, OutstandingRequests, ProbeRoute, RequestId},
};
use crate::inference::unit::JudgementUnit;

/// Base probes to one that is asked for.
const ONE_IN: usize = 10;
/// Rounds an ask waits for its answer.
const PATIENCE: i64 = 3;
/// Rounds before the same is asked again of somebody who did not answer, or whose answer stands beside the evidence.
const REST: i64 = 12;

impl OutstandingRequests {
    /// Chooses what is asked for until the next round. `write` makes an ask of a wish, or nothing where a name is
    /// missing.
    pub(crate) fn settle(
        &mut self,
        round: Round,
        mut write: impl FnMut(&JudgementUnit, &WantedProbe) -> Option<(ProbeRequest, ProbeRoute)>,
    ) {
        self.resting.retain(|_, until| *until > round);
        let mut kept = Vec::new();
        for live in std::mem::take(&mut self.live) {
            // What stands beside the evidence is no statistics: one answer will do for a while.
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
        // A late answer is still wanted, and still costs a probe.
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
                // One probe each, then the next turn.
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
