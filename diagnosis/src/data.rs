//! The summed cells of one subject over one window, indexed so that a region looks only at cells it can touch.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cells::{CellKey, Dest, RoundCells},
    ids::{NodeIx, PodIx},
    likelihood::Groups,
    region::{Alpha, Region, alpha},
    scene::Scene,
};

/// A summed cell.
#[derive(Debug, Clone)]
pub(crate) struct DataCell {
    pub(crate) key: CellKey,
    pub(crate) n: u64,
    pub(crate) f: u64,
}

/// The evidence of one comparison; every hypothesis is judged on all of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Data {
    pub(crate) cells: Vec<DataCell>,
    failures: u64,
    successes: u64,
    by_client: BTreeMap<NodeIx, Vec<usize>>,
    by_node: BTreeMap<NodeIx, Vec<usize>>,
    by_pod: BTreeMap<PodIx, Vec<usize>>,
    floating: Vec<usize>,
}

impl Data {
    pub(crate) fn new(cells: &RoundCells, scene: &Scene) -> Self {
        let mut data = Self::default();
        for (key, counts) in cells.iter().filter(|(_, c)| c.n > 0) {
            let index = data.cells.len();
            data.failures += counts.f;
            data.successes += counts.n - counts.f;
            if let Some(node) = scene.node_of_client(key.client) {
                data.by_client.entry(node).or_default().push(index);
            }
            match key.dest {
                Dest::Entry(pod) => {
                    data.by_pod.entry(pod).or_default().push(index);
                    if let Some(node) = scene.pod_nodes.get(&pod) {
                        data.by_node.entry(*node).or_default().push(index);
                    }
                }
                Dest::Peer(node) => data.by_node.entry(node).or_default().push(index),
                Dest::Unknown => data.floating.push(index),
                Dest::Name(_) => {}
            }
            data.cells.push(DataCell {
                key: *key,
                n: counts.n,
                f: counts.f,
            });
        }
        data
    }

    pub(crate) const fn failures(&self) -> u64 {
        self.failures
    }

    /// The cells a union of regions may touch.
    fn support(&self, regions: &[Region]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for region in regions {
            let lists: [Option<&Vec<usize>>; 2] = match region {
                Region::Healthy => [None, None],
                Region::Client(n) | Region::ClientVip(n) | Region::Pair(n, _) | Region::DnsClient(n) => {
                    [self.by_client.get(n), None]
                }
                Region::Bnode(n) | Region::BnodeRemote(n) => [self.by_node.get(n), Some(&self.floating)],
                Region::Backend(pod) => [self.by_pod.get(pod), Some(&self.floating)],
                _ => {
                    found.extend(0..self.cells.len());
                    [None, None]
                }
            };
            found.extend(lists.into_iter().flatten().flatten());
        }
        found
    }

    /// Cells with a share above zero, in order.
    pub(crate) fn shares(&self, regions: &[Region], scene: &Scene) -> Vec<(usize, Alpha)> {
        self.support(regions)
            .into_iter()
            .map(|i| (i, alpha(regions, &self.cells[i].key, scene)))
            .filter(|(_, alpha)| !alpha.is_zero())
            .collect()
    }

    /// Failures and successes by share; what is outside has share zero.
    pub(crate) fn groups(&self, shares: &[(usize, Alpha)]) -> Groups {
        let mut groups = Groups::new();
        let (mut failures, mut successes) = (self.failures, self.successes);
        for (i, alpha) in shares {
            let cell = &self.cells[*i];
            failures -= cell.f;
            successes -= cell.n - cell.f;
            let sum = groups.entry(*alpha).or_default();
            sum.0 += cell.f;
            sum.1 += cell.n - cell.f;
        }
        groups.insert(Alpha::ZERO, (failures, successes));
        groups
    }

    /// Whether any failure lies in the cells.
    pub(crate) fn touches_failure(&self, shares: &[(usize, Alpha)]) -> bool {
        shares.iter().any(|(i, _)| self.cells[*i].f > 0)
    }
}
