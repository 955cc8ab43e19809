//! Kinds of regions, with their printed names, prior weights and members.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Region, paths::SubjectPaths};
use crate::ids::{NodeIx, ZoneIx};

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
    Link,
    NodeLink,
    ZoneLink,
    ZoneVip,
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

impl RegionKind {
    /// Every kind.
    pub(super) const ALL: [Self; 27] = [
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
        Self::Link,
        Self::NodeLink,
        Self::ZoneLink,
        Self::ZoneVip,
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
            Self::Pair | Self::Link => 0.05,
            Self::Vip | Self::Cross | Self::Same | Self::DnsClient | Self::OutsideAll => 0.04,
            Self::Zone
            | Self::ZoneLink
            | Self::ZoneVip
            | Self::NodeLink
            | Self::ProtoVip
            | Self::DnsAll
            | Self::DnsName
            | Self::SelfVip
            | Self::LbOwnNode
            | Self::OutsideFrontNode => 0.03,
        }
    }

    pub(super) const fn label(self) -> &'static str {
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
            Self::Link => "link",
            Self::NodeLink => "node-link",
            Self::ZoneLink => "zone-link",
            Self::ZoneVip => "zone-vip",
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
    pub(crate) fn members(self, paths: &SubjectPaths) -> Vec<Region> {
        let clients = || paths.client_nodes();
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
            Self::Backend => paths.pods().into_iter().map(Region::Backend).collect(),
            Self::Bnode => paths.mesh.node_set.iter().copied().map(Region::Bnode).collect(),
            Self::BnodeRemote => paths
                .mesh
                .node_set
                .iter()
                .copied()
                .map(Region::BnodeRemote)
                .collect(),
            Self::Client => clients().iter().copied().map(Region::Client).collect(),
            Self::ClientVip => clients().iter().copied().map(Region::ClientVip).collect(),
            Self::DnsClient => clients().iter().copied().map(Region::DnsClient).collect(),
            Self::DnsName => paths.names.iter().copied().map(Region::DnsName).collect(),
            Self::Pair => pairs(paths).map(|(c, n)| Region::Pair(c, n)).collect(),
            Self::Link => links(paths),
            Self::NodeLink => paths
                .mesh
                .node_set
                .iter()
                .copied()
                .map(Region::NodeLink)
                .collect(),
            Self::ZoneLink => {
                let zones = paths.zone_set();
                let links = zones
                    .iter()
                    .flat_map(|a| zones.range(a..).skip(1).map(move |b| Region::ZoneLink(*a, *b)));
                links.collect()
            }
            Self::ZoneVip => client_zones(paths).into_iter().map(Region::ZoneVip).collect(),
            Self::Zone => {
                let zones = paths.zone_set();
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

impl fmt::Display for RegionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

/// Returns all ordered pairs of a client node and another node.
fn pairs(paths: &SubjectPaths) -> impl Iterator<Item = (NodeIx, NodeIx)> {
    let nodes = &paths.mesh.node_set;
    paths.client_nodes().iter().flat_map(|&c| {
        nodes
            .iter()
            .copied()
            .filter(move |n| *n != c)
            .map(move |n| (c, n))
    })
}

/// Returns the number of pairs without listing them: a large mesh has millions.
pub(crate) fn pair_count(paths: &SubjectPaths) -> usize {
    let clients = paths.client_nodes();
    let own = clients.intersection(&paths.mesh.node_set).count();
    clients.len() * paths.mesh.node_set.len() - own
}

/// Returns all links between a client node and another node.
fn links(paths: &SubjectPaths) -> Vec<Region> {
    let links: BTreeSet<Region> = pairs(paths)
        .map(|(c, n)| Region::Link(c.min(n), c.max(n)))
        .collect();
    links.into_iter().collect()
}

/// Returns the number of links without listing them.
pub(crate) fn link_count(paths: &SubjectPaths) -> usize {
    let clients = paths.client_nodes();
    let own = clients.intersection(&paths.mesh.node_set).count();
    // A link between two clients is two pairs.
    pair_count(paths) - own * own.saturating_sub(1) / 2
}

/// Returns the zones with several client nodes, if there are clients elsewhere. With one, the region is that of the client.
fn client_zones(paths: &SubjectPaths) -> Vec<ZoneIx> {
    let mut counts: BTreeMap<ZoneIx, usize> = BTreeMap::new();
    for node in paths.client_nodes() {
        if let Some(zone) = paths.mesh.zones.get(node) {
            *counts.entry(*zone).or_default() += 1;
        }
    }
    let all = paths.client_nodes().len();
    counts.retain(|_, count| *count > 1 && *count < all);
    counts.into_keys().collect()
}
