//! Regions: which paths fail together. A region owns its predicate, its weight and its member count.

use std::fmt;

use parallax_model::Channel;

use crate::{
    cells::{CellKey, Dest},
    ids::{NameIx, NodeIx, PodIx, World, ZoneIx},
    scene::Scene,
    verdict::RegionRef,
};

/// A set of paths that one cause breaks. NET below is vip (with proxied and nodeport), direct and mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Region {
    /// Nothing.
    Healthy,
    /// vip and direct.
    Target,
    /// vip from inside the cluster.
    Vip,
    /// vip and direct to one endpoint.
    Backend(PodIx),
    /// NET into one node, from itself too.
    Bnode(NodeIx),
    /// NET into one node from the others.
    BnodeRemote(NodeIx),
    /// Everything from one node, names included.
    Client(NodeIx),
    /// vip from one node.
    ClientVip(NodeIx),
    /// NET from one node into another.
    Pair(NodeIx, NodeIx),
    /// vip from nodes without an endpoint.
    NoLocal,
    /// NET between nodes.
    Cross,
    /// NET within a node.
    Same,
    /// vip within a node.
    SameVip,
    /// A client that is itself the endpoint, on every channel.
    SelfPod,
    /// The same through the vip only.
    SelfVip,
    /// NET from one zone into another.
    Zone(ZoneIx, ZoneIx),
    /// vip without a PROXY header.
    ProtoVip,
    /// Names asked from one node.
    DnsClient(NodeIx),
    /// Every name.
    DnsAll,
    /// One name.
    DnsName(NameIx),
    /// vip from outside the cluster.
    OutsideAll,
    /// vip that a balancer hands back to the client's own node. Which node it chooses is not seen.
    LbOwnNode,
    /// vip from outside that a balancer hands to a node without an endpoint.
    OutsideFrontNode,
}

/// A region without its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RegionKind {
    Healthy,
    Target,
    Vip,
    Backend,
    Bnode,
    BnodeRemote,
    Client,
    ClientVip,
    Pair,
    NoLocal,
    Cross,
    Same,
    SameVip,
    SelfPod,
    SelfVip,
    Zone,
    ProtoVip,
    DnsClient,
    DnsAll,
    DnsName,
    OutsideAll,
    LbOwnNode,
    OutsideFrontNode,
}

/// Share of a cell's paths that cross a region, as a reduced fraction, so that equal shares are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alpha {
    num: u32,
    den: u32,
}

impl Alpha {
    pub(crate) const ZERO: Self = Self { num: 0, den: 1 };

    pub(crate) fn new(num: usize, den: usize) -> Self {
        let (num, den) = (
            u32::try_from(num).unwrap_or(u32::MAX),
            u32::try_from(den).unwrap_or(u32::MAX).max(1),
        );
        let (mut a, mut b) = (num, den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self {
            num: num / a.max(1),
            den: den / a.max(1),
        }
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.num == 0
    }

    pub(crate) const fn is_sure(self) -> bool {
        self.num == self.den
    }

    pub(crate) fn get(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }

    /// Rounded to a thousandth: two regions that differ by less cannot be told apart.
    pub(crate) fn permille(self) -> u32 {
        let (num, den) = (u64::from(self.num), u64::from(self.den));
        u32::try_from((num * 2000 + den) / (2 * den)).unwrap_or(1000)
    }
}

/// One way a probe may have gone.
#[derive(Debug, Clone, Copy)]
struct Path {
    channel: Channel,
    /// The client's node; none outside the cluster.
    client: Option<NodeIx>,
    backend: Option<PodIx>,
    /// Node it arrived at.
    node: Option<NodeIx>,
    /// Node that a balancer handed the connection to.
    receiver: Option<NodeIx>,
    /// The endpoint is the client itself.
    own: bool,
    name: Option<NameIx>,
}

impl Path {
    const fn vip(self) -> bool {
        matches!(self.channel, Channel::Vip | Channel::Proxied | Channel::NodePort)
    }

    const fn service(self) -> bool {
        self.vip() || matches!(self.channel, Channel::Direct)
    }

    const fn net(self) -> bool {
        self.service() || matches!(self.channel, Channel::Mesh)
    }
}

impl Region {
    pub(crate) const fn kind(self) -> RegionKind {
        match self {
            Self::Healthy => RegionKind::Healthy,
            Self::Target => RegionKind::Target,
            Self::Vip => RegionKind::Vip,
            Self::Backend(_) => RegionKind::Backend,
            Self::Bnode(_) => RegionKind::Bnode,
            Self::BnodeRemote(_) => RegionKind::BnodeRemote,
            Self::Client(_) => RegionKind::Client,
            Self::ClientVip(_) => RegionKind::ClientVip,
            Self::Pair(..) => RegionKind::Pair,
            Self::NoLocal => RegionKind::NoLocal,
            Self::Cross => RegionKind::Cross,
            Self::Same => RegionKind::Same,
            Self::SameVip => RegionKind::SameVip,
            Self::SelfPod => RegionKind::SelfPod,
            Self::SelfVip => RegionKind::SelfVip,
            Self::Zone(..) => RegionKind::Zone,
            Self::ProtoVip => RegionKind::ProtoVip,
            Self::DnsClient(_) => RegionKind::DnsClient,
            Self::DnsAll => RegionKind::DnsAll,
            Self::DnsName(_) => RegionKind::DnsName,
            Self::OutsideAll => RegionKind::OutsideAll,
            Self::LbOwnNode => RegionKind::LbOwnNode,
            Self::OutsideFrontNode => RegionKind::OutsideFrontNode,
        }
    }

    /// The region depends on which node a balancer chose.
    const fn asks_receiver(self) -> bool {
        matches!(self, Self::LbOwnNode | Self::OutsideFrontNode)
    }

    /// Whether a path crosses the region.
    fn holds(self, path: Path, scene: &Scene) -> bool {
        let from = |node: NodeIx| path.client == Some(node);
        let into = |node: NodeIx| path.node == Some(node);
        // An outside vantage is in no region that is about the inside of the cluster.
        let inside = path.client.is_some();
        // An endpoint whose node is not one of this cluster is on another machine than the client.
        let apart = path.client != path.node;
        let arrived = path.backend.is_some() || path.node.is_some();
        match self {
            Self::Healthy => false,
            Self::Target => path.service(),
            Self::Vip => path.vip() && inside,
            Self::Backend(pod) => path.service() && path.backend == Some(pod),
            Self::Bnode(node) => path.net() && into(node),
            Self::BnodeRemote(node) => path.net() && into(node) && !from(node),
            Self::Client(node) => from(node),
            Self::ClientVip(node) => path.vip() && from(node),
            Self::Pair(client, node) => path.net() && from(client) && into(node),
            Self::NoLocal => {
                path.vip()
                    && !scene.local.is_empty()
                    && path.client.is_some_and(|node| !scene.local.contains(&node))
            }
            Self::Cross => path.net() && inside && arrived && apart,
            Self::Same => path.net() && inside && arrived && !apart,
            Self::SameVip => path.vip() && inside && arrived && !apart,
            Self::SelfPod => path.net() && path.own,
            Self::SelfVip => path.vip() && path.own,
            Self::Zone(a, b) => {
                let zone = |node: Option<NodeIx>| node.and_then(|n| scene.nodes.zones.get(&n)).copied();
                path.net() && zone(path.client) == Some(a) && zone(path.node) == Some(b)
            }
            Self::ProtoVip => path.vip() && inside && path.channel != Channel::Proxied,
            Self::DnsClient(node) => path.channel == Channel::Dns && from(node),
            Self::DnsAll => path.channel == Channel::Dns,
            Self::DnsName(name) => path.channel == Channel::Dns && path.name == Some(name),
            Self::OutsideAll => path.vip() && !inside,
            Self::LbOwnNode => path.vip() && inside && path.receiver == path.client,
            Self::OutsideFrontNode => {
                path.vip() && !inside && path.receiver.is_some_and(|node| !scene.local.contains(&node))
            }
        }
    }

    /// The region's name and its members, as printed.
    pub(crate) fn describe(self, world: &World) -> RegionRef {
        let node = |n: NodeIx| world.nodes.name(n).to_string();
        let zone = |z: ZoneIx| world.zones.name(z).to_string();
        let members = match self {
            Self::Backend(pod) => vec![world.pods.name(pod).to_string()],
            Self::Bnode(n)
            | Self::BnodeRemote(n)
            | Self::Client(n)
            | Self::ClientVip(n)
            | Self::DnsClient(n) => {
                vec![node(n)]
            }
            Self::Pair(c, n) => vec![node(c), node(n)],
            Self::Zone(a, b) => vec![zone(a), zone(b)],
            Self::DnsName(name) => vec![world.names.name(name).clone()],
            _ => Vec::new(),
        };
        RegionRef {
            region: self.kind().to_string(),
            members,
        }
    }

    /// The only node that can see it, for regions that one client alone can see.
    pub(crate) const fn seen_by_one(self) -> bool {
        matches!(
            self,
            Self::Client(_) | Self::ClientVip(_) | Self::Pair(..) | Self::DnsClient(_)
        )
    }

    /// The region concerns every target, not one.
    pub(crate) const fn is_global(self) -> bool {
        matches!(
            self,
            Self::Client(_)
                | Self::Bnode(_)
                | Self::BnodeRemote(_)
                | Self::Pair(..)
                | Self::Zone(..)
                | Self::Cross
                | Self::DnsClient(_)
                | Self::DnsAll
        )
    }
}

/// Share of a cell's paths that cross any of the regions. The union is formed on paths and mixed afterwards: the
/// product of two shares would be too small where both regions hide behind one unknown choice.
pub(crate) fn alpha(regions: &[Region], key: &CellKey, scene: &Scene) -> Alpha {
    let client = scene.node_of_client(key.client);
    let path = |backend: Option<PodIx>, node: Option<NodeIx>, name: Option<NameIx>| Path {
        channel: key.channel,
        client,
        backend,
        node,
        receiver: None,
        own: backend
            .is_some_and(|pod| client.is_some() && scene.nodes.prober_pods.get(&pod).copied() == client),
        name,
    };
    if scene.pool.len() > 1 && regions.iter().any(|region| region.asks_receiver()) {
        return mixed(regions, key, scene, path);
    }
    let crosses = |path: Path| regions.iter().any(|region| region.holds(path, scene));
    let node_of = |pod: PodIx| scene.nodes.pods.get(&pod).copied();
    let sure = |yes: bool| Alpha::new(usize::from(yes), 1);
    match key.dest {
        Dest::Entry(pod) => sure(crosses(path(Some(pod), node_of(pod), None))),
        Dest::Peer(node) => sure(crosses(path(None, Some(node), None))),
        Dest::Name(name) => sure(crosses(path(None, None, Some(name)))),
        Dest::Unknown => {
            let eligible = scene.eligible(key.client);
            if eligible.is_empty() {
                return sure(crosses(path(None, None, None)));
            }
            let hits = |pods: &[PodIx]| {
                let hit = pods
                    .iter()
                    .filter(|pod| crosses(path(Some(**pod), node_of(**pod), None)))
                    .count();
                Alpha::new(hit, pods.len())
            };
            // Where policy Local is obeyed so strictly that nodes without an endpoint fail, nodes with one use it.
            if scene.strict
                && regions.contains(&Region::NoLocal)
                && client.is_some_and(|node| scene.local.contains(&node))
            {
                let own: Vec<PodIx> = eligible
                    .iter()
                    .copied()
                    .filter(|pod| node_of(*pod) == client)
                    .collect();
                if !own.is_empty() {
                    return hits(&own);
                }
            }
            hits(eligible)
        }
    }
}

/// The same where it matters which node a balancer chose: uniformly any of its pool, and whichever endpoint serves then.
fn mixed(
    regions: &[Region],
    key: &CellKey,
    scene: &Scene,
    path: impl Fn(Option<PodIx>, Option<NodeIx>, Option<NameIx>) -> Path,
) -> Alpha {
    let node_of = |pod: PodIx| scene.nodes.pods.get(&pod).copied();
    let ends: Vec<Path> = match key.dest {
        Dest::Entry(pod) => vec![path(Some(pod), node_of(pod), None)],
        Dest::Peer(node) => vec![path(None, Some(node), None)],
        Dest::Name(name) => vec![path(None, None, Some(name))],
        Dest::Unknown => {
            let eligible = scene.eligible(key.client).iter();
            let known: Vec<Path> = eligible
                .map(|pod| path(Some(*pod), node_of(*pod), None))
                .collect();
            if known.is_empty() {
                vec![path(None, None, None)]
            } else {
                known
            }
        }
    };
    // That an endpoint answered is the less likely, the fewer nodes lead to one: so its cell has the same share, although
    // the node that led to this answer was a good one.
    let mut hits = 0;
    let mut all = 0;
    for end in ends {
        for node in &scene.pool {
            let receiver = Some(*node);
            let path = Path { receiver, ..end };
            hits += usize::from(regions.iter().any(|region| region.holds(path, scene)));
            all += 1;
        }
    }
    Alpha::new(hits, all)
}

impl RegionKind {
    /// Prior weight of the kind, to be shared by its members.
    pub(crate) const fn weight(self) -> f64 {
        match self {
            Self::Healthy => 0.0,
            Self::Backend => 0.25,
            Self::Client | Self::Bnode => 0.12,
            Self::NoLocal => 0.10,
            Self::BnodeRemote => 0.08,
            Self::Target | Self::ClientVip | Self::SameVip | Self::SelfPod => 0.06,
            Self::Pair => 0.05,
            Self::Vip | Self::Cross | Self::Same | Self::DnsClient | Self::OutsideAll => 0.04,
            Self::Zone
            | Self::ProtoVip
            | Self::DnsAll
            | Self::DnsName
            | Self::SelfVip
            | Self::LbOwnNode
            | Self::OutsideFrontNode => 0.03,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Target => "target",
            Self::Vip => "vip",
            Self::Backend => "backend",
            Self::Bnode => "bnode",
            Self::BnodeRemote => "bnode-remote",
            Self::Client => "client",
            Self::ClientVip => "client-vip",
            Self::Pair => "pair",
            Self::NoLocal => "nolocal",
            Self::Cross => "cross",
            Self::Same => "same",
            Self::SameVip => "same-vip",
            Self::SelfPod => "self",
            Self::SelfVip => "self-vip",
            Self::Zone => "zone",
            Self::ProtoVip => "proto-vip",
            Self::DnsClient => "dns-client",
            Self::DnsAll => "dns-all",
            Self::DnsName => "dns-name",
            Self::OutsideAll => "outside-all",
            Self::LbOwnNode => "lb-own-node",
            Self::OutsideFrontNode => "outside-front-node",
        }
    }

    /// Every region of the kind in a scene: the full membership, which is the price of having looked everywhere.
    pub(crate) fn members(self, scene: &Scene) -> Vec<Region> {
        let clients = || scene.client_nodes();
        match self {
            Self::Healthy => vec![Region::Healthy],
            Self::Target => vec![Region::Target],
            Self::Vip => vec![Region::Vip],
            Self::NoLocal => vec![Region::NoLocal],
            Self::Cross => vec![Region::Cross],
            Self::Same => vec![Region::Same],
            Self::SameVip => vec![Region::SameVip],
            Self::SelfPod => vec![Region::SelfPod],
            Self::SelfVip => vec![Region::SelfVip],
            Self::ProtoVip => vec![Region::ProtoVip],
            Self::DnsAll => vec![Region::DnsAll],
            Self::OutsideAll => vec![Region::OutsideAll],
            Self::LbOwnNode => vec![Region::LbOwnNode],
            Self::OutsideFrontNode => vec![Region::OutsideFrontNode],
            Self::Backend => scene.backends.iter().copied().map(Region::Backend).collect(),
            Self::Bnode => scene.nodes.all.iter().copied().map(Region::Bnode).collect(),
            Self::BnodeRemote => scene.nodes.all.iter().copied().map(Region::BnodeRemote).collect(),
            Self::Client => clients().into_iter().map(Region::Client).collect(),
            Self::ClientVip => clients().into_iter().map(Region::ClientVip).collect(),
            Self::DnsClient => clients().into_iter().map(Region::DnsClient).collect(),
            Self::DnsName => scene.names.iter().copied().map(Region::DnsName).collect(),
            Self::Pair => pairs(scene).map(|(c, n)| Region::Pair(c, n)).collect(),
            Self::Zone => {
                let zones = scene.zone_set();
                zones
                    .iter()
                    .flat_map(|a| {
                        zones
                            .iter()
                            .filter(move |b| *b != a)
                            .map(move |b| Region::Zone(*a, *b))
                    })
                    .collect()
            }
        }
    }
}

/// Every ordered pair of a client's node and another node.
fn pairs(scene: &Scene) -> impl Iterator<Item = (NodeIx, NodeIx)> {
    let nodes = &scene.nodes.all;
    scene.client_nodes().into_iter().flat_map(|c| {
        nodes
            .iter()
            .copied()
            .filter(move |n| *n != c)
            .map(move |n| (c, n))
    })
}

/// How many pairs there are, without listing them: a large mesh has millions.
pub(crate) fn pair_count(scene: &Scene) -> usize {
    let clients = scene.client_nodes();
    let own = clients.intersection(&scene.nodes.all).count();
    clients.len() * scene.nodes.all.len() - own
}

impl fmt::Display for RegionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}
