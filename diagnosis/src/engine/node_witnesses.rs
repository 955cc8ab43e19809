//! Nodes whose prober does not respond: direct connections to other Pods on the node show whether the node itself is
//! at fault.

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

/// Odds from direct connections above which the prober is at fault, not its node.
const ODDS: f64 = 20.0;

/// Rate at which direct connections fail while nothing is wrong.
const BACKGROUND: f64 = 0.01;

/// Upper limit of the failure rate: a failing node may seem to answer once, through a probe made just before.
const SUREST: f64 = 0.99;

/// Probes into one node, as unweighted counts.
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

    /// Log-odds of the counts with nothing wrong, against probes that fail at the given rate.
    fn odds_against(self, rate: f64) -> f64 {
        let rate = rate.clamp(BACKGROUND, SUREST);
        self.failed * log(BACKGROUND / rate) + self.passed * log((1.0 - BACKGROUND) / (1.0 - rate))
    }
}

impl Engine {
    /// Returns the node of a mesh verdict about a node if only the prober there does not respond.
    ///
    /// The mesh observes a node through its prober only. Direct connections to the other Pods on the node since the
    /// first failure show whether the node itself is unreachable: they would fail at the same rate.
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

    /// Counts direct connections from other nodes to Pods of a node that are not probers.
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

/// Returns the node that a mesh verdict is about.
const fn accused(unit: &JudgementUnit, finding: &Finding) -> Option<NodeIx> {
    match (unit, finding.region) {
        (JudgementUnit::Mesh, Region::Bnode(node) | Region::BnodeRemote(node)) => Some(node),
        _ => None,
    }
}

/// Returns the echo cells that the region of a finding would break.
fn echoes<'a>(judgement: &'a Judgement, finding: &Finding) -> impl Iterator<Item = &'a CellCounts> {
    let (case, region) = (&judgement.case, finding.region);
    let broken = case
        .cells
        .iter()
        .filter(move |(key, _)| !alpha(&[region], key, &case.scene).is_zero());
    broken.map(|(_, counts)| counts)
}

/// Converts weights to probes and sums them.
fn tally(counts: impl Iterator<Item = (u64, u64)>) -> NodeProbeCounts {
    let (n, f) = counts.fold((0, 0), |(n, f), (more_n, more_f)| (n + more_n, f + more_f));
    NodeProbeCounts {
        passed: probes(n - f),
        failed: probes(f),
    }
}
