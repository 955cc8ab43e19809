//! What could be asked: every path on which the leading explanations may differ, as long as somebody can make it.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use parallax_model::{Channel, hash};

use super::gain::ExplanationWeights;
use crate::{
    evidence::cells::{CellKey, ClosedCells, Destination, RoundCells, is_through_front},
    ids::{NameRegistry, NodeIx, PodIx, VantageIx},
    regions::{Region, paths::SubjectPaths},
};

/// What is known of who can probe what.
#[derive(Debug)]
pub(crate) struct ProbeCapabilities<'a> {
    pub(crate) world: &'a NameRegistry,
    pub(crate) scene: &'a SubjectPaths,
    /// Evidence so far.
    pub(crate) cells: &'a RoundCells,
    /// Vantages that reported lately.
    pub(crate) speaking: &'a BTreeSet<VantageIx>,
    /// Probes of the base plan that come every round anyway, where a second one in the round counts no more.
    pub(crate) planned: Vec<&'a ClosedCells>,
    /// The front clients connect to.
    pub(crate) front: Option<parallax_model::Front>,
    /// Why endpoints cannot be dialled, where they cannot.
    pub(crate) no_direct: Option<&'static str>,
    /// Names may be asked for.
    pub(crate) names: bool,
    /// The Service has a port on every node.
    pub(crate) node_port: bool,
    /// Turns the choice among equals.
    pub(crate) turn: i64,
}

/// Most clients, endpoints and peers that are compared for one question. The first are those the explanations name.
const CLIENTS: usize = 16;
const ENTRIES: usize = 8;
const PEERS: usize = 16;
const NAMES: usize = 3;
/// Nodes taken besides those that matter, as "another source" and "another destination".
const OTHERS: usize = 3;
/// Nodes without an endpoint that are thought of as clients at all: more than can be silent while the mesh speaks.
const REST: usize = 256;

/// Nodes in the order in which they matter to a question.
#[derive(Debug, Default)]
struct NodePriority {
    nodes: Vec<NodeIx>,
    /// The place of each of them.
    places: BTreeMap<NodeIx, usize>,
    pods: Vec<PodIx>,
}

impl ProbeCapabilities<'_> {
    /// Whether a client may be asked for this path. A vantage outside the cluster goes only where its own plan leads it:
    /// a ClusterIP, or an address that a name has inside only, is a stranger's address there, who may answer anything.
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

    /// Whether a probe of the base plan goes that way every round anyway. Through a front it is another's choice where.
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

    /// What the explanations name, then who fails, then where endpoints are, then a few others in turn.
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

/// A fixed shuffle, another one each turn: no node is always the one that is bothered.
fn turned<T: Copy>(items: impl Iterator<Item = T>, turn: i64, number: impl Fn(T) -> u32) -> Vec<T> {
    let turn = turn.to_string();
    let mut order: Vec<(u64, T)> = items
        .map(|item| (hash::stable(&[&turn, &number(item).to_string()]), item))
        .collect();
    order.sort_by_key(|(key, _)| *key);
    order.into_iter().map(|(_, item)| item).collect()
}

/// Paths that may be asked for, each once, in no order that matters.
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
        // From outside there are no pods.
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

/// Why no probe tells two explanations apart, where none can be made.
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
        "no probe that can be made takes a path on which they differ".to_owned()
    } else {
        reasons.join("; ")
    }
}
