//! Sampling of vantages per target, computed once per topology.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{ServiceKey, TargetId, hash};

use super::{Service, Topology, rings::ProberRings};

/// Up to this many nodes, every node probes every target.
const SMALL_CLUSTER: usize = 16;

/// Maximum number of nodes without an entry per target. With three nodes that host entries, the largest cluster
/// probes a target 25 times per interval; the square root of its nodes would make it 74.
pub(crate) const MOST_OTHERS: usize = 22;
/// Maximum number of nodes with an entry per target. With an entry on every node (a `DaemonSet`), not every node
/// probes it.
pub(crate) const MOST_HOSTS: usize = 64;

/// Hosts per front whose entries are dialled directly. The direct connect is evidence about the entry whatever the
/// host, so more hosts would repeat it. A follow-up probe can dial another host's entries when needed.
pub(crate) const DIRECT_HOSTS: usize = 3;

/// From this many nodes, one host per front is enough: its clients alone dial each entry more often than those of
/// three hosts in a cluster of a dozen nodes.
const MANY_NODES: usize = 100;

/// The part of the plan common to all vantages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlanIndex {
    rings: ProberRings,
    /// In the order of the topology's targets.
    targets: Vec<TargetSample>,
}

/// The probers that probe a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetSample {
    /// Indexes of the probers on nodes with an entry.
    hosts: Vec<usize>,
    /// The probers of `hosts` that probe the target: all, up to a limit. Sorted.
    asking: Vec<usize>,
    /// Position on the ring where the sample of the others starts.
    start: usize,
    /// Whether the entries are dialled directly.
    pub(crate) direct: bool,
}

/// Endpoints of one target that one vantage dials, unless the clients are too few for that.
const MOST_DIALLED: usize = 64;
/// Upper bound of endpoints per vantage, whatever the number of clients.
const MOST_DIALLED_EVER: usize = 256;

impl TargetSample {
    /// Returns the slice of the endpoint list that a vantage dials: start (the list is cyclic) and count. The
    /// clients on nodes with an entry divide the list evenly, so that each endpoint has two of them if they
    /// suffice.
    pub(crate) fn dials(&self, own: Option<usize>, vantage: &str, endpoints: usize) -> (usize, usize) {
        if endpoints <= MOST_DIALLED {
            return (0, endpoints);
        }
        let clients = self.asking.len().max(1);
        let count = (2 * endpoints)
            .div_ceil(clients)
            .clamp(MOST_DIALLED, MOST_DIALLED_EVER);
        let rank = own.and_then(|own| self.asking.binary_search(&own).ok());
        let start = match rank {
            Some(rank) => rank * endpoints / clients,
            None => usize::try_from(hash::stable(&["direct", vantage])).unwrap_or(0) % endpoints,
        };
        (start, count.min(endpoints))
    }
}

impl PlanIndex {
    pub(crate) fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes().values().filter(|node| node.prober.is_some());
        let rings = ProberRings::new(nodes.map(|node| node.name.clone()).collect());
        let many = rings.probers().len() >= MANY_NODES;
        let direct = direct_targets(topology, if many { 1 } else { DIRECT_HOSTS });
        let targets = topology
            .targets()
            .iter()
            .map(|(id, placed)| {
                let service = placed.entry.as_ref().and_then(|(key, _)| topology.service(key));
                let mut hosts: Vec<usize> = service
                    .map(Service::usable)
                    .unwrap_or_default()
                    .iter()
                    .filter_map(|endpoint| rings.number(endpoint.node.as_ref()?))
                    .collect();
                hosts.sort_unstable();
                hosts.dedup();
                let start = rings.start(id.as_str());
                TargetSample {
                    asking: rings.nearest(start, &hosts, MOST_HOSTS),
                    hosts,
                    start,
                    direct: direct.contains(id),
                }
            })
            .collect();
        Self { rings, targets }
    }

    pub(crate) const fn rings(&self) -> &ProberRings {
        &self.rings
    }

    pub(crate) fn targets(&self) -> &[TargetSample] {
        &self.targets
    }

    /// Reports whether a prober probes a target.
    pub(crate) fn asks(&self, target: &TargetSample, own: usize) -> bool {
        let probers = self.rings.probers().len();
        probers <= SMALL_CLUSTER
            || target.asking.binary_search(&own).is_ok()
            || self
                .rings
                .samples(target.start, others_per_target(probers), own, &target.hosts)
    }

    /// Returns the indexes of all probers that probe a target, without duplicates.
    pub(crate) fn asking(&self, target: &TargetSample) -> Vec<usize> {
        let probers = self.rings.probers().len();
        if probers <= SMALL_CLUSTER {
            return (0..probers).collect();
        }
        let others = self
            .rings
            .sample(target.start, others_per_target(probers), &target.hosts);
        target.asking.iter().copied().chain(others).collect()
    }
}

/// Returns the targets whose entries are dialled directly: named hosts first, and only a few per Service port. If
/// TLS ends at the balancer, targets with TLS are left out, because the entries do not speak it.
fn direct_targets(topology: &Topology, hosts: usize) -> BTreeSet<&TargetId> {
    let mut by_entry: BTreeMap<&(ServiceKey, u16), Vec<(bool, &TargetId)>> = BTreeMap::new();
    for (id, placed) in topology.targets() {
        if topology.ends_tls_before(placed) {
            continue;
        }
        if let Some(entry) = &placed.entry {
            by_entry
                .entry(entry)
                .or_default()
                .push((placed.dial.is_some(), id));
        }
    }
    by_entry
        .into_values()
        .flat_map(|mut targets| {
            targets.sort();
            // The cluster address adds nothing to the probes of a named host.
            let named = targets.iter().any(|(forced, _)| !forced);
            targets
                .into_iter()
                .filter(move |(forced, _)| !(named && *forced))
                .take(hosts)
                .map(|(_, id)| id)
        })
        .collect()
}

/// ⌈max(3, √N)⌉, up to a limit.
fn others_per_target(nodes: usize) -> usize {
    let root = nodes.isqrt();
    let root = if root * root < nodes { root + 1 } else { root };
    root.clamp(3, MOST_OTHERS)
}
