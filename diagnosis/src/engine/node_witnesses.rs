//! A node whose prober answers nobody: the other pods there say whether it is the node.

use libm::log;
use parallax_model::NodeName;

use super::Engine;
use crate::{
    evidence::{
        block::EvidenceKind,
        cells::{CellCounts, Destination, RoundCells},
        weights::probes,
    },
    ids::NodeIx,
    inference::{
        judgement::{Finding, Judgement},
        unit::JudgementUnit,
    },
    regions::{Region, share::alpha},
};

/// Direct connections must speak this much louder against the node than for it.
const ODDS: f64 = 20.0;

/// How often a direct connection fails where nothing is wrong.
const BACKGROUND: f64 = 0.01;

/// A node that always fails may be seen to answer once, by a probe that came before.
const SUREST: f64 = 0.99;

/// Probes into one node, as people read them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct NodeProbeCounts {
    passed: f64,
    failed: f64,
}

impl NodeProbeCounts {
    fn rate(self) -> Option<f64> {
        let all = self.passed + self.failed;
        (all > 0.0).then(|| self.failed / all)
    }

    /// How much likelier the tally is where nothing is wrong than where probes fail at a rate.
    fn odds_against(self, rate: f64) -> f64 {
        let rate = rate.clamp(BACKGROUND, SUREST);
        self.failed * log(BACKGROUND / rate) + self.passed * log((1.0 - BACKGROUND) / (1.0 - rate))
    }
}

impl Engine {
    /// The node of a verdict of the mesh about a node, if it is the prober there alone that does not answer.
    ///
    /// The mesh itself knows a node by its prober only. Whether it is the node that cannot be reached is told by the
    /// direct connections to the pods there that are no probers, since the first failure: they would fail as often.
    pub(super) fn only_its_prober(
        &self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &Finding,
    ) -> Option<&NodeName> {
        let node = accused(unit, finding)?;
        let rate = tally(echoes(judgement, finding).map(|counts| (counts.seen_n, counts.seen_f))).rate()?;
        let direct = self.direct_into(node, finding, judgement);
        (direct.odds_against(rate) > log(ODDS)).then(|| self.world.nodes.name(node))
    }

    /// Direct connections of the other nodes to pods of a node that are no probers.
    fn direct_into(&self, node: NodeIx, finding: &Finding, judgement: &Judgement) -> NodeProbeCounts {
        let nodes = &judgement.case.scene.nodes;
        let mut cells = RoundCells::new();
        for (block, ring) in &self.evidence.blocks {
            if !block.slow && matches!(block.of, EvidenceKind::Direct(..)) {
                ring.sum_into(finding.first_failure, &mut cells);
            }
        }
        let there = cells.iter().filter(|(key, _)| {
            let Destination::Entry(pod) = key.dest else {
                return false;
            };
            nodes.pods.get(&pod) == Some(&node)
                && nodes.prober_pods.get(&pod).is_none()
                && nodes.clients.get(&key.client).copied().flatten() != Some(node)
        });
        tally(there.map(|(_, counts)| (counts.seen_n, counts.seen_f)))
    }
}

/// The node that a verdict of the mesh accuses.
const fn accused(unit: &JudgementUnit, finding: &Finding) -> Option<NodeIx> {
    match (unit, finding.region) {
        (JudgementUnit::Mesh, Region::Bnode(node) | Region::BnodeRemote(node)) => Some(node),
        _ => None,
    }
}

/// The echoes that the region of a finding would break.
fn echoes<'a>(judgement: &'a Judgement, finding: &Finding) -> impl Iterator<Item = &'a CellCounts> {
    let (case, region) = (&judgement.case, finding.region);
    let broken = case
        .cells
        .iter()
        .filter(move |(key, _)| !alpha(&[region], key, &case.scene).is_zero());
    broken.map(|(_, counts)| counts)
}

/// Sums weights into probes.
fn tally(counts: impl Iterator<Item = (u64, u64)>) -> NodeProbeCounts {
    let (n, f) = counts.fold((0, 0), |(n, f), (more_n, more_f)| (n + more_n, f + more_f));
    NodeProbeCounts {
        passed: probes(n - f),
        failed: probes(f),
    }
}
