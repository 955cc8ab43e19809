//! Clients that fail to reach other nodes and still reach Pods of their own node.
//!
//! A fault of a node's uplink, of its routes or of its tunnel breaks what leaves the node. A fault of the prober's Pod, of its
//! network policy or of the node's connection tracking breaks the connections within the node as well. Both are the region
//! [`Region::Client`]; the results within the node tell which one it is.

use std::collections::{BTreeMap, BTreeSet};

use super::{Region, paths::SubjectPaths, share::alpha};
use crate::{
    evidence::{
        cells::{CellCounts, CellKey, RoundCells},
        weights::to_probes,
    },
    ids::NodeIx,
};

/// ln of a Bayes factor of 20.
const MIN_GAIN: f64 = 3.0;
const MIN_FAILURES: f64 = 3.0;

/// Returns the nodes from which the cells show that connections to other nodes fail and those within the node do not.
pub(super) fn nodes_with_local_reach(paths: &SubjectPaths, cells: &RoundCells) -> BTreeSet<NodeIx> {
    let failing = cells.iter().filter(|(_, counts)| counts.failures > 0);
    let failing: BTreeSet<NodeIx> = failing
        .filter_map(|(key, _)| paths.node_of_client(key.client))
        .collect();
    let pods = paths.backends.iter().chain(&paths.resolver_pods);
    let nodes = pods.filter_map(|pod| paths.mesh.pod_node(*pod));
    let mut by_node: BTreeMap<NodeIx, Vec<(&CellKey, &CellCounts)>> = nodes
        .filter(|node| failing.contains(node))
        .map(|node| (node, Vec::new()))
        .collect();
    if by_node.is_empty() {
        return BTreeSet::new();
    }
    for (key, counts) in cells {
        let node = paths.node_of_client(key.client);
        if let Some(of_node) = node.and_then(|node| by_node.get_mut(&node)) {
            of_node.push((key, counts));
        }
    }
    let assumed = SubjectPaths {
        local_reach: by_node.keys().copied().collect(),
        ..paths.clone()
    };
    by_node.retain(|node, cells| reaches_own_pods(*node, cells, &assumed));
    by_node.into_keys().collect()
}

/// Compares "a share of what leaves the node fails" with "the same share of everything fails", by the results of one client
/// node. The share is that of the cells whose paths all leave the node. `assumed` are the paths if it reaches its own Pods.
fn reaches_own_pods(node: NodeIx, cells: &[(&CellKey, &CellCounts)], assumed: &SubjectPaths) -> bool {
    let (mut failures, mut probes) = (0.0, 0.0);
    let mut others = Vec::new();
    for (key, counts) in cells {
        let leaving = alpha(&[Region::Client(node)], key, assumed);
        let (failed, all) = (to_probes(counts.failures), to_probes(counts.probes));
        if leaving.is_full() {
            failures += failed;
            probes += all;
        } else {
            others.push((leaving.as_f64(), failed, all - failed));
        }
    }
    if failures < MIN_FAILURES {
        return false;
    }
    let rate = (failures + 0.5) / (probes + 1.0);
    let gain = others.iter().map(|(leaving, failed, succeeded)| {
        // A path within the node may fail for another reason.
        let leaving = f64::max(*leaving, MIN_LEAVING);
        failed * libm::log(leaving) + succeeded * (libm::log(1.0 - rate * leaving) - libm::log(1.0 - rate))
    });
    gain.sum::<f64>() >= MIN_GAIN
}

/// Lower bound of the share that leaves the node.
const MIN_LEAVING: f64 = 0.01;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parallax_model::Channel;

    use super::*;
    use crate::{
        evidence::{cells::Destination, weights::ONE_PROBE},
        ids::{NameIx, PodIx, VantageIx},
        regions::paths::MeshNodes,
    };

    /// Two resolver Pods, one of them on the client's node.
    fn paths() -> SubjectPaths {
        let mut mesh = MeshNodes::default();
        for i in 0..2 {
            mesh.pod_nodes.insert(PodIx(i), NodeIx(i));
            mesh.add_client(VantageIx(i), Some(NodeIx(i)));
        }
        SubjectPaths {
            mesh: Arc::new(mesh),
            resolver_pods: vec![PodIx(0), PodIx(1)],
            ..SubjectPaths::default()
        }
    }

    fn cells(echoes: (u64, u64), lookups: (u64, u64)) -> RoundCells {
        let cell = |channel, dest, (failures, probes): (u64, u64)| {
            let key = CellKey {
                channel,
                client: VantageIx(0),
                dest,
            };
            let counts = CellCounts {
                probes: probes * ONE_PROBE,
                failures: failures * ONE_PROBE,
                ..CellCounts::default()
            };
            (key, counts)
        };
        RoundCells::from([
            cell(Channel::Mesh, Destination::Peer(NodeIx(1)), echoes),
            cell(Channel::Dns, Destination::Lookup(NameIx(0)), lookups),
        ])
    }

    #[test]
    fn half_of_the_lookups_of_a_cut_off_client_succeed_if_the_pod_on_its_node_answers() {
        let reached = nodes_with_local_reach(&paths(), &cells((12, 12), (6, 12)));
        assert_eq!(reached, BTreeSet::from([NodeIx(0)]));
    }

    #[test]
    fn a_client_that_fails_everywhere_does_not_reach_its_node() {
        let reached = nodes_with_local_reach(&paths(), &cells((12, 12), (12, 12)));
        assert_eq!(reached, BTreeSet::new());
    }

    #[test]
    fn a_soft_fault_of_a_client_shows_nothing_before_many_results() {
        let reached = nodes_with_local_reach(&paths(), &cells((4, 12), (2, 12)));
        assert_eq!(reached, BTreeSet::new());
    }

    #[test]
    fn a_client_without_failures_to_other_nodes_is_not_cut_off() {
        let reached = nodes_with_local_reach(&paths(), &cells((0, 12), (6, 12)));
        assert_eq!(reached, BTreeSet::new());
    }
}
