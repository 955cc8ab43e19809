//! Follow-up probes for directed pairs of nodes, which need several failures to overcome their low prior: each
//! failure from one node to another triggers two repeats, the reverse direction, another source and another
//! destination.

use std::collections::BTreeSet;

use parallax_model::{Channel, Round};

use super::{
    ProbeVariant, candidates::ProbeCapabilities, choice::WantedProbe, information_gain::ExplanationWeights,
};
use crate::{
    evidence::cells::{CellKey, Destination},
    ids::{NodeIx, VantageIx},
    inference::judgement::FailingCells,
    regions::{Region, share::alpha},
};

/// Rounds in which a failure is repeated.
const REPEAT_ROUNDS: i64 = 2;
/// Number of failing paths of either node above which the node, not the pair, is suspected.
const MIN_FAILING_PATHS: u64 = 3;
/// Maximum number of pairs per round and subject.
const MAX_PAIRS: usize = 4;

/// Returns the follow-up probes for paths that failed recently and that no named region explains.
pub(crate) fn pair_probes(
    failing: &FailingCells,
    round: Round,
    explained: &[Region],
    beliefs: &ExplanationWeights,
    ground: &ProbeCapabilities<'_>,
) -> Vec<WantedProbe> {
    let paths = ground.paths;
    let recent: BTreeSet<CellKey> = failing
        .range(Round(round.0 - REPEAT_ROUNDS + 1)..)
        .flat_map(|(_, keys)| keys.iter().copied())
        .collect();
    let mut pairs: Vec<(u64, NodeIx, NodeIx, CellKey)> = recent
        .into_iter()
        .filter(|key| alpha(explained, key, paths).is_zero())
        .filter_map(|key| {
            let from = paths.node_of_client(key.client)?;
            let into = ground.paths.mesh.destination_node(key.dest)?;
            (from != into).then(|| (failing_cells_elsewhere(from, into, ground), from, into, key))
        })
        // If many paths of the client or into the destination fail, the pair is not suspected.
        .filter(|(other_failures, ..)| *other_failures < MIN_FAILING_PATHS)
        .collect();
    pairs.sort();
    pairs.dedup_by_key(|(_, from, into, _)| (*from, *into));
    let mut wants = Vec::new();
    let turns = [repeat, reverse, other_source, other_destination];
    // All repeats first: they carry the most information.
    for turn in turns {
        for (_, from, into, key) in pairs.iter().take(MAX_PAIRS) {
            let Some(candidate) = turn(*from, *into, key, ground) else {
                continue;
            };
            let shares = beliefs.shares(&candidate, paths);
            wants.push(WantedProbe {
                key: candidate,
                variant: ProbeVariant::Plain,
                bits: beliefs.expected_gain(&shares),
                separates: beliefs.best_separated_pair(&shares),
                reason: None,
            });
        }
    }
    wants
}

/// Counts the mostly failing cells that share exactly one of the two nodes. A low count points at the pair.
fn failing_cells_elsewhere(from: NodeIx, into: NodeIx, ground: &ProbeCapabilities<'_>) -> u64 {
    let others = ground.cells.iter().filter(|(key, counts)| {
        let source = ground.paths.node_of_client(key.client);
        let destination = ground.paths.mesh.destination_node(key.dest);
        2 * counts.failures >= counts.probes.max(1) && (source == Some(from)) != (destination == Some(into))
    });
    u64::try_from(others.count()).unwrap_or(u64::MAX)
}

fn unplanned(key: CellKey, ground: &ProbeCapabilities<'_>) -> Option<CellKey> {
    let open = !ground.is_planned(&key);
    (open && ground.reporting_vantages.contains(&key.client)).then_some(key)
}

/// Accepts a control probe that has not been made yet.
fn new_control(key: CellKey, ground: &ProbeCapabilities<'_>) -> Option<CellKey> {
    unplanned(key, ground).filter(|key| !ground.cells.contains_key(key))
}

fn vantage_on(node: NodeIx, ground: &ProbeCapabilities<'_>) -> Option<VantageIx> {
    let mut vantages = ground
        .paths
        .mesh
        .clients
        .iter()
        .filter(|(_, n)| **n == Some(node));
    vantages
        .find(|(client, _)| ground.reporting_vantages.contains(client))
        .map(|(client, _)| client)
}

fn has_echo(node: NodeIx, ground: &ProbeCapabilities<'_>) -> bool {
    ground.paths.mesh.prober_pods.values().any(|n| *n == node)
}

fn mesh_probe(client: VantageIx, node: NodeIx, ground: &ProbeCapabilities<'_>) -> Option<CellKey> {
    has_echo(node, ground).then_some(CellKey {
        channel: Channel::Mesh,
        client,
        dest: Destination::Peer(node),
    })
}

fn repeat(_: NodeIx, _: NodeIx, key: &CellKey, ground: &ProbeCapabilities<'_>) -> Option<CellKey> {
    let answers = matches!(key.channel, Channel::Mesh | Channel::Direct);
    answers.then(|| unplanned(*key, ground)).flatten()
}

fn reverse(from: NodeIx, into: NodeIx, _: &CellKey, ground: &ProbeCapabilities<'_>) -> Option<CellKey> {
    new_control(mesh_probe(vantage_on(into, ground)?, from, ground)?, ground)
}

/// Returns a probe from another node to the same destination, if not yet made.
fn other_source(
    from: NodeIx,
    into: NodeIx,
    key: &CellKey,
    ground: &ProbeCapabilities<'_>,
) -> Option<CellKey> {
    let nodes = ground.paths.mesh.clients.values().flatten();
    let others: Vec<NodeIx> = nodes.copied().filter(|n| *n != from && *n != into).collect();
    let at = rotate(&others, ground)?;
    let client = vantage_on(at, ground)?;
    if key.channel == Channel::Direct {
        return new_control(CellKey { client, ..*key }, ground);
    }
    new_control(mesh_probe(client, into, ground)?, ground)
}

fn other_destination(
    from: NodeIx,
    into: NodeIx,
    key: &CellKey,
    ground: &ProbeCapabilities<'_>,
) -> Option<CellKey> {
    let nodes = ground.paths.mesh.prober_pods.values();
    let others: Vec<NodeIx> = nodes.copied().filter(|n| *n != from && *n != into).collect();
    new_control(mesh_probe(key.client, rotate(&others, ground)?, ground)?, ground)
}

/// Selects a different node each round.
fn rotate(nodes: &[NodeIx], ground: &ProbeCapabilities<'_>) -> Option<NodeIx> {
    let turn = usize::try_from(ground.round.rem_euclid(i64::try_from(nodes.len()).ok()?.max(1))).ok()?;
    nodes.get(turn).copied()
}
