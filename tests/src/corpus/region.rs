//! Regions that can fail, and the table of paths that each one breaks.
//!
//! A second definition on purpose, derived from the catalogue and not from the engine's own table: a mistake in one of
//! the two then shows as a disagreement. Only the names printed in verdicts are shared.

use super::world::SimulatedCluster;

/// Index of a node in a [`SimulatedCluster`].
pub type NodeIx = usize;
/// Index of a Pod in a [`SimulatedCluster`].
pub type PodIx = usize;

/// A set of paths that one fault breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// The application over any channel.
    Target,
    /// The virtual address, from inside the cluster.
    Vip,
    /// One endpoint.
    Backend(PodIx),
    /// Everything into one node.
    Bnode(NodeIx),
    /// Everything into one node from the other nodes.
    BnodeRemote(NodeIx),
    /// Everything from one node.
    Client(NodeIx),
    /// The virtual address from one node.
    ClientVip(NodeIx),
    /// From one node into another.
    Pair(NodeIx, NodeIx),
    /// The virtual address from nodes without an endpoint.
    NoLocal,
    /// Everything between nodes.
    Cross,
    /// Everything within a node.
    Same,
    /// The virtual address, answered on the client's own node.
    SameVip,
    /// The client is the endpoint.
    SelfPod,
    /// The client is the endpoint, through the virtual address only.
    SelfVip,
    /// From one zone into another.
    Zone(usize, usize),
    /// The virtual address without a PROXY header.
    ProtoVip,
    /// Name resolution on one node.
    DnsClient(NodeIx),
    /// All names.
    DnsAll,
    /// One name.
    DnsName(usize),
    /// The virtual address from outside the cluster.
    OutsideAll,
}

/// A region without its members, as listed by a set of trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the same words as in `Region`")]
pub enum RegionShape {
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
}

/// Channel of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeApproach {
    /// Name resolution.
    Dns,
    /// As a user would.
    Vip,
    /// One endpoint's address.
    Direct,
    /// Another prober's echo.
    Mesh,
    /// As a user would, with a PROXY header.
    Proxied,
}

impl ProbeApproach {
    /// Returns its name on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Vip => "vip",
            Self::Direct => "direct",
            Self::Mesh => "mesh",
            Self::Proxied => "proxied",
        }
    }
}

/// Where a probe starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeClient {
    /// On a node.
    Node(NodeIx),
    /// Outside the cluster.
    Outside(usize),
}

/// The actual path of a probe, including what an observer does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruePath {
    /// The channel.
    pub way: ProbeApproach,
    /// The client.
    pub client: ProbeClient,
    /// The front and its host.
    pub front: Option<(usize, usize)>,
    /// The endpoint.
    pub pod: Option<PodIx>,
    /// The endpoint's node.
    pub node: Option<NodeIx>,
    /// The name.
    pub name: Option<usize>,
    /// Whether the client's node has no endpoint of the front, while other nodes have.
    pub no_local: bool,
}

/// The front of a local fault, and its host if it affects only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The front.
    pub front: usize,
    /// The host; absent for all of them.
    pub host: Option<usize>,
}

impl Region {
    /// Reports whether the region breaks a path. `scope` is the front of regions that belong to one.
    #[must_use]
    pub fn breaks(self, path: &TruePath, scope: Scope, world: &SimulatedCluster) -> bool {
        if self.kind().is_local() {
            let in_scope = path
                .front
                .is_some_and(|(front, host)| front == scope.front && scope.host.is_none_or(|h| h == host));
            if !in_scope {
                return false;
            }
        }
        let user = matches!(path.way, ProbeApproach::Vip | ProbeApproach::Proxied);
        let service = user || path.way == ProbeApproach::Direct;
        let net = service || path.way == ProbeApproach::Mesh;
        let from = match path.client {
            ProbeClient::Node(node) => Some(node),
            ProbeClient::Outside(_) => None,
        };
        let inside = from.is_some();
        // A path without a destination is neither within a node nor between two.
        let within = inside && path.node.is_some() && from == path.node;
        let between = inside && path.node.is_some() && from != path.node;
        let own = from.is_some() && path.pod.is_some_and(|pod| world.prober_pod(pod) == from);
        match self {
            Self::Target => service,
            Self::Vip => user && inside,
            Self::Backend(pod) => service && path.pod == Some(pod),
            Self::Bnode(node) => net && path.node == Some(node),
            Self::BnodeRemote(node) => net && path.node == Some(node) && from != Some(node),
            Self::Client(node) => from == Some(node),
            Self::ClientVip(node) => user && from == Some(node),
            Self::Pair(client, node) => net && from == Some(client) && path.node == Some(node),
            Self::NoLocal => user && inside && path.no_local,
            Self::Cross => net && between,
            Self::Same => net && within,
            Self::SameVip => user && within,
            Self::SelfPod => net && own,
            Self::SelfVip => user && own,
            Self::Zone(a, b) => {
                net && from.is_some_and(|node| world.zones[node] == a)
                    && path.node.is_some_and(|node| world.zones[node] == b)
            }
            Self::ProtoVip => path.way == ProbeApproach::Vip && inside,
            Self::DnsClient(node) => path.way == ProbeApproach::Dns && from == Some(node),
            Self::DnsAll => path.way == ProbeApproach::Dns,
            Self::DnsName(name) => path.way == ProbeApproach::Dns && path.name == Some(name),
            Self::OutsideAll => user && !inside,
        }
    }

    /// Returns the region without its members.
    #[must_use]
    pub const fn kind(self) -> RegionShape {
        match self {
            Self::Target => RegionShape::Target,
            Self::Vip => RegionShape::Vip,
            Self::Backend(_) => RegionShape::Backend,
            Self::Bnode(_) => RegionShape::Bnode,
            Self::BnodeRemote(_) => RegionShape::BnodeRemote,
            Self::Client(_) => RegionShape::Client,
            Self::ClientVip(_) => RegionShape::ClientVip,
            Self::Pair(..) => RegionShape::Pair,
            Self::NoLocal => RegionShape::NoLocal,
            Self::Cross => RegionShape::Cross,
            Self::Same => RegionShape::Same,
            Self::SameVip => RegionShape::SameVip,
            Self::SelfPod => RegionShape::SelfPod,
            Self::SelfVip => RegionShape::SelfVip,
            Self::Zone(..) => RegionShape::Zone,
            Self::ProtoVip => RegionShape::ProtoVip,
            Self::DnsClient(_) => RegionShape::DnsClient,
            Self::DnsAll => RegionShape::DnsAll,
            Self::DnsName(_) => RegionShape::DnsName,
            Self::OutsideAll => RegionShape::OutsideAll,
        }
    }

    /// Returns the members' names, as printed in a verdict.
    #[must_use]
    pub fn members(self, world: &SimulatedCluster) -> Vec<String> {
        match self {
            Self::Backend(pod) => vec![world.pods[pod].name.clone()],
            Self::Bnode(n)
            | Self::BnodeRemote(n)
            | Self::Client(n)
            | Self::ClientVip(n)
            | Self::DnsClient(n) => {
                vec![world.node_name(n)]
            }
            Self::Pair(c, n) => vec![world.node_name(c), world.node_name(n)],
            Self::Zone(a, b) => vec![SimulatedCluster::zone_name(a), SimulatedCluster::zone_name(b)],
            Self::DnsName(name) => vec![world.names[name].clone()],
            _ => Vec::new(),
        }
    }

    /// Returns every region of a world at one front.
    #[must_use]
    pub fn all(world: &SimulatedCluster, front: usize) -> Vec<Self> {
        let nodes = 0..world.zones.len();
        let clients: Vec<NodeIx> = world.clients().collect();
        let zones = 0..SimulatedCluster::ZONES;
        let mut all = vec![
            Self::Target,
            Self::Vip,
            Self::NoLocal,
            Self::Cross,
            Self::Same,
            Self::SameVip,
            Self::SelfPod,
            Self::SelfVip,
            Self::ProtoVip,
            Self::DnsAll,
            Self::OutsideAll,
        ];
        all.extend(
            (0..world.pods.len())
                .filter(|pod| world.pods[*pod].front == front)
                .map(Self::Backend),
        );
        all.extend(nodes.clone().map(Self::Bnode));
        all.extend(nodes.clone().map(Self::BnodeRemote));
        all.extend(clients.iter().copied().map(Self::Client));
        all.extend(clients.iter().copied().map(Self::ClientVip));
        all.extend(clients.iter().copied().map(Self::DnsClient));
        all.extend((0..world.names.len()).map(Self::DnsName));
        for client in &clients {
            all.extend(
                nodes
                    .clone()
                    .filter(|n| n != client)
                    .map(|n| Self::Pair(*client, n)),
            );
        }
        for a in zones.clone() {
            all.extend(zones.clone().filter(|b| *b != a).map(|b| Self::Zone(a, b)));
        }
        all
    }
}

impl RegionShape {
    /// Returns its name in a verdict.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
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
        }
    }

    /// Reports whether the fault belongs to one front; the others concern every path of nodes and names.
    #[must_use]
    pub const fn is_local(self) -> bool {
        matches!(
            self,
            Self::Target
                | Self::Vip
                | Self::Backend
                | Self::ClientVip
                | Self::NoLocal
                | Self::SameVip
                | Self::SelfVip
                | Self::ProtoVip
                | Self::OutsideAll
        )
    }

    /// Reports whether only one client can observe it, whatever the size of the cluster.
    #[must_use]
    pub const fn seen_by_one(self) -> bool {
        matches!(
            self,
            Self::Client | Self::ClientVip | Self::Pair | Self::DnsClient
        )
    }
}
