//! A cluster that cannot be read: its topology may be outdated.

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

/// Share of the failures expected through Service addresses from a broken endpoint that must have been observed.
const ACCUSED: f64 = 0.5;

impl Engine {
    /// Marks the topology as unreadable since `since`, or as current with `None`.
    ///
    /// This is the state of the source, not the age of the last change: the topology of a quiet cluster is current
    /// too.
    pub fn topology_unread(&mut self, since: Option<EventTime>) {
        self.cluster.unread = since;
    }

    /// Returns why a verdict is withheld while the cluster cannot be read: the endpoint or node may be gone, and only
    /// the outdated plan still probes it.
    ///
    /// Failures on user paths still count: behind a Service address, nodes choose among the endpoints that they know.
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
        // Incidents named while the cluster could be read are not withdrawn.
        if self.incidents.is_open(unit, finding.region) || accused(judgement, finding.region) {
            return None;
        }
        let age = (at - since).0 / 1_000_000;
        Some(format!("the topology is {age} s old: {what} may be gone"))
    }
}

/// Reports whether probes through Service addresses fail as often as the broken region predicts.
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
