//! Which paths cross a region.

use parallax_model::Channel;

use super::{Region, paths::SubjectPaths, probe_path::ProbePath};
use crate::ids::NodeIx;

impl Region {
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
            Self::Client(node) => from(node) && (apart || !paths.local_reach.contains(&node)),
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
}
