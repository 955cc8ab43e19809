//! Every region parses back from its description.

use super::*;
use crate::{ids::NameRegistry, verdict::RegionRef};

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
                RegionKind::Pair | RegionKind::Link | RegionKind::Zone | RegionKind::ZoneLink => {
                    members.len() == 2
                }
                RegionKind::Backend
                | RegionKind::Bnode
                | RegionKind::BnodeRemote
                | RegionKind::Client
                | RegionKind::ClientVip
                | RegionKind::ZoneVip
                | RegionKind::NodeLink
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
