//! Paths of probes, from the client to the Pod that answers.

use parallax_model::Channel;

use super::{Region, paths::SubjectPaths};
use crate::{
    evidence::cells::is_through_front,
    ids::{NameIx, NodeIx, PodIx},
};

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
    /// Returns the connection that the entry at the end of the path makes to an origin Pod.
    pub(super) fn onward_to(self, origin: PodIx, paths: &SubjectPaths) -> OnwardHop {
        OnwardHop {
            from: self.node,
            origin,
            node: paths.mesh.pod_node(origin),
        }
    }

    pub(super) const fn is_vip(self) -> bool {
        is_through_front(self.channel)
    }

    pub(super) const fn is_service(self) -> bool {
        self.is_vip() || matches!(self.channel, Channel::Direct)
    }

    /// Whether its connection runs between known places. A question does if its resolver is a Pod.
    pub(super) const fn is_net(self) -> bool {
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
    pub(super) fn is_in(self, region: Region, paths: &SubjectPaths) -> bool {
        match region {
            Region::Backend(pod) => self.origin == pod,
            _ => region.contains_connection_between((self.from, self.node), paths),
        }
    }
}
