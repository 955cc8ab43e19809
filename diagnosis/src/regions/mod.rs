//! Regions: sets of paths that fail together. A region owns its predicate, its weight and its member count.

mod balancer_pool;
mod description;
mod kind;
pub(crate) mod paths;
pub(crate) mod share;

use parallax_model::Channel;

use crate::{
    evidence::cells::is_through_front,
    ids::{NameIx, NodeIx, PodIx, ZoneIx},
};

pub(crate) use kind::{RegionKind, link_count, pair_count};
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
    /// The connection from the endpoint to an origin.
    pub(crate) onward: Option<OnwardHop>,
}

/// The connection that an entry makes to an origin Pod in order to answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnwardHop {
    /// The entry's node.
    pub(crate) from: Option<NodeIx>,
    pub(crate) origin: PodIx,
    /// The origin's node.
    pub(crate) node: Option<NodeIx>,
}

impl ProbePath {
    const fn is_vip(self) -> bool {
        is_through_front(self.channel)
    }

    const fn is_service(self) -> bool {
        self.is_vip() || matches!(self.channel, Channel::Direct)
    }

    /// Whether its connection runs between known places. A question does if its resolver is a Pod.
    const fn is_net(self) -> bool {
        match self.channel {
            Channel::Dns => self.backend.is_some(),
            Channel::Mesh => true,
            _ => self.is_service(),
        }
    }
}

impl OnwardHop {
    /// Reports whether the connection crosses a region. Regions that are defined by the client's way to a front do not
    /// concern it.
    fn is_in(self, region: Region, paths: &SubjectPaths) -> bool {
        match region {
            Region::Backend(pod) => self.origin == pod,
            _ => region.contains_connection_between((self.from, self.node), paths),
        }
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

    /// Reports whether a path crosses the region, at the client's connection or onward from the entry.
    pub(crate) fn contains(self, path: ProbePath, paths: &SubjectPaths) -> bool {
        self.contains_connection(path, paths) || path.onward.is_some_and(|hop| hop.is_in(self, paths))
    }

    fn contains_connection(self, path: ProbePath, paths: &SubjectPaths) -> bool {
        let from = |node: NodeIx| path.client == Some(node);
        // An outside vantage is in no region inside the cluster.
        let inside = path.client.is_some();
        // An endpoint on a node outside this cluster is never on the client's node.
        let apart = path.client != path.node;
        let arrived = path.backend.is_some() || path.node.is_some();
        if let Some(receiver) = path.receiver
            && self.is_between_nodes()
            && paths.has_receiver_hop(path.client)
        {
            // The balancer is outside of the nodes: even a connection that it returns to the client's node has left it.
            let leaves = matches!(self, Self::Client(node) if from(node));
            let receiver = Some(receiver);
            return leaves
                || self.contains_connection_between((path.client, receiver), paths)
                || self.contains_connection_between((receiver, path.node), paths);
        }
        match self {
            Self::Healthy => false,
            Self::Target => path.is_service(),
            Self::Vip => path.is_vip() && inside,
            Self::Backend(pod) => path.is_net() && path.backend == Some(pod),
            Self::Bnode(_)
            | Self::BnodeRemote(_)
            | Self::Pair(..)
            | Self::Link(..)
            | Self::Zone(..)
            | Self::ZoneLink(..) => path.is_net() && self.contains_ends((path.client, path.node), paths),
            Self::NodeLink(node) => {
                // Where a resolver of unknown place is asked, the question leaves the node.
                let asks = path.channel == Channel::Dns && path.backend.is_none() && from(node);
                asks || path.is_net() && self.contains_ends((path.client, path.node), paths)
            }
            Self::Client(node) => from(node),
            Self::ClientVip(node) => path.is_vip() && from(node),
            Self::NoLocal => {
                path.is_vip()
                    && !paths.local_nodes.is_empty()
                    && path.client.is_some_and(|node| !paths.local_nodes.contains(&node))
            }
            Self::ZoneVip(zone) => {
                path.is_vip()
                    && path
                        .client
                        .is_some_and(|node| paths.mesh.zones.get(&node) == Some(&zone))
            }
            Self::Cross => path.is_net() && inside && arrived && apart,
            Self::Same => path.is_net() && inside && arrived && !apart,
            Self::SameVip => path.is_vip() && inside && arrived && !apart,
            Self::SelfPod => path.is_net() && path.is_self,
            Self::SelfVip => path.is_vip() && path.is_self,
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
                        .is_some_and(|node| !paths.local_nodes.contains(&node))
            }
        }
    }

    /// Reports whether a connection from a Pod on one node to a Pod on another crosses the region. A node that is not known
    /// is taken for another one.
    pub(crate) fn contains_connection_between(
        self,
        ends: (Option<NodeIx>, Option<NodeIx>),
        paths: &SubjectPaths,
    ) -> bool {
        let apart = ends.0 != ends.1;
        match self {
            Self::Client(node) => ends.0 == Some(node) && apart,
            Self::Cross => apart && ends.0.is_some() && ends.1.is_some(),
            _ => self.contains_ends(ends, paths),
        }
    }

    /// Reports whether a connection crosses the region because of its two nodes, whichever Pod opens it.
    fn contains_ends(self, ends: (Option<NodeIx>, Option<NodeIx>), paths: &SubjectPaths) -> bool {
        let from = |node: NodeIx| ends.0 == Some(node);
        let into = |node: NodeIx| ends.1 == Some(node);
        match self {
            Self::Bnode(node) => into(node),
            Self::BnodeRemote(node) => into(node) && !from(node),
            Self::Pair(client, node) => from(client) && into(node),
            Self::Link(a, b) => (from(a) && into(b)) || (from(b) && into(a)),
            Self::NodeLink(node) => from(node) != into(node),
            Self::Zone(a, b) => paths.is_between_zones(ends, (a, b)),
            Self::ZoneLink(a, b) => {
                paths.is_between_zones(ends, (a, b)) || paths.is_between_zones(ends, (b, a))
            }
            _ => false,
        }
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
