//! The units of judgement: subjects whose cells are compared separately.

use std::collections::BTreeSet;

use parallax_model::{Channel, Front, ServiceKey, TargetId};
use serde::{Deserialize, Serialize};

use crate::{
    regions::{RegionKind, paths::SubjectPaths},
    topology::TrafficPolicy,
};

/// A subject that is judged separately.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JudgementUnit {
    /// The network between the probers.
    Mesh,
    /// The resolvers, with all names together.
    Dns,
    /// A front and the endpoints behind it.
    Front(Front),
    /// The endpoints of a headless Service at one port.
    Endpoints(ServiceKey, u16),
    /// The responses of a target.
    Target(TargetId),
    /// All channels of the only target of a recording, treated as one path.
    #[serde(rename = "whole")]
    SingleTarget(TargetId),
    /// The latency of the successful probes of another unit.
    #[serde(rename = "slow")]
    Latency(Box<JudgementUnit>),
}

/// The regions of a connection between two Pods, apart from the Pods themselves and from what leaves the client's node.
const CONNECTION_KINDS: [RegionKind; 8] = [
    RegionKind::Bnode,
    RegionKind::BnodeRemote,
    RegionKind::NodeLink,
    RegionKind::Pair,
    RegionKind::Link,
    RegionKind::Cross,
    RegionKind::Zone,
    RegionKind::ZoneLink,
];

impl JudgementUnit {
    /// Converts to the unit that judges the latency of this subject.
    pub(crate) fn into_latency(self) -> Self {
        Self::Latency(Box::new(self))
    }

    /// Returns the subject, judged by its latency if `other` is.
    pub(crate) fn judged_like(self, other: &Self) -> Self {
        if other.is_latency() {
            self.into_latency()
        } else {
            self
        }
    }

    /// Returns the subject without the distinction between outcome and latency.
    pub(crate) fn without_latency(&self) -> &Self {
        match self {
            Self::Latency(inner) => inner,
            other => other,
        }
    }

    /// Returns how many mechanisms the subject's probes depend on: the network, then resolvers, then addresses and endpoints,
    /// then the answers. A fault of one causes failures at the next.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Mesh => 0,
            Self::Dns => 1,
            Self::Front(_) | Self::Endpoints(..) => 2,
            Self::Target(_) | Self::SingleTarget(_) => 3,
            Self::Latency(inner) => inner.depth(),
        }
    }

    /// Position of the subject among those judged after a round, so that causes come before what they entail. Names come after
    /// addresses: a node that fails shows there on its own Pods, where lookups show one of several resolver Pods only, and no
    /// fault of names entails a failed connection.
    pub(crate) fn judgement_order(&self) -> usize {
        match self {
            Self::Mesh => 0,
            Self::Front(_) | Self::Endpoints(..) => 1,
            Self::Dns => 2,
            Self::Target(_) | Self::SingleTarget(_) => 3,
            Self::Latency(inner) => inner.judgement_order(),
        }
    }

    /// Reports whether the subject is reached through a Service, or is a target.
    pub(crate) const fn is_service(&self) -> bool {
        matches!(self, Self::Front(_) | Self::Endpoints(..) | Self::Target(_))
    }

    pub(crate) const fn is_latency(&self) -> bool {
        matches!(self, Self::Latency(_))
    }

    /// Returns the kinds of region that can be distinguished on the subject.
    pub(crate) fn region_kinds(
        &self,
        paths: &SubjectPaths,
        channels: &BTreeSet<Channel>,
    ) -> BTreeSet<RegionKind> {
        use RegionKind::{
            Backend, DnsAll, DnsClient, DnsName, LbOwnNode, NoLocal, OutsideAll, OutsideFrontNode, ProtoVip,
            SelfPod, SelfVip, Vip, Zone, ZoneLink,
        };
        let mut kinds = self.possible_kinds();
        // The way to a resolver is a connection like any other if the resolver is a Pod.
        if matches!(self.without_latency(), Self::Dns) && !paths.resolver_pods.is_empty() {
            kinds.insert(Backend);
            kinds.extend(CONNECTION_KINDS);
        }
        // Only the answers of a host show the way from its entry to its origins.
        if matches!(self.without_latency(), Self::Target(_)) && !paths.origin_pods.is_empty() {
            kinds.extend([RegionKind::Link, RegionKind::NodeLink]);
        }
        if paths.zone_set().len() < 2 {
            kinds.remove(&Zone);
            kinds.remove(&ZoneLink);
        }
        // Where every node forwards to every endpoint, a node without one is like the others.
        if paths.front_policy == Some(TrafficPolicy::Cluster) {
            kinds.remove(&NoLocal);
        }
        if !channels.contains(&Channel::Dns) {
            for kind in [DnsClient, DnsAll, DnsName] {
                kinds.remove(&kind);
            }
        }
        if kinds.contains(&Vip) {
            kinds.insert(ProtoVip);
            let balanced = !paths.balancer_pool.is_empty();
            if paths.mesh.clients.values().any(Option::is_none) {
                kinds.insert(OutsideAll);
                let lacking = paths.balancer_pool.has_node_without_endpoint();
                if balanced && paths.pool_uses_local_endpoints && lacking && !paths.local_nodes.is_empty() {
                    kinds.insert(OutsideFrontNode);
                }
            }
            // With policy Local the chosen node is the endpoint's own node: the same paths as `same-vip`.
            if balanced
                && !paths.pool_uses_local_endpoints
                && paths.is_forwarded_to_balancer
                && paths.balancer_pool.len() > 1
            {
                kinds.insert(LbOwnNode);
            }
            if paths
                .backends
                .iter()
                .any(|pod| paths.mesh.prober_pods.get(pod).is_some())
            {
                kinds.extend([SelfPod, SelfVip]);
            }
        }
        kinds
    }

    /// Returns the kinds of region of a subject of this sort, whatever its paths are.
    fn possible_kinds(&self) -> BTreeSet<RegionKind> {
        use RegionKind::{
            Backend, Bnode, BnodeRemote, Client, ClientVip, Cross, DnsAll, DnsClient, DnsName, NoLocal, Pair,
            Same, SameVip, Target, Vip, Zone, ZoneVip,
        };
        match self {
            Self::Latency(inner) => inner.possible_kinds(),
            Self::Dns => BTreeSet::from([DnsClient, DnsAll, DnsName, Client]),
            Self::Mesh => std::iter::once(Client).chain(CONNECTION_KINDS).collect(),
            Self::Front(_) => [
                Target, Vip, Backend, Client, ClientVip, NoLocal, Same, SameVip, ZoneVip,
            ]
            .into_iter()
            .chain(CONNECTION_KINDS)
            .collect(),
            // A headless Service has no virtual address, so the regions that need one are left out.
            Self::Endpoints(..) => [Target, Backend, Client, Same]
                .into_iter()
                .chain(CONNECTION_KINDS)
                .collect(),
            // A request phase implies that the connection succeeded. What remains: the responder, faults that hit
            // only large packets, and a front that cuts off the connections of some of its hosts.
            Self::Target(_) => BTreeSet::from([
                Target, Vip, Backend, Client, ClientVip, NoLocal, Cross, Same, SameVip,
            ]),
            Self::SingleTarget(_) => BTreeSet::from([
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
                Zone,
                DnsClient,
                DnsAll,
                DnsName,
            ]),
        }
    }
}
