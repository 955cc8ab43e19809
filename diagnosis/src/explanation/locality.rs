//! TTL evidence for which host answers at a front's address.

use std::collections::BTreeSet;

use parallax_model::Vantage;

use super::VerdictContext;
use crate::{inference::judgement::ExplainedRegion, wording::MAX_LISTED_NAMES};

pub(super) struct Locality {
    pub(super) lines: Vec<String>,
    /// Whether the failing clients' own nodes answer.
    pub(super) own_node_answers: bool,
}

impl VerdictContext<'_> {
    pub(super) fn locality(&self, finding: &ExplainedRegion) -> Locality {
        let failing: BTreeSet<&Vantage> = finding
            .failing_clients
            .iter()
            .map(|c| self.registry.vantages.name(*c))
            .collect();
        let mut lines = Vec::new();
        let (mut own, mut probed) = (0, 0);
        for (vantage, evidence) in self
            .ttl
            .iter()
            .filter(|(v, _)| failing.contains(v))
            .take(MAX_LISTED_NAMES)
        {
            probed += 1;
            own += u32::from(evidence.crossed_no_router());
            let ttl_text = if evidence.crossed_no_router() {
                "an untouched TTL of"
            } else {
                "a TTL of"
            };
            let so = if evidence.crossed_no_router() {
                ": the client's own node answers"
            } else {
                ": the answer crossed a router"
            };
            lines.push(format!(
                "{} answers {vantage} (failing) with {ttl_text} {}{so}",
                evidence.address, evidence.ttl
            ));
        }
        for (vantage, evidence) in self.ttl.iter().filter(|(v, _)| !failing.contains(v)).take(2) {
            let so = if evidence.crossed_no_router() {
                ": its own node answers too and has an endpoint to forward to"
            } else {
                ": the answer crossed a router"
            };
            lines.push(format!(
                "{} answers {vantage} (passing) with a TTL of {}{so}",
                evidence.address, evidence.ttl
            ));
        }
        Locality {
            lines,
            own_node_answers: probed > 0 && own == probed,
        }
    }
}
