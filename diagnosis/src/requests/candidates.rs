//! Candidate probes: every path on which the leading explanations may differ and that a vantage can probe.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use parallax_model::{Channel, hash};

use super::gain::ExplanationWeights;
use crate::{
    evidence::cells::{CellKey, ClosedCells, Destination, RoundCells, is_through_front},
    ids::{NameRegistry, NodeIx, PodIx, VantageIx},
    regions::{Region, paths::SubjectPaths},
};

/// The probes that are possible, and the evidence so far.
#[derive(Debug)]
pub(crate) struct ProbeCapabilities<'a> {
    pub(crate) world: &'a NameRegistry,
    pub(crate) scene: &'a SubjectPaths,
    /// Evidence so far.
    pub(crate) cells: &'a RoundCells,
    /// Vantages that reported recently.
    pub(crate) speaking: &'a BTreeSet<VantageIx>,
    /// Cells of the base plan: these paths are probed every round, and a second probe in the round adds no
    /// evidence.
    pub(crate) planned: Vec<&'a ClosedCells>,
    /// The front to which clients connect.
    pub(crate) front: Option<parallax_model::Front>,
    /// The reason why endpoints cannot be dialled directly, if they cannot.
    pub(crate) no_direct: Option<&'static str>,
    /// Whether DNS queries are possible.
    pub(crate) names: bool,
    /// Whether the Service has a node port.
    pub(crate) node_port: bool,
    /// Round number, used to rotate among equals.
    pub(crate) turn: i64,
}

/// Maximum number of clients, endpoints, peers and names that are compared; those named by explanations come
/// first.
const CLIENTS: usize = 16;
const ENTRIES: usize = 8;
const PEERS: usize = 16;
const NAMES: usize = 3;
/// Number of additional failing client nodes.
const OTHERS: usize = 3;
/// Maximum number of client nodes without an endpoint: more than can be silent while the mesh reports.
const REST: usize = 256;

/// Nodes and Pods in order of relevance.
#[derive(Debug, Default)]
struct NodePriority {
    nodes: Vec<NodeIx>,
    /// Position of each node.
    places: BTreeMap<NodeIx, usize>,
    pods: Vec<PodIx>,
}

impl ProbeCapabilities<'_> {
    /// Reports whether a client may probe this path. An outside vantage probes only destinations of its own plan:
    /// a ClusterIP, or an address that a name has only inside, may belong to another party there.
    pub(super) fn may_ask(&self, key: &CellKey) -> bool {
        let inside = self.scene.node_of_client(key.client).is_some();
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
        self.planned.iter().any(|cells| {
            if chosen {
                cells.asks(key.channel, key.client)
            } else {
                cells.holds(key)
            }
        })
    }
}

impl NodePriority {
    fn node(&mut self, node: NodeIx) {
        if let Entry::Vacant(place) = self.places.entry(node) {
            place.insert(self.nodes.len());
            self.nodes.push(node);
        }
    }

    fn pod(&mut self, pod: PodIx, scene: &SubjectPaths) {
        if !self.pods.contains(&pod) {
            self.pods.push(pod);
        }
        if let Some(node) = scene.nodes.pods.get(&pod) {
            self.node(*node);
        }
    }

    /// Orders nodes and Pods: named by explanations, then failing clients, then endpoints, then others in
    /// rotation.
    fn of(beliefs: &ExplanationWeights, ground: &ProbeCapabilities<'_>) -> Self {
        let (mut focus, scene) = (Self::default(), ground.scene);
        for belief in &beliefs.list {
            match belief.region {
                Region::Backend(pod) => focus.pod(pod, scene),
                Region::Bnode(n)
                | Region::BnodeRemote(n)
                | Region::Client(n)
                | Region::ClientVip(n)
                | Region::DnsClient(n) => focus.node(n),
                Region::Pair(c, n) => {
                    focus.node(c);
                    focus.node(n);
                }
                _ => {}
            }
            if focus.nodes.len() >= CLIENTS / 2 {
                break;
            }
        }
        let mut failing: Vec<(u64, NodeIx)> = Vec::new();
        for (key, counts) in ground.cells.iter().filter(|(_, c)| c.f > 0) {
            if let Some(node) = scene.node_of_client(key.client) {
                failing.push((counts.f, node));
            }
        }
        failing.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, node) in failing.into_iter().take(OTHERS) {
            focus.node(node);
        }
        for pod in turned(scene.backends.iter().copied(), ground.turn, |pod| pod.0) {
            focus.pod(pod, scene);
        }
        let rest = scene.client_nodes().iter().copied();
        let rest = rest.filter(|node| !scene.local.contains(node));
        for node in turned(rest, ground.turn, |node| node.0).into_iter().take(REST) {
            focus.node(node);
        }
        focus
    }
}

/// Returns a deterministic shuffle that differs each turn, so that the load is distributed over the nodes.
fn turned<T: Copy>(items: impl Iterator<Item = T>, turn: i64, number: impl Fn(T) -> u32) -> Vec<T> {
    let turn = turn.to_string();
    let mut order: Vec<(u64, T)> = items
        .map(|item| (hash::stable(&[&turn, &number(item).to_string()]), item))
        .collect();
    order.sort_by_key(|(key, _)| *key);
    order.into_iter().map(|(_, item)| item).collect()
}

/// Returns the possible paths without duplicates, in arbitrary order.
pub(crate) fn candidates(beliefs: &ExplanationWeights, ground: &ProbeCapabilities<'_>) -> Vec<CellKey> {
    let focus = NodePriority::of(beliefs, ground);
    let scene = ground.scene;
    let position = |node: NodeIx| focus.places.get(&node).copied();
    let mut clients: Vec<(usize, VantageIx, Option<NodeIx>)> = scene
        .nodes
        .clients
        .iter()
        .filter(|(client, _)| ground.speaking.contains(client))
        .map(|(client, node)| {
            let rank = node.and_then(position).unwrap_or(usize::MAX);
            (rank, client, *node)
        })
        .collect();
    clients.sort_unstable();
    clients.truncate(CLIENTS);
    let echoes: BTreeSet<NodeIx> = scene.nodes.prober_pods.values().copied().collect();
    let mut found = Vec::new();
    for (_, client, node) in clients {
        let mut add = |channel, dest| {
            let key = CellKey {
                channel,
                client,
                dest,
            };
            if ground.may_ask(&key) && !ground.is_planned(&key) {
                found.push(key);
            }
        };
        if ground.front.is_some() {
            add(Channel::Vip, Destination::Unknown);
            if ground.cells.keys().any(|key| key.channel == Channel::Proxied) {
                add(Channel::Proxied, Destination::Unknown);
            }
        }
        if ground.names {
            for name in scene.names.iter().take(NAMES) {
                add(Channel::Dns, Destination::Name(*name));
            }
        }
        // Outside vantages cannot reach Pods.
        let Some(node) = node else { continue };
        if ground.front.is_some() && ground.no_direct.is_none() {
            for pod in focus.pods.iter().take(ENTRIES) {
                add(Channel::Direct, Destination::Entry(*pod));
            }
        }
        let peers = focus.nodes.iter().filter(|n| **n != node && echoes.contains(n));
        for peer in peers.take(PEERS) {
            add(Channel::Mesh, Destination::Peer(*peer));
        }
    }
    found
}

/// Explains why no probe can separate two explanations.
pub(crate) fn why_not(ground: &ProbeCapabilities<'_>) -> String {
    let scene = ground.scene;
    let probers = scene.client_nodes();
    let without: Vec<String> = scene
        .local
        .iter()
        .filter(|node| !probers.contains(node))
        .map(|node| ground.world.nodes.name(*node).to_string())
        .collect();
    let mut reasons = Vec::new();
    if !without.is_empty() {
        reasons.push(format!("no prober on {}", crate::wording::listed(&without)));
    }
    let silent: Vec<String> = scene
        .nodes
        .clients
        .iter()
        .filter(|(client, _)| !ground.speaking.contains(client))
        .map(|(client, _)| ground.world.vantages.name(client).to_string())
        .collect();
    if !silent.is_empty() {
        reasons.push(format!("silent: {}", crate::wording::listed(&silent)));
    }
    reasons.extend(ground.no_direct.map(ToOwned::to_owned));
    if scene.backends.len() == 1 {
        reasons.push("there is no second endpoint to compare with".to_owned());
    }
    if reasons.is_empty() {
        "no possible probe takes a path on which they differ".to_owned()
    } else {
        reasons.join("; ")
    }
}
