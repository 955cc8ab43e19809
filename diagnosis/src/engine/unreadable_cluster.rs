//! A cluster that cannot be read: what the topology says of it may be over.

use parallax_model::EventTime;

use super::Engine;
use crate::{
    evidence::{cells::is_through_front, weights::probes},
    inference::{
        judgement::{Finding, Judgement},
        unit::JudgementUnit,
    },
    regions::{Region, share::alpha},
};

/// Of the failures that a broken endpoint would cause through the addresses before it, this share must have been seen.
const ACCUSED: f64 = 0.5;

impl Engine {
    /// From `since` on the topology is what was known last; with nothing it is what its source says now.
    ///
    /// The source's word, not the age of the last change: a cluster in which nothing happens is known all the same.
    pub fn topology_unread(&mut self, since: Option<EventTime>) {
        self.cluster.unread = since;
    }

    /// Why a verdict is no verdict while the cluster cannot be read: the endpoint, or the node, may be gone. Nobody but
    /// the plan of before asks for it then.
    ///
    /// What users meet accuses all the same: through an address of a Service the nodes choose among the endpoints that
    /// they know.
    pub(super) fn may_be_gone(
        &self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &Finding,
        at: EventTime,
    ) -> Option<String> {
        let since = self.cluster.unread?;
        let what = match finding.region {
            Region::Backend(pod) => format!("the endpoint {}", self.world.pods.name(pod)),
            Region::Bnode(node) | Region::BnodeRemote(node) => {
                format!("the node {}", self.world.nodes.name(node))
            }
            _ => return None,
        };
        // What was named while the cluster could be read is not taken back.
        if self.incidents.is_open(unit, finding.region) || accused(judgement, finding.region) {
            return None;
        }
        let age = (at - since).0 / 1_000_000;
        Some(format!("the topology is {age} s old: {what} may be gone"))
    }
}

/// Whether probes through the addresses of Services fail as a broken region would make them.
fn accused(judgement: &Judgement, region: Region) -> bool {
    let case = &judgement.case;
    let through = case.cells.iter().filter(|(key, _)| is_through_front(key.channel));
    let (expected, failed) = through.fold((0.0, 0.0), |(expected, failed), (key, counts)| {
        let share = alpha(&[region], key, &case.scene);
        if share.is_zero() {
            return (expected, failed);
        }
        (
            expected + share.get() * probes(counts.seen_n),
            failed + probes(counts.seen_f),
        )
    });
    failed > 0.0 && failed >= expected * ACCUSED
}
