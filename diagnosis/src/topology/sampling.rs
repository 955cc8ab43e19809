//! Sampling of vantages per target, computed once per topology.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{ServiceKey, TargetId, hash};

use super::{Service, Topology, rings::ProberRings};

/// Up to this many nodes, every node probes every target.
const SMALL_CLUSTER: usize = 16;

/// Maximum number of nodes without an entry per target. With three nodes that host entries, the largest cluster
/// probes a target 25 times per interval; the square root of its nodes would make it 74.
pub(crate) const MAX_OTHERS: usize = 22;
/// Maximum number of nodes with an entry per target. With an entry on every node (a `DaemonSet`), not every node
/// probes it.
pub(crate) const MAX_HOSTS: usize = 64;

/// Hosts per front whose entries are dialled directly. The direct connect is evidence about the entry whatever the
/// host, so more hosts would repeat it. A follow-up probe can dial another host's entries when needed.
pub(crate) const MAX_DIRECT_HOSTS: usize = 3;

/// From this many nodes, one host per front is enough: its clients alone dial each entry more often than those of
/// three hosts in a cluster of a dozen nodes.
const SINGLE_DIRECT_HOST_NODES: usize = 100;

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
    entry_hosts: Vec<usize>,
    /// The probers of `hosts` that probe the target: all, up to a limit. Sorted.
    probing_hosts: Vec<usize>,
    /// Position on the ring where the sample of the others starts.
    ring_start: usize,
    /// Whether the entries are dialled directly.
    pub(crate) dials_entries: bool,
}

/// Endpoints of one target that one vantage dials, unless the clients are too few for that.
const MAX_DIALLED: usize = 64;
/// Upper bound of endpoints per vantage, whatever the number of clients.
const MAX_DIALLED_LIMIT: usize = 256;

impl TargetSample {
    /// Returns the slice of the endpoint list that a vantage dials: start (the list is cyclic) and count. The
    /// clients on nodes with an entry divide the list evenly, so that each endpoint has two of them if they
    /// suffice.
    pub(crate) fn endpoint_slice(
        &self,
        own: Option<usize>,
        vantage: &str,
        endpoints: usize,
    ) -> (usize, usize) {
        if endpoints <= MAX_DIALLED {
            return (0, endpoints);
        }
        let clients = self.probing_hosts.len().max(1);
        let count = (2 * endpoints)
            .div_ceil(clients)
            .clamp(MAX_DIALLED, MAX_DIALLED_LIMIT);
        let rank = own.and_then(|own| self.probing_hosts.binary_search(&own).ok());
        let start = match rank {
            Some(rank) => rank * endpoints / clients,
            None => usize::try_from(hash::fnv1a(&["direct", vantage])).unwrap_or(0) % endpoints,
        };
        (start, count.min(endpoints))
    }
}

impl PlanIndex {
    pub(crate) fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes().values().filter(|node| node.prober.is_some());
        let rings = ProberRings::new(nodes.map(|node| node.name.clone()).collect());
        let many = rings.probers().len() >= SINGLE_DIRECT_HOST_NODES;
        let direct = direct_targets(topology, if many { 1 } else { MAX_DIRECT_HOSTS });
        let targets = topology
            .targets()
            .iter()
            .map(|(id, placed)| {
                let service = placed.entry.as_ref().and_then(|(key, _)| topology.service(key));
                let mut hosts: Vec<usize> = service
                    .map(Service::usable)
                    .unwrap_or_default()
                    .iter()
                    .filter_map(|endpoint| rings.index_of(endpoint.node.as_ref()?))
                    .collect();
                hosts.sort_unstable();
                hosts.dedup();
                let start = rings.position_of(id.as_str());
                TargetSample {
                    probing_hosts: rings.first_from(start, &hosts, MAX_HOSTS),
                    entry_hosts: hosts,
                    ring_start: start,
                    dials_entries: direct.contains(id),
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
    pub(crate) fn probes(&self, target: &TargetSample, own: usize) -> bool {
        let probers = self.rings.probers().len();
        probers <= SMALL_CLUSTER
            || target.probing_hosts.binary_search(&own).is_ok()
            || self.rings.is_in_sample(
                target.ring_start,
                others_per_target(probers),
                own,
                &target.entry_hosts,
            )
    }

    /// Returns the indexes of all probers that probe a target, without duplicates.
    pub(crate) fn probers_of(&self, target: &TargetSample) -> Vec<usize> {
        let probers = self.rings.probers().len();
        if probers <= SMALL_CLUSTER {
            return (0..probers).collect();
        }
        let others =
            self.rings
                .sample_from(target.ring_start, others_per_target(probers), &target.entry_hosts);
        target.probing_hosts.iter().copied().chain(others).collect()
    }
}

/// Returns the targets whose entries are dialled directly: named hosts first, and only a few per Service port. If
/// TLS ends at the balancer, targets with TLS are left out, because the entries do not speak it.
fn direct_targets(topology: &Topology, hosts: usize) -> BTreeSet<&TargetId> {
    let mut by_entry: BTreeMap<&(ServiceKey, u16), Vec<(bool, &TargetId)>> = BTreeMap::new();
    for (id, placed) in topology.targets() {
        if topology.terminates_tls_before(placed) {
            continue;
        }
        if let Some(entry) = &placed.entry {
            by_entry
                .entry(entry)
                .or_default()
                .push((placed.dial_address.is_some(), id));
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
    root.clamp(3, MAX_OTHERS)
}
