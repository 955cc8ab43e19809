//! Who asks for which target, worked out once per topology.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{ServiceKey, TargetId, hash};

use super::{Service, Topology, rings::ProberRings};

/// Up to this many nodes, everybody probes everything.
const SMALL_CLUSTER: usize = 16;

/// Most nodes without an entry that ask for one target: with three beside entries a target is asked twenty-five times an
/// interval by the largest cluster, which a square root of its nodes would make seventy-four.
pub(crate) const MOST_OTHERS: usize = 22;
/// Most nodes beside an entry that ask for one target, whatever the size of the cluster: an entry on every node (a
/// `DaemonSet`) must not have every node ask.
pub(crate) const MOST_HOSTS: usize = 64;

/// Hosts per front whose entries are dialled directly. The direct connect is the entry's own subject whatever the
/// host; more hosts would repeat it, and a question about one host can be asked when it arises.
pub(crate) const DIRECT_HOSTS: usize = 3;

/// From so many nodes on one host has to do: its clients alone dial each entry more often than three hosts' in a cluster
/// of a dozen.
const MANY_NODES: usize = 100;

/// What the plans of all vantages have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlanIndex {
    rings: ProberRings,
    /// In the order of the topology's targets.
    targets: Vec<TargetSample>,
}

/// Who asks for a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetSample {
    /// Probers next to an entry, by number.
    hosts: Vec<usize>,
    /// Those of them that ask: all, up to a limit. Sorted.
    asking: Vec<usize>,
    /// Where on the ring the others begin.
    start: usize,
    /// Its entries are dialled directly.
    pub(crate) direct: bool,
}

/// Endpoints of one target that one vantage dials, unless there are too few clients for so many.
const MOST_DIALLED: usize = 64;
/// And never more than these.
const MOST_DIALLED_EVER: usize = 256;

impl TargetSample {
    /// Which of so many endpoints a vantage dials: where it begins in their list, which goes round, and how many follow.
    /// The clients beside entries share the list evenly, so that each endpoint has two of them where they suffice.
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

    /// Whether a prober asks for a target.
    pub(crate) fn asks(&self, target: &TargetSample, own: usize) -> bool {
        let probers = self.rings.probers().len();
        probers <= SMALL_CLUSTER
            || target.asking.binary_search(&own).is_ok()
            || self
                .rings
                .samples(target.start, others_per_target(probers), own, &target.hosts)
    }

    /// Every prober that asks for a target, by number, each once.
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

/// The targets whose entries are dialled directly: named hosts first, and of each Service port only a few. Where TLS ends
/// at the balancer, none with TLS: the entries do not speak it.
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
            // A cluster address repeats the question that a named host asks already.
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
