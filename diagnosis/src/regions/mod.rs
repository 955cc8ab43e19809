//! Regions: sets of paths that fail together. A region owns its predicate, its weight and its member count.

mod balancer_pool;
mod crossing;
mod description;
pub(crate) mod front_origins;
mod kind;
mod local_reach;
pub(crate) mod paths;
mod probe_path;
pub(crate) mod share;

use crate::ids::{NameIx, NodeIx, PodIx, ZoneIx};

pub(crate) use kind::{RegionKind, link_count, pair_count};

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
    /// NET between two nodes, in both directions; the first is the lesser.
    Link(NodeIx, NodeIx),
    /// All channels between one node and the others, in both directions.
    NodeLink(NodeIx),
    /// NET between two zones, in both directions; the first is the lesser.
    ZoneLink(ZoneIx, ZoneIx),
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
    /// vip from the nodes of one zone.
    ZoneVip(ZoneIx),
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
            Self::Link(..) => RegionKind::Link,
            Self::NodeLink(_) => RegionKind::NodeLink,
            Self::ZoneLink(..) => RegionKind::ZoneLink,
            Self::ZoneVip(_) => RegionKind::ZoneVip,
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

    /// Returns the node of a region that belongs to a single node.
    pub(crate) const fn node(self) -> Option<NodeIx> {
        match self {
            Self::Bnode(n)
            | Self::BnodeRemote(n)
            | Self::Client(n)
            | Self::ClientVip(n)
            | Self::NodeLink(n)
            | Self::DnsClient(n) => Some(n),
            _ => None,
        }
    }

    /// Returns the nodes of a region.
    pub(crate) const fn nodes(self) -> [Option<NodeIx>; 2] {
        match self {
            Self::Pair(client, node) | Self::Link(client, node) => [Some(client), Some(node)],
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
                Self::NodeLink(node) => into(other) == Some(node) || from(other) == Some(node),
                Self::Link(a, b) => {
                    matches!(other, Self::Pair(from, into) if (from, into) == (a, b) || (from, into) == (b, a))
                }
                Self::ZoneLink(a, b) => {
                    matches!(other, Self::Zone(from, into) if (from, into) == (a, b) || (from, into) == (b, a))
                }
                Self::Cross => matches!(
                    other,
                    Self::Pair(..)
                        | Self::Link(..)
                        | Self::Zone(..)
                        | Self::ZoneLink(..)
                        | Self::BnodeRemote(_)
                ),
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

    /// Returns the region with the opposite direction added, if the region is a direction.
    pub(crate) fn in_both_directions(self) -> Option<Self> {
        match self {
            Self::Pair(a, b) => Some(Self::Link(a.min(b), a.max(b))),
            Self::Zone(a, b) => Some(Self::ZoneLink(a.min(b), a.max(b))),
            Self::Client(node) | Self::Bnode(node) | Self::BnodeRemote(node) => Some(Self::NodeLink(node)),
            _ => None,
        }
    }

    /// Returns the directions of the region, if it has both.
    pub(crate) const fn directions(self) -> Option<[Self; 2]> {
        match self {
            Self::Link(a, b) => Some([Self::Pair(a, b), Self::Pair(b, a)]),
            Self::ZoneLink(a, b) => Some([Self::Zone(a, b), Self::Zone(b, a)]),
            Self::NodeLink(node) => Some([Self::Client(node), Self::BnodeRemote(node)]),
            _ => None,
        }
    }

    /// Reports whether the region is a fault of nodes or of the network between them.
    pub(crate) const fn is_between_nodes(self) -> bool {
        matches!(
            self,
            Self::Client(_)
                | Self::Bnode(_)
                | Self::BnodeRemote(_)
                | Self::Pair(..)
                | Self::Link(..)
                | Self::NodeLink(_)
                | Self::Zone(..)
                | Self::ZoneLink(..)
                | Self::Cross
        )
    }

    /// Reports whether the region is a fault of the cluster, whichever targets show it. A node's service rules may be wrong
    /// for some Services only, so the others say nothing about them: that region is not global.
    pub(crate) const fn is_cluster_wide(self) -> bool {
        self.is_global() || matches!(self, Self::ClientVip(_))
    }

    /// Reports whether the region contains the ways to all endpoints of a subject.
    pub(crate) const fn is_every_endpoint(self) -> bool {
        matches!(self, Self::DnsAll | Self::Vip | Self::ProtoVip | Self::Target)
    }

    /// Reports whether the region is a fault of a front: of the way to it, whatever its endpoints answer.
    pub(crate) const fn is_of_front(self) -> bool {
        matches!(
            self,
            Self::Vip
                | Self::ProtoVip
                | Self::ClientVip(_)
                | Self::ZoneVip(_)
                | Self::NoLocal
                | Self::SameVip
                | Self::SelfVip
                | Self::OutsideAll
                | Self::LbOwnNode
                | Self::OutsideFrontNode
        )
    }

    /// Reports whether the region affects every target, not just one.
    pub(crate) const fn is_global(self) -> bool {
        self.is_between_nodes() || matches!(self, Self::DnsClient(_) | Self::DnsAll)
    }
}

#[cfg(test)]
mod tests;
