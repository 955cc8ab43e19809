//! Probes that would separate tied regions.

use std::collections::BTreeMap;

use crate::{
    ids::NameRegistry,
    inference::judgement::ExplainedRegion,
    regions::{Region, RegionKind},
};

type RegionPair = (&'static [RegionKind], &'static [RegionKind], &'static str);

const SEPARATING_PROBES: &[RegionPair] = &[
    (
        &[RegionKind::Vip],
        &[RegionKind::Target],
        "needs a direct probe of a Pod IP",
    ),
    (
        &[RegionKind::Backend],
        &[RegionKind::Bnode, RegionKind::BnodeRemote],
        "needs a mesh probe to the endpoint's node, or a probe of another target's Pod on that node",
    ),
    (
        &[RegionKind::Client],
        &[RegionKind::ClientVip],
        "needs a direct or mesh probe from the client's node",
    ),
    (
        &[RegionKind::NoLocal],
        &[
            RegionKind::Cross,
            RegionKind::Bnode,
            RegionKind::BnodeRemote,
            RegionKind::Target,
            RegionKind::Vip,
        ],
        "needs a direct probe from a node without an endpoint, mesh probes to the endpoint's node and another node, \
         and the healthCheckNodePort of the client's node",
    ),
    (
        &[RegionKind::Same],
        &[RegionKind::SameVip],
        "needs a direct probe of the local Pod",
    ),
    (
        &[RegionKind::Bnode],
        &[RegionKind::BnodeRemote],
        "needs a direct probe of the endpoint from its own node",
    ),
    (
        &[RegionKind::SelfPod],
        &[RegionKind::SelfVip, RegionKind::SameVip],
        "needs a probe of the prober's own echo Service on that node (bridge hairpin_mode)",
    ),
    (
        &[RegionKind::Vip],
        &[RegionKind::ProtoVip],
        "needs a repeated probe with a PROXY v1 header; a success shows that the header was missing",
    ),
    (
        &[RegionKind::Target],
        &[RegionKind::OutsideAll],
        "needs a vantage inside the cluster",
    ),
    (
        &[RegionKind::OutsideFrontNode],
        &[RegionKind::OutsideAll],
        "needs a host vantage on a node with an endpoint: its in_martian_src counter increases with every dropped \
         health check",
    ),
    (
        &[RegionKind::LbOwnNode],
        &[RegionKind::SameVip, RegionKind::Same, RegionKind::Vip],
        "needs NodePort probes of the client's own node and of another node",
    ),
    (
        &[RegionKind::DnsClient, RegionKind::DnsAll, RegionKind::DnsName],
        &[RegionKind::Client, RegionKind::DnsAll, RegionKind::DnsName],
        "needs a probe of the IP address with Host and SNI, and a lookup of another name",
    ),
    (
        &[RegionKind::Pair],
        &[
            RegionKind::Client,
            RegionKind::Bnode,
            RegionKind::BnodeRemote,
            RegionKind::Zone,
        ],
        "needs probes in the reverse direction (n→c), from c to another node (c→n₂) and from another client to n \
         (c₂→n)",
    ),
];

/// How to separate a region from another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegionSeparation {
    /// The requested probe.
    Requested(String),
    /// Why no probe can be requested.
    Impossible(String),
}

/// For each region that is not separated from the finding's: how to separate it, if known.
pub(crate) type RegionSeparations = BTreeMap<(Region, Region), RegionSeparation>;

/// Returns one line per pair of regions that cannot be separated or can hardly be separated.
pub(crate) fn separating(
    finding: &ExplainedRegion,
    separations: &RegionSeparations,
    world: &NameRegistry,
) -> Vec<String> {
    let mut lines = Vec::new();
    let tied = finding.class.iter().map(|r| (r, "cannot be separated"));
    let near = finding.near_ties.iter().map(|r| (r, "can hardly be separated"));
    let mut seen = std::collections::BTreeSet::new();
    for (other, tie) in tied.chain(near) {
        if *other == finding.region || !seen.insert(other.kind()) {
            continue;
        }
        let probe = probe_for(finding.region, *other);
        let needed = probe.unwrap_or("needs probes on paths where the two differ");
        let remark = match separations.get(&(finding.region, *other)) {
            None => needed.to_owned(),
            Some(RegionSeparation::Requested(request)) => format!("{needed}; requested: {request}"),
            Some(RegionSeparation::Impossible(reason)) if probe.is_none() => reason.clone(),
            Some(RegionSeparation::Impossible(reason)) => format!("{needed}; cannot be requested: {reason}"),
        };
        lines.push(format!(
            "{} {tie} from {}: {remark}",
            finding.region.describe(world).description(),
            other.describe(world).description(),
        ));
    }
    lines
}

fn probe_for(a: Region, b: Region) -> Option<&'static str> {
    let (a, b) = (a.kind(), b.kind());
    SEPARATING_PROBES
        .iter()
        .find(|(left, right, _)| {
            (left.contains(&a) && right.contains(&b)) || (left.contains(&b) && right.contains(&a))
        })
        .map(|(_, _, probe)| *probe)
}
