//! The network between nodes.

use parallax_model::{FailureKind, KindClass};

use super::{Cause, CauseContext, Claim, Clause, Wording, remedy};
use crate::{inference::kind_profiles, regions::RegionKind, verdict::Remedy};

/// Failures of a path that loses large packets: the connection opens, but no response follows.
const STALLED: &[FailureKind] = &[
    FailureKind::FirstByteTimeout,
    FailureKind::TlsTimeout,
    FailureKind::BodyStalled,
];

/// The regions of a broken path between nodes.
const PATHS: &[RegionKind] = &[
    RegionKind::Cross,
    RegionKind::Zone,
    RegionKind::ZoneLink,
    RegionKind::Pair,
    RegionKind::Link,
];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P7",
        title: "the network between nodes is down (overlay, routes or security group)",
        regions: PATHS,
        profile: |_| kind_profiles::NETWORK,
        weight: |_| 1.0,
        mechanism: loss_mechanism,
        remedies,
    },
    Cause {
        id: "F22",
        title: "the network path drops large packets (MTU mismatch)",
        regions: PATHS,
        profile: |_| {
            [
                1.0,
                0.1,
                0.1,
                0.1,
                8.0,
                kind_profiles::IMPOSSIBLE_KIND,
                0.1,
                0.1,
                0.1,
                0.1,
            ]
        },
        weight: |s| {
            if s.share(&[KindClass::Stall]) > 0.0 {
                1.0
            } else {
                0.02
            }
        },
        mechanism: |s| {
            Wording::new(s)
                .add_if(
                    &[Claim::MostlyKinds(STALLED)],
                    "connections between nodes open but responses stall, as happens when ",
                )
                .add("the path's MTU is smaller than the Pods' MTU")
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "lower the Pods' MTU in the CNI configuration to what the path supports",
                    s.peer_address()
                        .map(|address| format!("ping -M do -s 1422 {address}")),
                    "Pods must restart; the same data needs a few percent more packets",
                )
                .with_ineffective_when(
                    "small responses are lost as well: then the path is the cause, not its MTU (P7)",
                ),
            ]
        },
    },
    Cause {
        id: "P8",
        title: "traffic within a node fails",
        regions: &[RegionKind::Same],
        profile: |_| kind_profiles::LOOPBACK,
        weight: |_| 0.5,
        mechanism: |s| {
            Wording::new(s)
                .add("the bridge or a NetworkPolicy blocks traffic between Pods on the same node")
                .add_if(
                    &[Claim::BetweenNodesPasses],
                    ", while Pods on other nodes are reachable",
                )
                .clauses()
        },
        remedies: |_| {
            vec![remedy(
                "check the nodes' bridge settings and NetworkPolicies that select by node address",
                Some("kubectl get networkpolicies -A".to_owned()),
                "none (read-only)",
            )]
        },
    },
];

/// Names the traffic that is lost and its paths.
fn loss_mechanism(s: &CauseContext<'_>) -> Vec<Clause> {
    if let (RegionKind::Link | RegionKind::ZoneLink, [a, b]) = (s.region, s.members.as_slice()) {
        return Wording::new(s)
            .add_first([
                (
                    &[Claim::AllFail, Claim::SeveralChannels][..],
                    format!(
                        "no traffic gets through between {a} and {b} in either direction, on any channel"
                    ),
                ),
                (
                    &[Claim::AllFail],
                    format!("no traffic gets through between {a} and {b} in either direction"),
                ),
                (
                    &[Claim::NearlyAllFail],
                    format!("almost no traffic gets through between {a} and {b} in either direction"),
                ),
                (&[], format!("the network loses packets between {a} and {b}")),
            ])
            .clauses();
    }
    let [from, to] = s.members.as_slice() else {
        return Wording::new(s)
            .add_first([
                (
                    &[Claim::AllFail, Claim::SeveralChannels][..],
                    "all traffic between nodes is lost, on every channel".to_owned(),
                ),
                (&[Claim::AllFail], "all traffic between nodes is lost".to_owned()),
                (&[], "the network between nodes loses packets".to_owned()),
            ])
            .add_if(&[Claim::WithinNodePasses], "; traffic within a node is fine")
            .clauses();
    };
    Wording::new(s)
        .add_first([
            (
                &[Claim::AllFail, Claim::SeveralChannels][..],
                format!("no traffic gets from {from} to {to}, on any channel"),
            ),
            (&[Claim::AllFail], format!("no traffic gets from {from} to {to}")),
            (
                &[Claim::NearlyAllFail],
                format!("almost no traffic gets from {from} to {to}"),
            ),
            (&[], format!("the network loses packets from {from} to {to}")),
        ])
        .clauses()
}

fn remedies(_: &CauseContext<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            "check the tunnel ports (VXLAN 4789 or 8472, Geneve 6081, WireGuard 51820) and the routes between these \
             nodes",
            Some("kubectl -n kube-system get pods -o wide".to_owned()),
            "an open tunnel port in a security group lets every machine in that group send into the overlay",
        )
        .with_ineffective_when("the nodes already reach each other on those ports: then check the CNI agents"),
    ]
}
