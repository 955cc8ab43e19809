//! The summed cells of one subject over one window, with indexes from regions to the cells they can affect.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    failure_kinds::{KindWeights, VIP_GROUP, channel_group},
    likelihood::ShareGroups,
    window::{CausePeriods, WindowCells},
};
use crate::{
    evidence::{
        cells::{CellCounts, CellKey, Destination},
        weights::to_probes,
    },
    ids::{KindIx, NodeIx, PodIx, ZoneIx, class_index},
    regions::{
        Region,
        paths::SubjectPaths,
        share::{PathShare, alpha},
    },
};

use parallax_model::{KindClass, Round};

/// A cell summed over a part of the window.
#[derive(Debug, Clone)]
pub(crate) struct DataCell {
    pub(crate) key: CellKey,
    /// First round of the part.
    begin: Round,
    pub(crate) probes: u64,
    pub(crate) failures: u64,
    /// Failures by class.
    pub(super) kinds: KindWeights,
}

/// Affected cells in ascending order, each with the region's share of its paths.
pub(crate) type RegionShares = Vec<(usize, PathShare)>;

/// The evidence of one comparison. Every hypothesis is evaluated on all of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ComparisonData {
    pub(crate) cells: Vec<DataCell>,
    failures: u64,
    successes: u64,
    by_client: BTreeMap<NodeIx, Vec<usize>>,
    by_node: BTreeMap<NodeIx, Vec<usize>>,
    by_pod: BTreeMap<PodIx, Vec<usize>>,
    unknown_entry: Vec<usize>,
    /// Cells of questions to the resolvers.
    questions: Vec<usize>,
    /// When causes were there.
    periods: CausePeriods,
}

impl ComparisonData {
    /// Takes the cells of a window; `class_of` maps a kind of failure to its class.
    pub(crate) fn new(
        window: &WindowCells,
        paths: &SubjectPaths,
        class_of: impl Fn(KindIx, Option<u16>) -> KindClass,
    ) -> Self {
        let mut data = Self {
            periods: window.periods().clone(),
            ..Self::default()
        };
        for (begin, cells) in window.parts() {
            for (key, counts) in cells.iter().filter(|(_, c)| c.probes > 0) {
                data.push(begin, *key, counts, paths, &class_of);
            }
        }
        data
    }

    fn push(
        &mut self,
        begin: Round,
        key: CellKey,
        counts: &CellCounts,
        paths: &SubjectPaths,
        class_of: &impl Fn(KindIx, Option<u16>) -> KindClass,
    ) {
        let index = self.cells.len();
        self.failures += counts.failures;
        self.successes += counts.probes - counts.failures;
        if let Some(node) = paths.node_of_client(key.client) {
            self.by_client.entry(node).or_default().push(index);
        }
        match key.dest {
            Destination::Entry(pod) => {
                self.by_pod.entry(pod).or_default().push(index);
                if let Some(node) = paths.mesh.pod_nodes.get(&pod) {
                    self.by_node.entry(*node).or_default().push(index);
                }
            }
            Destination::Peer(node) => self.by_node.entry(node).or_default().push(index),
            Destination::Unknown => self.unknown_entry.push(index),
            Destination::Name(_) | Destination::Lookup(_) => self.questions.push(index),
        }
        let mut kinds = KindWeights::default();
        for ((kind, status), (weight, _)) in &counts.kinds {
            kinds[class_index(class_of(*kind, *status))] += weight;
        }
        self.cells.push(DataCell {
            key,
            begin,
            probes: counts.probes,
            failures: counts.failures,
            kinds,
        });
    }

    /// Returns those of `regions` that may have caused failures in a round: a cause explains nothing from before it began and
    /// after it was over.
    pub(crate) fn present(&self, regions: &[Region], round: Round) -> Vec<Region> {
        let present = |region: &&Region| self.periods.is_present(**region, round);
        regions.iter().filter(present).copied().collect()
    }

    pub(crate) const fn periods(&self) -> &CausePeriods {
        &self.periods
    }

    pub(crate) const fn failures(&self) -> u64 {
        self.failures
    }

    /// Reports whether at least a tenth of the failures through the front look like an unexpected PROXY header (or
    /// a missing one): reset, stalled or rejected after the connection was established. `understood` is the number
    /// of those failures that prove the opposite ([`parallax_model::FailureKind::proves_header_accepted`]).
    pub(crate) fn suggests_proxy_header_mismatch(&self, understood: f64) -> bool {
        let (mut before, mut after) = (0.0, 0.0);
        for cell in self
            .cells
            .iter()
            .filter(|cell| channel_group(cell.key.channel) == VIP_GROUP)
        {
            for (class, weight) in KindClass::ALL.iter().zip(cell.kinds) {
                let count = to_probes(weight);
                match class {
                    KindClass::Reset | KindClass::Stall | KindClass::Tls | KindClass::Http4xx => {
                        after += count;
                    }
                    _ => before += count,
                }
            }
        }
        after -= understood;
        before += understood;
        // The tolerance absorbs rounding: equal sums of weights may differ in the last bit.
        after * 9.0 >= before && after > 1e-9
    }

    /// Reports whether most failures are connections that opened and then stalled.
    pub(crate) fn mostly_stalls(&self) -> bool {
        self.are_mostly(&[KindClass::Stall])
    }

    /// Reports whether most failures are missing answers, as packet loss leaves them.
    pub(crate) fn mostly_unanswered(&self) -> bool {
        self.are_mostly(&[KindClass::Timeout, KindClass::Stall])
    }

    fn are_mostly(&self, classes: &[KindClass]) -> bool {
        let kinds = || self.cells.iter().flat_map(|cell| cell.kinds.iter().enumerate());
        let of_classes = kinds().filter(|(i, _)| classes.iter().any(|class| class_index(*class) == *i));
        let all: u64 = kinds().map(|(_, weight)| weight).sum();
        2 * of_classes.map(|(_, weight)| weight).sum::<u64>() > all
    }

    /// Reports whether any client may cross a region further on: an entry connects to its origins from any node with an entry,
    /// whichever client asks. So does a balancer's node to the endpoints.
    fn is_onward(region: Region, paths: &SubjectPaths) -> bool {
        !paths.origin_pods.is_empty()
            || paths.front_origins.is_affected_by(region)
            || (region.is_between_nodes() && paths.has_receiver_hop(None))
    }

    /// Reports whether a region may affect any cell. Most regions of a large cluster affect a few clients only, and this is
    /// much cheaper than [`Self::shares`].
    pub(crate) fn may_affect(&self, region: Region, paths: &SubjectPaths) -> bool {
        let has_client = |node: NodeIx| self.by_client.contains_key(&node);
        match region {
            Region::Healthy => false,
            Region::ClientVip(n) | Region::DnsClient(n) => has_client(n),
            _ if Self::is_onward(region, paths) => true,
            Region::Client(n) | Region::Pair(n, _) => has_client(n),
            Region::Link(a, b) => has_client(a) || has_client(b),
            _ => true,
        }
    }

    /// Returns the cells that a region may affect, in ascending order.
    fn candidate_cells(&self, region: Region, paths: &SubjectPaths) -> Vec<usize> {
        let of_client = |node: NodeIx| self.by_client.get(&node);
        let lists: [Option<&Vec<usize>>; 3] = match region {
            Region::Healthy => [None; 3],
            Region::ClientVip(n) | Region::DnsClient(n) => [of_client(n), None, None],
            _ if Self::is_onward(region, paths) => return (0..self.cells.len()).collect(),
            Region::Client(n) | Region::Pair(n, _) => [of_client(n), None, None],
            Region::Link(a, b) => [of_client(a), of_client(b), None],
            Region::Bnode(n) | Region::BnodeRemote(n) => {
                // A probe whose endpoint is unknown can end only on a node that has an endpoint.
                let floating = paths.local_nodes.contains(&n).then_some(&self.unknown_entry);
                let questions = paths.has_resolver_on(n).then_some(&self.questions);
                [self.by_node.get(&n), floating, questions]
            }
            Region::NodeLink(n) => {
                let mut found = self.candidate_cells(Region::Client(n), paths);
                found.extend(self.candidate_cells(Region::Bnode(n), paths));
                found.sort_unstable();
                found.dedup();
                return found;
            }
            Region::Zone(from, _) => return self.cells_from_zones(&[from], paths),
            Region::ZoneLink(a, b) => return self.cells_from_zones(&[a, b], paths),
            Region::Backend(pod) => {
                let floating = paths.may_select(pod).then_some(&self.unknown_entry);
                let questions = paths.resolver_pods.contains(&pod).then_some(&self.questions);
                [self.by_pod.get(&pod), floating, questions]
            }
            _ => return (0..self.cells.len()).collect(),
        };
        let mut found: Vec<usize> = lists.into_iter().flatten().flatten().copied().collect();
        found.sort_unstable();
        found
    }

    /// Returns the cells of clients in the zones, in ascending order.
    fn cells_from_zones(&self, zones: &[ZoneIx], paths: &SubjectPaths) -> Vec<usize> {
        let is_in_zones = |node: &NodeIx| {
            paths
                .mesh
                .zones
                .get(node)
                .is_some_and(|zone| zones.contains(zone))
        };
        let clients = self.by_client.iter().filter(|(node, _)| is_in_zones(node));
        let mut found: Vec<usize> = clients.flat_map(|(_, cells)| cells).copied().collect();
        found.sort_unstable();
        found
    }

    /// Returns the cells with a share above zero, in ascending order.
    pub(crate) fn shares(&self, region: Region, paths: &SubjectPaths) -> RegionShares {
        self.candidate_cells(region, paths)
            .into_iter()
            .filter(|i| self.periods.is_present(region, self.cells[*i].begin))
            .map(|i| (i, alpha(&[region], &self.cells[i].key, paths)))
            .filter(|(_, alpha)| !alpha.is_zero())
            .collect()
    }

    /// Returns the shares of the union of two sets of regions. If one share is certain, it is the union's share.
    /// Only if both are fractional (the chosen endpoint is unknown) is the union computed on paths.
    pub(crate) fn union(
        &self,
        (left, left_regions): (&RegionShares, &[Region]),
        (right, right_region): (&RegionShares, Region),
        paths: &SubjectPaths,
    ) -> RegionShares {
        let mut all = left_regions.to_vec();
        all.push(right_region);
        // With policy Local in the explanation, the endpoint choice changes for the other regions too.
        let coupled = all.contains(&Region::NoLocal) && paths.enforces_local;
        let mut union = RegionShares::with_capacity(left.len() + right.len());
        let (mut i, mut j) = (0, 0);
        while i < left.len() || j < right.len() {
            let (a, b) = (left.get(i), right.get(j));
            let cell = match (a, b) {
                (Some(a), Some(b)) => a.0.min(b.0),
                (Some(a), None) => a.0,
                (None, Some(b)) => b.0,
                (None, None) => break,
            };
            let a = a.filter(|a| a.0 == cell).map(|a| a.1);
            let b = b.filter(|b| b.0 == cell).map(|b| b.1);
            i += usize::from(a.is_some());
            j += usize::from(b.is_some());
            let key = &self.cells[cell].key;
            let share = match (a, b) {
                (Some(a), _) if a.is_full() => a,
                (_, Some(b)) if b.is_full() => b,
                (Some(a), None) if !coupled => a,
                (None, Some(b)) if !coupled => b,
                _ => alpha(&self.present(&all, self.cells[cell].begin), key, paths),
            };
            union.push((cell, share));
        }
        union
    }

    /// Sums failures and successes by share; unaffected cells have share zero.
    pub(crate) fn groups(&self, shares: &[(usize, PathShare)]) -> ShareGroups {
        let mut groups = ShareGroups::from([(PathShare::ZERO, (self.failures, self.successes))]);
        // Policy Local may leave a client no path through a region, so that an affected cell has share zero, too.
        for (cell, alpha) in shares.iter().filter(|(_, alpha)| !alpha.is_zero()) {
            move_counts(&mut groups, self.counts(*cell), (PathShare::ZERO, *alpha));
        }
        groups
    }

    /// Returns failures and successes of a cell.
    pub(super) fn counts(&self, cell: usize) -> (u64, u64) {
        let cell = &self.cells[cell];
        (cell.failures, cell.probes - cell.failures)
    }

    /// Returns the client node and the possible destination nodes of each failing cell.
    fn failing_paths<'a>(
        &'a self,
        paths: &'a SubjectPaths,
    ) -> impl Iterator<Item = (Option<NodeIx>, Vec<NodeIx>)> + 'a {
        self.cells.iter().filter(|cell| cell.failures > 0).map(|cell| {
            let node_of = |pod: &PodIx| paths.mesh.pod_node(*pod);
            let ends = match cell.key.dest {
                Destination::Entry(pod) => node_of(&pod).into_iter().collect(),
                Destination::Peer(node) => vec![node],
                Destination::Unknown => paths
                    .eligible(cell.key.client)
                    .iter()
                    .filter_map(node_of)
                    .collect(),
                Destination::Name(_) | Destination::Lookup(_) => {
                    paths.resolver_pods.iter().filter_map(node_of).collect()
                }
            };
            (paths.node_of_client(cell.key.client), ends)
        })
    }

    /// Returns the pairs (client node, destination node) that have failures.
    pub(crate) fn failing_pairs(&self, paths: &SubjectPaths) -> BTreeSet<(NodeIx, NodeIx)> {
        self.failing_paths(paths)
            .filter_map(|(client, ends)| Some((client?, ends)))
            .flat_map(|(client, ends)| ends.into_iter().map(move |node| (client, node)))
            .filter(|(client, node)| client != node)
            .collect()
    }

    /// Returns the client nodes that have failures.
    pub(crate) fn failing_clients(&self, paths: &SubjectPaths) -> BTreeSet<NodeIx> {
        self.failing_paths(paths)
            .filter_map(|(client, _)| client)
            .collect()
    }

    /// Returns the destination nodes that have failures.
    pub(crate) fn failing_destinations(&self, paths: &SubjectPaths) -> BTreeSet<NodeIx> {
        self.failing_paths(paths).flat_map(|(_, ends)| ends).collect()
    }

    /// Reports whether any of the cells has failures.
    pub(crate) fn has_failures(&self, shares: &[(usize, PathShare)]) -> bool {
        shares.iter().any(|(i, _)| self.cells[*i].failures > 0)
    }

    /// Returns the indexes of the cells that have failures.
    pub(crate) fn failing_cells(&self, shares: &[(usize, PathShare)]) -> Vec<usize> {
        shares
            .iter()
            .map(|(i, _)| *i)
            .filter(|i| self.cells[*i].failures > 0)
            .collect()
    }
}

/// Moves failures and successes from one group to another.
pub(super) fn move_counts<K: Ord>(
    groups: &mut BTreeMap<K, (u64, u64)>,
    (failures, successes): (u64, u64),
    (from, to): (K, K),
) {
    if let Some(sum) = groups.get_mut(&from) {
        sum.0 -= failures;
        sum.1 -= successes;
    }
    let sum = groups.entry(to).or_default();
    sum.0 += failures;
    sum.1 += successes;
}
