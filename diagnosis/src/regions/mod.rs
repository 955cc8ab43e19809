//! Regions: sets of paths that fail together. A region owns its predicate, its weight and its member count.

pub(crate) mod paths;
pub(crate) mod share;

use std::fmt;

use parallax_model::{Channel, NodeName, PodName, ZoneName};

use crate::{
    evidence::cells::is_through_front,
    ids::{NameIx, NameRegistry, NodeIx, PodIx, ZoneIx},
    verdict::RegionRef,
};

use paths::SubjectPaths;

/// A set of paths that one cause breaks. "NET" below means vip (including proxied and nodeport), direct and mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Region {
    /// No path.
    Healthy,
    /// vip and direct.
    Target,
    /// vip from inside the cluster.
    Vip,
    /// vip and direct to one endpoint.
    Backend(PodIx),
    /// NET into one node, including from the node itself.
    Bnode(NodeIx),
    /// NET into one node from other nodes.
    BnodeRemote(NodeIx),
    /// All channels from one node, including dns.
    Client(NodeIx),
    /// vip from one node.
    ClientVip(NodeIx),
    /// NET from one node into another node.
    Pair(NodeIx, NodeIx),
    /// vip from nodes without an endpoint.
    NoLocal,
    /// NET between nodes.
    Cross,
    /// NET within a node.
    Same,
    /// vip within a node.
    SameVip,
    /// All channels of a client that is itself the endpoint.
    SelfPod,
    /// vip of a client that is itself the endpoint.
    SelfVip,
    /// NET from one zone into another.
    Zone(ZoneIx, ZoneIx),
    /// vip without a PROXY header.
    ProtoVip,
    /// dns from one node.
    DnsClient(NodeIx),
    /// dns for every name.
    DnsAll,
    /// dns for one name.
    DnsName(NameIx),
    /// vip from outside the cluster.
    OutsideAll,
    /// vip connections that a balancer returns to the client's own node. The balancer's choice is not observed.
    LbOwnNode,
    /// vip from outside that a balancer sends to a node without an endpoint.
    OutsideFrontNode,
}

/// The kind of a region, without its members.
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

/// One path that a probe may have taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbePath {
    pub(crate) channel: Channel,
    /// The client's node; `None` outside the cluster.
    pub(crate) client: Option<NodeIx>,
    pub(crate) backend: Option<PodIx>,
    /// Destination node.
    pub(crate) node: Option<NodeIx>,
    /// Node to which a balancer sent the connection.
    pub(crate) receiver: Option<NodeIx>,
    /// Whether the endpoint is the client itself.
    pub(crate) is_self: bool,
    pub(crate) name: Option<NameIx>,
}

impl ProbePath {
    const fn is_vip(self) -> bool {
        is_through_front(self.channel)
    }

    const fn is_service(self) -> bool {
        self.is_vip() || matches!(self.channel, Channel::Direct)
    }

    const fn is_net(self) -> bool {
        self.is_service() || matches!(self.channel, Channel::Mesh)
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

    /// Reports whether the region depends on the balancer's choice of node.
    pub(crate) const fn depends_on_receiver(self) -> bool {
        matches!(self, Self::LbOwnNode | Self::OutsideFrontNode)
    }

    /// Reports whether a path crosses the region.
    pub(crate) fn contains(self, path: ProbePath, scene: &SubjectPaths) -> bool {
        let from = |node: NodeIx| path.client == Some(node);
        let into = |node: NodeIx| path.node == Some(node);
        // An outside vantage is in no region inside the cluster.
        let inside = path.client.is_some();
        // An endpoint on a node outside this cluster is never on the client's node.
        let apart = path.client != path.node;
        let arrived = path.backend.is_some() || path.node.is_some();
        match self {
            Self::Healthy => false,
            Self::Target => path.is_service(),
            Self::Vip => path.is_vip() && inside,
            Self::Backend(pod) => path.is_service() && path.backend == Some(pod),
            Self::Bnode(node) => path.is_net() && into(node),
            Self::BnodeRemote(node) => path.is_net() && into(node) && !from(node),
            Self::Client(node) => from(node),
            Self::ClientVip(node) => path.is_vip() && from(node),
            Self::Pair(client, node) => path.is_net() && from(client) && into(node),
            Self::NoLocal => {
                path.is_vip()
                    && !scene.local_nodes.is_empty()
                    && path.client.is_some_and(|node| !scene.local_nodes.contains(&node))
            }
            Self::Cross => path.is_net() && inside && arrived && apart,
            Self::Same => path.is_net() && inside && arrived && !apart,
            Self::SameVip => path.is_vip() && inside && arrived && !apart,
            Self::SelfPod => path.is_net() && path.is_self,
            Self::SelfVip => path.is_vip() && path.is_self,
            Self::Zone(a, b) => {
                let zone = |node: Option<NodeIx>| node.and_then(|n| scene.mesh.zones.get(&n)).copied();
                path.is_net() && zone(path.client) == Some(a) && zone(path.node) == Some(b)
            }
            Self::ProtoVip => path.is_vip() && inside && path.channel != Channel::Proxied,
            Self::DnsClient(node) => path.channel == Channel::Dns && from(node),
            Self::DnsAll => path.channel == Channel::Dns,
            Self::DnsName(name) => path.channel == Channel::Dns && path.name == Some(name),
            Self::OutsideAll => path.is_vip() && !inside,
            Self::LbOwnNode => path.is_vip() && inside && path.receiver == path.client,
            Self::OutsideFrontNode => {
                path.is_vip()
                    && !inside
                    && path
                        .receiver
                        .is_some_and(|node| !scene.local_nodes.contains(&node))
            }
        }
    }

    /// Returns the printed name of the region and its members.
    pub(crate) fn describe(self, world: &NameRegistry) -> RegionRef {
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

    /// Parses a description and interns its members. Returns `None` for names that this version does not know.
    pub(crate) fn parse_description(described: &RegionRef, world: &mut NameRegistry) -> Option<Self> {
        let kind = RegionKind::ALL
            .into_iter()
            .find(|kind| kind.label() == described.region)?;
        let mut members = described.members.iter();
        let mut member = || members.next();
        macro_rules! node {
            () => {
                world.nodes.intern(&member()?.parse::<NodeName>().ok()?)
            };
        }
        macro_rules! zone {
            () => {
                world.zones.intern(&member()?.parse::<ZoneName>().ok()?)
            };
        }
        let region = match kind {
            RegionKind::Healthy => Self::Healthy,
            RegionKind::Target => Self::Target,
            RegionKind::Vip => Self::Vip,
            RegionKind::Backend => Self::Backend(world.pods.intern(&member()?.parse::<PodName>().ok()?)),
            RegionKind::Bnode => Self::Bnode(node!()),
            RegionKind::BnodeRemote => Self::BnodeRemote(node!()),
            RegionKind::Client => Self::Client(node!()),
            RegionKind::ClientVip => Self::ClientVip(node!()),
            RegionKind::Pair => Self::Pair(node!(), node!()),
            RegionKind::NoLocal => Self::NoLocal,
            RegionKind::Cross => Self::Cross,
            RegionKind::Same => Self::Same,
            RegionKind::SameVip => Self::SameVip,
            RegionKind::SelfPod => Self::SelfPod,
            RegionKind::SelfVip => Self::SelfVip,
            RegionKind::Zone => Self::Zone(zone!(), zone!()),
            RegionKind::ProtoVip => Self::ProtoVip,
            RegionKind::DnsClient => Self::DnsClient(node!()),
            RegionKind::DnsAll => Self::DnsAll,
            RegionKind::DnsName => Self::DnsName(world.names.intern(member()?)),
            RegionKind::OutsideAll => Self::OutsideAll,
            RegionKind::LbOwnNode => Self::LbOwnNode,
            RegionKind::OutsideFrontNode => Self::OutsideFrontNode,
        };
        members.next().is_none().then_some(region)
    }

    /// Returns the node of a region that belongs to a single node.
    pub(crate) const fn node(self) -> Option<NodeIx> {
        match self {
            Self::Bnode(n)
            | Self::BnodeRemote(n)
            | Self::Client(n)
            | Self::ClientVip(n)
            | Self::DnsClient(n) => Some(n),
            _ => None,
        }
    }

    /// Returns the nodes of a region.
    pub(crate) const fn nodes(self) -> [Option<NodeIx>; 2] {
        match self {
            Self::Pair(client, node) => [Some(client), Some(node)],
            _ => [self.node(), None],
        }
    }

    /// Reports whether every path of another region crosses this one too, so that a fault here also breaks the
    /// other region.
    pub(crate) fn covers(self, other: Self, node_of: impl Fn(PodIx) -> Option<NodeIx>) -> bool {
        let into = |region: Self| match region {
            Self::Bnode(node) | Self::BnodeRemote(node) | Self::Pair(_, node) => Some(node),
            Self::Backend(pod) => node_of(pod),
            _ => None,
        };
        let from = |region: Self| match region {
            Self::Client(node) | Self::ClientVip(node) | Self::DnsClient(node) | Self::Pair(node, _) => {
                Some(node)
            }
            _ => None,
        };
        self == other
            || match self {
                Self::Bnode(node) | Self::BnodeRemote(node) => into(other) == Some(node),
                Self::Client(node) => from(other) == Some(node),
                Self::Cross => matches!(other, Self::Pair(..) | Self::Zone(..) | Self::BnodeRemote(_)),
                Self::DnsAll => matches!(other, Self::DnsClient(_) | Self::DnsName(_)),
                Self::Target => matches!(other, Self::Backend(_) | Self::Vip),
                _ => false,
            }
    }

    /// Reports whether clients on only one node can observe the region.
    pub(crate) const fn is_single_client(self) -> bool {
        matches!(
            self,
            Self::Client(_) | Self::ClientVip(_) | Self::Pair(..) | Self::DnsClient(_)
        )
    }

    /// Reports whether the region affects every target, not just one.
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

impl RegionKind {
    /// Every kind.
    const ALL: [Self; 23] = [
        Self::Healthy,
        Self::Target,
        Self::Vip,
        Self::Backend,
        Self::Bnode,
        Self::BnodeRemote,
        Self::Client,
        Self::ClientVip,
        Self::Pair,
        Self::NoLocal,
        Self::Cross,
        Self::Same,
        Self::SameVip,
        Self::SelfPod,
        Self::SelfVip,
        Self::Zone,
        Self::ProtoVip,
        Self::DnsClient,
        Self::DnsAll,
        Self::DnsName,
        Self::OutsideAll,
        Self::LbOwnNode,
        Self::OutsideFrontNode,
    ];

    /// Prior weight of the kind, shared by its members.
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

    /// Returns all regions of the kind for a subject. Their number is the look-elsewhere divisor of the prior.
    pub(crate) fn members(self, scene: &SubjectPaths) -> Vec<Region> {
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
            Self::Bnode => scene.mesh.node_set.iter().copied().map(Region::Bnode).collect(),
            Self::BnodeRemote => scene
                .mesh
                .node_set
                .iter()
                .copied()
                .map(Region::BnodeRemote)
                .collect(),
            Self::Client => clients().iter().copied().map(Region::Client).collect(),
            Self::ClientVip => clients().iter().copied().map(Region::ClientVip).collect(),
            Self::DnsClient => clients().iter().copied().map(Region::DnsClient).collect(),
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

/// Returns all ordered pairs of a client node and another node.
fn pairs(scene: &SubjectPaths) -> impl Iterator<Item = (NodeIx, NodeIx)> {
    let nodes = &scene.mesh.node_set;
    scene.client_nodes().iter().flat_map(|&c| {
        nodes
            .iter()
            .copied()
            .filter(move |n| *n != c)
            .map(move |n| (c, n))
    })
}

/// Returns the number of pairs without listing them: a large mesh has millions.
pub(crate) fn pair_count(scene: &SubjectPaths) -> usize {
    let clients = scene.client_nodes();
    let own = clients.intersection(&scene.mesh.node_set).count();
    clients.len() * scene.mesh.node_set.len() - own
}

impl fmt::Display for RegionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_is_the_one_that_its_description_names() {
        let mut world = NameRegistry::default();
        for kind in RegionKind::ALL {
            for members in [&[][..], &["a"], &["a", "b"]] {
                let described = RegionRef {
                    region: kind.to_string(),
                    members: members.iter().map(ToString::to_string).collect(),
                };
                let fits = match kind {
                    RegionKind::Pair | RegionKind::Zone => members.len() == 2,
                    RegionKind::Backend
                    | RegionKind::Bnode
                    | RegionKind::BnodeRemote
                    | RegionKind::Client
                    | RegionKind::ClientVip
                    | RegionKind::DnsClient
                    | RegionKind::DnsName => members.len() == 1,
                    _ => members.is_empty(),
                };
                let region = Region::parse_description(&described, &mut world);
                assert_eq!(region.is_some(), fits, "{described}");
                assert!(
                    region.is_none_or(|region| region.kind() == kind && region.describe(&world) == described)
                );
            }
        }
    }
}
