//! Which probe would settle a tie. The texts are the method's own table.

use std::collections::BTreeMap;

use crate::{
    ids::NameRegistry,
    inference::judgement::Finding,
    regions::{Region, RegionKind},
};

type RegionPair = (&'static [RegionKind], &'static [RegionKind], &'static str);

const TABLE: &[RegionPair] = &[
    (&[RegionKind::Vip], &[RegionKind::Target], "direct to a pod IP"),
    (
        &[RegionKind::Backend],
        &[RegionKind::Bnode, RegionKind::BnodeRemote],
        "mesh to the endpoint's node, or another target's pod on it",
    ),
    (
        &[RegionKind::Client],
        &[RegionKind::ClientVip],
        "direct or mesh from the client's node",
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
        "direct from a node without an endpoint, mesh to the endpoint's node and to another; healthCheckNodePort of the client's node",
    ),
    (
        &[RegionKind::Same],
        &[RegionKind::SameVip],
        "direct to the local pod",
    ),
    (
        &[RegionKind::Bnode],
        &[RegionKind::BnodeRemote],
        "direct to the endpoint from its own node",
    ),
    (
        &[RegionKind::SelfPod],
        &[RegionKind::SelfVip, RegionKind::SameVip],
        "own echo Service, self cell on that node (bridge hairpin_mode)",
    ),
    (
        &[RegionKind::Vip],
        &[RegionKind::ProtoVip],
        "repeat with a PROXY v1 header; recovery names it",
    ),
    (
        &[RegionKind::Target],
        &[RegionKind::OutsideAll],
        "a vantage inside the cluster",
    ),
    (
        &[RegionKind::OutsideFrontNode],
        &[RegionKind::OutsideAll],
        "a host vantage on a node with an endpoint: its in_martian_src counter rises with every health check that is dropped",
    ),
    (
        &[RegionKind::LbOwnNode],
        &[RegionKind::SameVip, RegionKind::Same, RegionKind::Vip],
        "nodeport on another node than the client's, and on its own",
    ),
    (
        &[RegionKind::DnsClient, RegionKind::DnsAll, RegionKind::DnsName],
        &[RegionKind::Client, RegionKind::DnsAll, RegionKind::DnsName],
        "probe the literal IP with Host / SNI, and another name",
    ),
    (
        &[RegionKind::Pair],
        &[
            RegionKind::Client,
            RegionKind::Bnode,
            RegionKind::BnodeRemote,
            RegionKind::Zone,
        ],
        "reverse (n→c), c→n₂, c₂→n",
    ),
];

/// For each region that a finding is not told from: the probe that was asked for, or why there is none.
pub(crate) type SeparatingProbes = BTreeMap<(Region, Region), String>;

/// One line per pair of regions that cannot be told apart, or hardly.
pub(crate) fn separating(finding: &Finding, ways: &SeparatingProbes, world: &NameRegistry) -> Vec<String> {
    let mut lines = Vec::new();
    let tied = finding.class.iter().map(|r| (r, "cannot be told"));
    let near = finding.near.iter().map(|r| (r, "can hardly be told"));
    let mut seen = std::collections::BTreeSet::new();
    for (other, how) in tied.chain(near) {
        if *other == finding.region || !seen.insert(other.kind()) {
            continue;
        }
        let probe = probe_for(finding.region, *other);
        let way = ways
            .get(&(finding.region, *other))
            .map_or_else(String::new, |way| format!("; {way}"));
        lines.push(format!(
            "{} {how} from {}: {}{way}",
            finding.region.describe(world),
            other.describe(world),
            probe.unwrap_or("needs probes on paths where the two differ")
        ));
    }
    lines
}

fn probe_for(a: Region, b: Region) -> Option<&'static str> {
    let (a, b) = (a.kind(), b.kind());
    TABLE
        .iter()
        .find(|(left, right, _)| {
            (left.contains(&a) && right.contains(&b)) || (left.contains(&b) && right.contains(&a))
        })
        .map(|(_, _, probe)| *probe)
}
