//! Echoes without an answer to a prober that does not report: its node, or only the prober, may be away. They are withheld
//! until one of the two is ruled out. If the prober reports again and ran all the time, or is away for longer than a restart
//! takes, its node was not reachable, and they count after all. Without them, only what it answered in between would.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Round;

use super::Engine;
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::{CellCounts, CellKey, ClosedCells, Destination},
        rounds::IncarnationHash,
    },
    ids::NodeIx,
    inference::prior::{FactScope, PriorFact},
    regions::{RegionKind, paths::SubjectPaths},
    verdict::Fact,
};

/// Maximum number of rounds withheld of a prober. A drained node may stay away for hours.
const MAX_ROUNDS: usize = 32;
/// How many rounds before the first failure of a subject a prober may fall silent through the same fault.
const MAX_LEAD: i64 = 2;
/// How much likelier a fault of a node is if its prober neither answers nor reports since the failures began. Otherwise, it
/// restarts at the same time by chance; but what restarts probers may restart other Pods as well.
const ABSENT_MULTIPLIER: f64 = 30.0;
/// The faults of a node that silence its prober.
const SILENCING: [RegionKind; 3] = [RegionKind::Bnode, RegionKind::BnodeRemote, RegionKind::NodeLink];

/// The withheld echoes to each prober.
#[derive(Debug, Default)]
pub(super) struct WithheldEchoes {
    nodes: BTreeMap<NodeIx, WithheldRounds>,
}

#[derive(Debug)]
struct WithheldRounds {
    /// The prober's incarnation before it fell silent.
    incarnation: IncarnationHash,
    rounds: BTreeMap<Round, Vec<(CellKey, CellCounts)>>,
}

impl WithheldEchoes {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
    }

    /// Returns the first round withheld of a node.
    pub(super) fn silent_from(&self, node: NodeIx) -> Option<Round> {
        self.nodes.get(&node)?.rounds.keys().next().copied()
    }

    /// Returns the nodes to whose prober echoes are withheld.
    pub(super) fn silent_nodes(&self) -> impl Iterator<Item = NodeIx> {
        self.nodes.keys().copied()
    }

    /// Returns the nodes whose prober fell silent in a round since `start`.
    fn silent_since(&self, start: Round) -> impl Iterator<Item = NodeIx> {
        let nodes = self.nodes.keys().copied();
        nodes.filter(move |node| self.silent_from(*node).is_some_and(|first| first >= start))
    }
}

impl Engine {
    /// Takes the echoes to the given nodes out of a closed round.
    pub(super) fn withhold_echoes(&mut self, nodes: &BTreeSet<NodeIx>, round: Round, mesh: &mut ClosedCells) {
        let is_withheld =
            |key: &CellKey| matches!(key.dest, Destination::Peer(node) if nodes.contains(&node));
        for (key, counts) in mesh.iter().filter(|(key, _)| is_withheld(key)) {
            let Destination::Peer(node) = key.dest else {
                continue;
            };
            // A prober that never reported has not been set up yet.
            let incarnation = self
                .prober_on(node)
                .and_then(|prober| self.evidence.rounds.incarnation(prober));
            let Some((_, incarnation)) = incarnation else {
                continue;
            };
            let withheld = self
                .presence
                .withheld
                .nodes
                .entry(node)
                .or_insert_with(|| WithheldRounds {
                    incarnation,
                    rounds: BTreeMap::new(),
                });
            if withheld.rounds.len() < MAX_ROUNDS || withheld.rounds.contains_key(&round) {
                withheld
                    .rounds
                    .entry(round)
                    .or_default()
                    .push((*key, counts.clone()));
            }
        }
        mesh.retain(|key, _| !is_withheld(key));
    }

    /// Adds the withheld echoes to probers that report again to the rounds in which they were made, unless the prober has
    /// restarted.
    pub(super) fn release_echoes_of_reporting(&mut self, probers: &BTreeSet<NodeIx>, round: Round) {
        let begin = round.start(self.settings.interval);
        for node in probers {
            let prober = self.prober_on(*node);
            let reported = prober.and_then(|prober| self.evidence.rounds.incarnation(prober));
            let Some((_, incarnation)) = reported.filter(|(at, _)| *at >= begin) else {
                continue;
            };
            let withheld = self.presence.withheld.nodes.get(node);
            if withheld.is_some_and(|withheld| withheld.incarnation == incarnation) {
                self.release_echoes(*node);
            } else {
                self.presence.withheld.nodes.remove(node);
            }
        }
        let nodes = self.cluster.topology.nodes();
        let world = &self.registry.nodes;
        let withheld = &mut self.presence.withheld.nodes;
        withheld.retain(|node, _| nodes.contains_key(world.name(*node)));
    }

    /// Adds the withheld echoes to a node to the rounds in which they were made.
    pub(super) fn release_echoes(&mut self, node: NodeIx) {
        let Some(withheld) = self.presence.withheld.nodes.remove(&node) else {
            return;
        };
        let block = CellBlock::failures(EvidenceKind::Mesh);
        let Some(ring) = self.evidence.blocks.get_mut(&block) else {
            return;
        };
        for (round, cells) in withheld.rounds {
            ring.add_cells(round, cells);
        }
    }

    /// Returns facts about nodes whose prober has neither answered nor reported since the failures of a subject began. A silence
    /// that another open incident explains says nothing.
    pub(super) fn absence_facts(&self, start: Round) -> Vec<PriorFact> {
        let silent = self.presence.withheld.silent_since(Round(start.0 - MAX_LEAD));
        let silent: Vec<NodeIx> = silent.collect();
        if silent.is_empty() {
            return Vec::new();
        }
        let paths = SubjectPaths::of_mesh(&self.cluster.nodes);
        let causes = self.incidents.open_causes();
        let nodes = silent
            .into_iter()
            .filter(|node| !self.is_silence_explained(*node, *node, &causes, &paths));
        let facts = nodes.flat_map(|node| {
            let name = self.registry.nodes.name(node);
            let fact = Fact {
                text: format!("the prober on {name} neither answers other probers nor reports"),
                multiplier: ABSENT_MULTIPLIER,
                cause: None,
            };
            SILENCING.map(|kind| PriorFact {
                scope: FactScope::Node(kind, node),
                fact: fact.clone(),
            })
        });
        facts.collect()
    }
}
