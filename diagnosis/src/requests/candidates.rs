//! Candidate probes: every path on which the leading explanations may differ and that a vantage can probe.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use parallax_model::{Channel, hash};

use super::information_gain::ExplanationWeights;
use crate::{
    evidence::cells::{CellKey, ClosedCells, Destination, RoundCells, is_through_front},
    ids::{NameRegistry, NodeIx, PodIx, VantageIx},
    regions::{Region, paths::SubjectPaths},
};

/// The probes that are possible, and the evidence so far.
#[derive(Debug)]
pub(crate) struct ProbeCapabilities<'a> {
    pub(crate) registry: &'a NameRegistry,
    pub(crate) paths: &'a SubjectPaths,
    /// Evidence so far.
    pub(crate) cells: &'a RoundCells,
    /// Vantages that reported recently.
    pub(crate) reporting_vantages: &'a BTreeSet<VantageIx>,
    /// Cells of the base plan: these paths are probed every round, and a second probe in the round adds no
    /// evidence.
    pub(crate) planned_cells: Vec<&'a ClosedCells>,
    /// The front to which clients connect.
    pub(crate) front: Option<parallax_model::Front>,
    /// The reason why endpoints cannot be dialled directly, if they cannot.
    pub(crate) direct_unavailable: Option<&'static str>,
    /// Whether DNS queries are possible.
    pub(crate) dns_possible: bool,
    /// Whether the Service has a node port.
    pub(crate) has_node_port: bool,
    /// Round number, used to rotate among equals.
    pub(crate) round: i64,
}

/// Maximum number of clients, endpoints, peers and names that are compared; those named by explanations come
/// first.
const MAX_CLIENTS: usize = 16;
const MAX_ENTRIES: usize = 8;
const MAX_PEERS: usize = 16;
const MAX_NAMES: usize = 3;
/// Number of additional failing client nodes.
const MAX_FAILING_CLIENTS: usize = 3;
/// Maximum number of client nodes without an endpoint: more than can be silent while the mesh reports.
const MAX_OTHER_NODES: usize = 256;

/// Nodes and Pods in order of relevance.
#[derive(Debug, Default)]
struct NodePriority {
    nodes: Vec<NodeIx>,
    /// Position of each node.
    positions: BTreeMap<NodeIx, usize>,
    pods: Vec<PodIx>,
}

impl ProbeCapabilities<'_> {
    /// Reports whether a client may probe this path. An outside vantage probes only destinations of its own plan:
    /// a ClusterIP, or an address that a name has only inside, may belong to another party there.
    pub(super) fn may_probe(&self, key: &CellKey) -> bool {
        let inside = self.paths.node_of_client(key.client).is_some();
        let mut seen = self.cells.keys();
        inside
            || seen.any(|own| {
                own.client == key.client
                    && match key.channel {
                        Channel::Vip | Channel::Proxied => own.channel == Channel::Vip,
                        _ => own.channel == key.channel && own.dest == key.dest,
                    }
            })
    }

    /// Reports whether the base plan probes this path every round. The endpoint chosen by a front is ignored.
    pub(crate) fn is_planned(&self, key: &CellKey) -> bool {
        let chosen = is_through_front(key.channel);
        self.planned_cells.iter().any(|cells| {
            if chosen {
                cells.has_probes_of(key.channel, key.client)
            } else {
                cells.contains(key)
            }
        })
    }
}

impl NodePriority {
    fn add_node(&mut self, node: NodeIx) {
        if let Entry::Vacant(place) = self.positions.entry(node) {
            place.insert(self.nodes.len());
            self.nodes.push(node);
        }
    }

    fn add_pod(&mut self, pod: PodIx, paths: &SubjectPaths) {
        if !self.pods.contains(&pod) {
            self.pods.push(pod);
        }
        if let Some(node) = paths.mesh.pod_nodes.get(&pod) {
            self.add_node(*node);
        }
    }

    /// Orders nodes and Pods: named by explanations, then failing clients, then endpoints, then others in
    /// rotation.
    fn new(beliefs: &ExplanationWeights, ground: &ProbeCapabilities<'_>) -> Self {
        let (mut focus, paths) = (Self::default(), ground.paths);
        for belief in &beliefs.explanations {
            match belief.region {
                Region::Backend(pod) => focus.add_pod(pod, paths),
                Region::Bnode(n)
                | Region::BnodeRemote(n)
                | Region::Client(n)
                | Region::ClientVip(n)
                | Region::DnsClient(n) => focus.add_node(n),
                Region::Pair(c, n) => {
                    focus.add_node(c);
                    focus.add_node(n);
                }
                _ => {}
            }
            if focus.nodes.len() >= MAX_CLIENTS / 2 {
                break;
            }
        }
        let mut failing: Vec<(u64, NodeIx)> = Vec::new();
        for (key, counts) in ground.cells.iter().filter(|(_, c)| c.failures > 0) {
            if let Some(node) = paths.node_of_client(key.client) {
                failing.push((counts.failures, node));
            }
        }
        failing.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, node) in failing.into_iter().take(MAX_FAILING_CLIENTS) {
            focus.add_node(node);
        }
        for pod in shuffled_by_turn(paths.backends.iter().copied(), ground.round, |pod| pod.0) {
            focus.add_pod(pod, paths);
        }
        let rest = paths.client_nodes().iter().copied();
        let rest = rest.filter(|node| !paths.local_nodes.contains(node));
        for node in shuffled_by_turn(rest, ground.round, |node| node.0)
            .into_iter()
            .take(MAX_OTHER_NODES)
        {
            focus.add_node(node);
        }
        focus
    }
}

/// Returns a deterministic shuffle that differs each turn, so that the load is distributed over the nodes.
fn shuffled_by_turn<T: Copy>(items: impl Iterator<Item = T>, turn: i64, number: impl Fn(T) -> u32) -> Vec<T> {
    let turn = turn.to_string();
    let mut order: Vec<(u64, T)> = items
        .map(|item| (hash::fnv1a(&[&turn, &number(item).to_string()]), item))
        .collect();
    order.sort_by_key(|(key, _)| *key);
    order.into_iter().map(|(_, item)| item).collect()
}

/// Returns the possible paths without duplicates, in arbitrary order.
pub(crate) fn candidates(beliefs: &ExplanationWeights, ground: &ProbeCapabilities<'_>) -> Vec<CellKey> {
    let focus = NodePriority::new(beliefs, ground);
    let paths = ground.paths;
    let position = |node: NodeIx| focus.positions.get(&node).copied();
    let mut clients: Vec<(usize, VantageIx, Option<NodeIx>)> = paths
        .mesh
        .clients
        .iter()
        .filter(|(client, _)| ground.reporting_vantages.contains(client))
        .map(|(client, node)| {
            let rank = node.and_then(position).unwrap_or(usize::MAX);
            (rank, client, *node)
        })
        .collect();
    clients.sort_unstable();
    clients.truncate(MAX_CLIENTS);
    let echoes: BTreeSet<NodeIx> = paths.mesh.prober_pods.values().copied().collect();
    let mut found = Vec::new();
    for (_, client, node) in clients {
        let mut add = |channel, dest| {
            let key = CellKey {
                channel,
                client,
                dest,
            };
            if ground.may_probe(&key) && !ground.is_planned(&key) {
                found.push(key);
            }
        };
        if ground.front.is_some() {
            add(Channel::Vip, Destination::Unknown);
            if ground.cells.keys().any(|key| key.channel == Channel::Proxied) {
                add(Channel::Proxied, Destination::Unknown);
            }
        }
        if ground.dns_possible {
            for name in paths.names.iter().take(MAX_NAMES) {
                add(Channel::Dns, Destination::Name(*name));
            }
        }
        // Outside vantages cannot reach Pods.
        let Some(node) = node else { continue };
        if ground.front.is_some() && ground.direct_unavailable.is_none() {
            for pod in focus.pods.iter().take(MAX_ENTRIES) {
                add(Channel::Direct, Destination::Entry(*pod));
            }
        }
        let peers = focus.nodes.iter().filter(|n| **n != node && echoes.contains(n));
        for peer in peers.take(MAX_PEERS) {
            add(Channel::Mesh, Destination::Peer(*peer));
        }
    }
    found
}

/// Explains why no probe can separate two explanations.
pub(crate) fn why_inseparable(ground: &ProbeCapabilities<'_>) -> String {
    let paths = ground.paths;
    let probers = paths.client_nodes();
    let without: Vec<String> = paths
        .local_nodes
        .iter()
        .filter(|node| !probers.contains(node))
        .map(|node| ground.registry.nodes.name(*node).to_string())
        .collect();
    let mut reasons = Vec::new();
    if !without.is_empty() {
        reasons.push(format!("no prober on {}", crate::wording::join_names(&without)));
    }
    let silent: Vec<String> = paths
        .mesh
        .clients
        .iter()
        .filter(|(client, _)| !ground.reporting_vantages.contains(client))
        .map(|(client, _)| ground.registry.vantages.name(client).to_string())
        .collect();
    if !silent.is_empty() {
        reasons.push(format!("silent: {}", crate::wording::join_names(&silent)));
    }
    reasons.extend(ground.direct_unavailable.map(ToOwned::to_owned));
    if paths.backends.len() == 1 {
        reasons.push("there is no second endpoint to compare with".to_owned());
    }
    if reasons.is_empty() {
        "no possible probe takes a path on which they differ".to_owned()
    } else {
        reasons.join("; ")
    }
}
