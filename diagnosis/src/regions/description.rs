//! Converts a region to its printed description and back.

use parallax_model::{NodeName, PodName, ZoneName};

use super::{Region, kind::RegionKind};
use crate::{
    ids::{NameRegistry, NodeIx, ZoneIx},
    verdict::RegionRef,
};

impl Region {
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
            | Self::NodeLink(n)
            | Self::DnsClient(n) => {
                vec![node(n)]
            }
            Self::Pair(c, n) | Self::Link(c, n) => vec![node(c), node(n)],
            Self::Zone(a, b) | Self::ZoneLink(a, b) => vec![zone(a), zone(b)],
            Self::ZoneVip(z) => vec![zone(z)],
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
            RegionKind::NodeLink => Self::NodeLink(node!()),
            RegionKind::Link => {
                let (a, b) = (node!(), node!());
                Self::Link(a.min(b), a.max(b))
            }
            RegionKind::ZoneLink => {
                let (a, b) = (zone!(), zone!());
                Self::ZoneLink(a.min(b), a.max(b))
            }
            RegionKind::ZoneVip => Self::ZoneVip(zone!()),
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
}
