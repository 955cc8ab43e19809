//! The nodes to which a load balancer may send a connection, grouped so that a pool of thousands is compared by a few.

use std::collections::BTreeMap;

use crate::ids::{IndexedTable, NodeIx, ZoneIx};

/// What distinguishes nodes of the pool that no region, client or endpoint names: the zone, and whether the node has a usable
/// endpoint of its own.
type NodeGroup = (Option<ZoneIx>, bool);

/// The nodes of a balancer's pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct BalancerPool {
    /// In ascending order.
    groups: BTreeMap<NodeGroup, Vec<NodeIx>>,
    /// Number of nodes in all groups; asked for each share.
    len: usize,
}

impl BalancerPool {
    /// Creates the pool. `has_endpoint` reports whether a node has a usable endpoint.
    pub(crate) fn new(
        nodes: impl IntoIterator<Item = NodeIx>,
        zones: &IndexedTable<NodeIx, ZoneIx>,
        has_endpoint: impl Fn(NodeIx) -> bool,
    ) -> Self {
        let mut groups: BTreeMap<NodeGroup, Vec<NodeIx>> = BTreeMap::new();
        for node in nodes {
            let group = (zones.get(&node).copied(), has_endpoint(node));
            groups.entry(group).or_default().push(node);
        }
        for nodes in groups.values_mut() {
            nodes.sort_unstable();
        }
        let len = groups.values().map(Vec::len).sum();
        Self { groups, len }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Reports whether the balancer may select a node without an endpoint.
    pub(crate) fn has_node_without_endpoint(&self) -> bool {
        self.groups.keys().any(|(_, has_endpoint)| !has_endpoint)
    }

    /// Returns nodes that stand for the whole pool, each with the number of nodes that it stands for. The distinguished nodes
    /// stand for themselves, one of the others for each group.
    pub(crate) fn representatives(&self, distinguished: &[NodeIx]) -> Vec<(NodeIx, usize)> {
        let mut all = Vec::new();
        for nodes in self.groups.values() {
            let mut own: Vec<NodeIx> = distinguished.to_vec();
            own.retain(|node| nodes.binary_search(node).is_ok());
            own.sort_unstable();
            own.dedup();
            let other = nodes.iter().find(|node| !own.contains(node));
            all.extend(other.map(|node| (*node, nodes.len() - own.len())));
            all.extend(own.into_iter().map(|node| (node, 1)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_pool_is_represented_by_its_groups_and_the_distinguished_nodes() {
        let mut zones = IndexedTable::default();
        for node in 0..1000_u32 {
            zones.insert(NodeIx::from(node), ZoneIx::from(node % 2));
        }
        let pool = BalancerPool::new((0..1000_u32).map(NodeIx::from), &zones, |node| {
            node < NodeIx::from(10)
        });
        let (three, other) = (NodeIx::from(3), NodeIx::from(500));
        let all = pool.representatives(&[three, other, three, NodeIx::from(5000)]);
        assert_eq!(all.iter().map(|(_, count)| count).sum::<usize>(), 1000);
        assert_eq!(all.len(), 4 + 2, "{all:?}");
        assert!(all.contains(&(three, 1)) && all.contains(&(other, 1)), "{all:?}");
        assert_eq!(pool.len(), 1000);
    }
}
