//! A cluster that cannot be read: its topology may be outdated.

use parallax_model::EventTime;

use super::Engine;
use crate::{
    evidence::{cells::is_through_front, weights::to_probes},
    inference::{
        judgement::{ExplainedRegion, Judgement},
        judgement_unit::JudgementUnit,
    },
    regions::{Region, share::alpha},
};

/// Share of the failures expected through Service addresses from a broken endpoint that must have been observed.
const MIN_FAILURE_SHARE: f64 = 0.5;

impl Engine {
    /// Marks the topology as unreadable since `since`, or as current with `None`.
    ///
    /// This is the state of the source, not the age of the last change: the topology of a quiet cluster is current
    /// too.
    pub fn set_topology_unreadable(&mut self, since: Option<EventTime>) {
        self.cluster.unreadable_since = since;
    }

    /// Returns why a verdict is withheld while the cluster cannot be read: the endpoint or node may be gone, and only
    /// the outdated plan still probes it.
    ///
    /// Failures on user paths still count: behind a Service address, nodes choose among the endpoints that they know.
    pub(super) fn outdated_topology_explanation(
        &self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &ExplainedRegion,
        at: EventTime,
    ) -> Option<String> {
        let since = self.cluster.unreadable_since?;
        let subject = match finding.region {
            Region::Backend(pod) => format!("the endpoint {}", self.registry.pods.name(pod)),
            Region::Bnode(node) | Region::BnodeRemote(node) => {
                format!("the node {}", self.registry.nodes.name(node))
            }
            _ => return None,
        };
        // Incidents named while the cluster could be read are not withdrawn.
        if self.incidents.is_open(unit, finding.region) || user_paths_fail(judgement, finding.region) {
            return None;
        }
        let age = (at - since).0 / 1_000_000;
        Some(format!("the topology is {age} s old: {subject} may be gone"))
    }
}

/// Reports whether probes through Service addresses fail as often as the broken region predicts.
fn user_paths_fail(judgement: &Judgement, region: Region) -> bool {
    let case = &judgement.input;
    let through = case.cells.iter().filter(|(key, _)| is_through_front(key.channel));
    let (expected, failed) = through.fold((0.0, 0.0), |(expected, failed), (key, counts)| {
        let share = alpha(&[region], key, &case.paths);
        if share.is_zero() {
            return (expected, failed);
        }
        (
            expected + share.as_f64() * to_probes(counts.unweighted_probes),
            failed + to_probes(counts.unweighted_failures),
        )
    });
    failed > 0.0 && failed >= expected * MIN_FAILURE_SHARE
}
