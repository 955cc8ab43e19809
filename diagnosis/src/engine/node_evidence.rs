//! Nodes whose prober does not respond: direct connections to other Pods on the node show whether the node itself is
//! at fault.

use libm::log;
use parallax_model::NodeName;

use super::Engine;
use crate::{
    evidence::{
        block::EvidenceKind,
        cells::{CellCounts, Destination, RoundCells},
        weights::to_probes,
    },
    ids::NodeIx,
    inference::{
        judgement::{ExplainedRegion, Judgement},
        judgement_unit::JudgementUnit,
    },
    regions::{Region, share::alpha},
};

/// Odds from direct connections above which the prober is at fault, not its node.
const MIN_ODDS: f64 = 20.0;

/// Rate at which direct connections fail while nothing is wrong.
const BACKGROUND_FAILURE_RATE: f64 = 0.01;

/// Upper limit of the failure rate: a failing node may seem to answer once, through a probe made just before.
const MAX_FAILURE_RATE: f64 = 0.99;

/// Probes into one node, as unweighted counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct NodeProbeCounts {
    passed: f64,
    failed: f64,
}

impl NodeProbeCounts {
    fn failure_rate(self) -> Option<f64> {
        let all = self.passed + self.failed;
        (all > 0.0).then(|| self.failed / all)
    }

    /// Log-odds of the counts with nothing wrong, against probes that fail at the given rate.
    fn log_odds_against(self, rate: f64) -> f64 {
        let rate = rate.clamp(BACKGROUND_FAILURE_RATE, MAX_FAILURE_RATE);
        self.failed * log(BACKGROUND_FAILURE_RATE / rate)
            + self.passed * log((1.0 - BACKGROUND_FAILURE_RATE) / (1.0 - rate))
    }
}

impl Engine {
    /// Returns the node of a mesh verdict about a node if only the prober there does not respond.
    ///
    /// The mesh observes a node through its prober only. Direct connections to the other Pods on the node since the
    /// first failure show whether the node itself is unreachable: they would fail at the same rate.
    pub(super) fn node_with_only_prober_down(
        &self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &ExplainedRegion,
    ) -> Option<&NodeName> {
        let node = suspect_node(unit, finding)?;
        let rate = sum_probes(
            echo_cells(judgement, finding)
                .map(|counts| (counts.unweighted_probes, counts.unweighted_failures)),
        )
        .failure_rate()?;
        let direct = self.direct_probe_counts(node, finding, judgement);
        (direct.log_odds_against(rate) > log(MIN_ODDS)).then(|| self.registry.nodes.name(node))
    }

    /// Counts direct connections from other nodes to Pods of a node that are not probers.
    fn direct_probe_counts(
        &self,
        node: NodeIx,
        finding: &ExplainedRegion,
        judgement: &Judgement,
    ) -> NodeProbeCounts {
        let nodes = &judgement.input.paths.mesh;
        let mut cells = RoundCells::new();
        for (block, ring) in &self.evidence.blocks {
            if !block.slow && matches!(block.kind, EvidenceKind::Direct(..)) {
                ring.sum_into(finding.first_failure, &mut cells);
            }
        }
        let on_node = cells.iter().filter(|(key, _)| {
            let Destination::Entry(pod) = key.dest else {
                return false;
            };
            nodes.pod_nodes.get(&pod) == Some(&node)
                && nodes.prober_pods.get(&pod).is_none()
                && nodes.clients.get(&key.client).copied().flatten() != Some(node)
        });
        sum_probes(on_node.map(|(_, counts)| (counts.unweighted_probes, counts.unweighted_failures)))
    }
}

/// Returns the node that a mesh verdict is about.
const fn suspect_node(unit: &JudgementUnit, finding: &ExplainedRegion) -> Option<NodeIx> {
    match (unit, finding.region) {
        (JudgementUnit::Mesh, Region::Bnode(node) | Region::BnodeRemote(node)) => Some(node),
        _ => None,
    }
}

/// Returns the echo cells that the region of a finding would break.
fn echo_cells<'a>(
    judgement: &'a Judgement,
    finding: &ExplainedRegion,
) -> impl Iterator<Item = &'a CellCounts> {
    let (case, region) = (&judgement.input, finding.region);
    let broken = case
        .cells
        .iter()
        .filter(move |(key, _)| !alpha(&[region], key, &case.paths).is_zero());
    broken.map(|(_, counts)| counts)
}

/// Converts weights to probes and sums them.
fn sum_probes(counts: impl Iterator<Item = (u64, u64)>) -> NodeProbeCounts {
    let (n, f) = counts.fold((0, 0), |(n, f), (more_n, more_f)| (n + more_n, f + more_f));
    NodeProbeCounts {
        passed: to_probes(n - f),
        failed: to_probes(f),
    }
}
