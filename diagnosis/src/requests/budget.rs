//! The budget of requested probes: a tenth of the base plan for all subjects together, at least one per suspect,
//! round-robin.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Round;

use super::{
    ProbeRequest, ProbeVariant,
    choice::WantedProbe,
    outstanding_requests::{OutstandingRequest, OutstandingRequests, ProbeRoute, RequestId},
};
use crate::inference::judgement_unit::JudgementUnit;

/// Base probes per requested probe.
const BASE_PROBES_PER_REQUEST: usize = 10;
/// Rounds after which an unanswered request expires.
const EXPIRY_ROUNDS: i64 = 3;
/// Rounds before an unanswered request, or one reported separately from the evidence, may be repeated.
const REPEAT_DELAY: i64 = 12;

impl OutstandingRequests {
    /// Selects the requests for the next round. `write` converts a proposed probe to a request, or returns `None`
    /// if a name is missing.
    pub(crate) fn select_requests(
        &mut self,
        round: Round,
        mut write: impl FnMut(&JudgementUnit, &WantedProbe) -> Option<(ProbeRequest, ProbeRoute)>,
    ) {
        self.not_before.retain(|_, until| *until > round);
        let mut kept = Vec::new();
        for live in std::mem::take(&mut self.outstanding) {
            // A result that is reported separately needs no sample size: one result is enough for a while.
            let over = live.answered && live.request.variant == ProbeVariant::Plain;
            if over {
                continue;
            }
            if live.answered || round.0 - live.requested_in.0 >= EXPIRY_ROUNDS {
                self.not_before.insert(live.id(), Round(round.0 + REPEAT_DELAY));
                continue;
            }
            kept.push(live);
        }
        let suspects = self
            .proposals
            .values()
            .filter(|requests| requests.is_suspect)
            .count();
        let most = (self.base_probes / BASE_PROBES_PER_REQUEST).max(suspects);
        // An unanswered request is still valid and still uses the budget.
        kept.truncate(most);
        let mut taken: BTreeSet<RequestId> = kept.iter().map(OutstandingRequest::id).collect();
        self.outstanding = kept;
        let pleas = std::mem::take(&mut self.proposals);
        let mut order: Vec<(bool, &JudgementUnit)> = pleas
            .iter()
            .map(|(unit, requests)| (!requests.is_suspect, unit))
            .collect();
        order.sort();
        let mut next: BTreeMap<&JudgementUnit, usize> = BTreeMap::new();
        let mut left = true;
        while left && self.outstanding.len() < most {
            left = false;
            for (_, unit) in &order {
                let wants = &pleas[*unit].proposals;
                let at = next.entry(unit).or_default();
                // One probe per subject and turn.
                while let Some(want) = wants.get(*at) {
                    *at += 1;
                    let Some((ask, spot)) = write(unit, want) else {
                        continue;
                    };
                    let identity = (ask.vantage.clone(), ask.id.clone());
                    if self.not_before.contains_key(&identity) || !taken.insert(identity) {
                        continue;
                    }
                    self.new_probe_requests.push(ask.clone());
                    self.outstanding.push(OutstandingRequest {
                        request: ask,
                        unit: (*unit).clone(),
                        route: spot,
                        requested_in: round,
                        answered: false,
                    });
                    left = true;
                    break;
                }
                if self.outstanding.len() >= most {
                    break;
                }
            }
        }
        self.outstanding.sort_by_key(OutstandingRequest::id);
        self.probe_requests = self.outstanding.iter().map(|live| live.request.clone()).collect();
    }
}
