//! The network between nodes.

use parallax_model::{FailureKind, KindClass};

use super::{Cause, CauseContext, Claim, Clause, Wording, remedy};
use crate::{inference::profiles, regions::RegionKind, verdict::Remedy};

/// What a path that loses large packets looks like: the connection stands, and no answer follows.
const STALLED: &[FailureKind] = &[
    FailureKind::FirstByteTimeout,
    FailureKind::TlsTimeout,
    FailureKind::BodyStalled,
];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P7",
        title: "the network between nodes is down: overlay, routes or security group",
        regions: &[RegionKind::Cross, RegionKind::Zone, RegionKind::Pair],
        profile: |_| profiles::NETWORK,
        likelier: |_| 1.0,
        mechanism: lost,
        remedies,
    },
    Cause {
        id: "F22",
        title: "packets larger than the path allows are lost (MTU)",
        regions: &[RegionKind::Cross, RegionKind::Zone, RegionKind::Pair],
        profile: |_| [1.0, 0.1, 0.1, 0.1, 8.0, 1.0, 0.1, 0.1, 0.1, 0.1],
        likelier: |s| {
            if s.share(&[KindClass::Stall, KindClass::Tls]) > 0.0 {
                1.0
            } else {
                0.02
            }
        },
        mechanism: |s| {
            Wording::of(s)
                .say_if(
                    &[Claim::Of(STALLED)],
                    "connections stand and answers stall between nodes, as where ",
                )
                .say("the path's MTU is smaller than the pods'")
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "lower the pods' MTU in the CNI configuration to what the path carries",
                    s.peer_address()
                        .map(|address| format!("ping -M do -s 1422 {address}")),
                    "pods must restart; a few per cent more packets for the same data",
                )
                .not_when("small answers are lost as well: then it is the path and not its MTU (P7)"),
            ]
        },
    },
    Cause {
        id: "P8",
        title: "traffic within a node fails",
        regions: &[RegionKind::Same],
        profile: |_| profiles::LOOPBACK,
        likelier: |_| 0.5,
        mechanism: |s| {
            Wording::of(s)
                .say("the bridge or a NetworkPolicy keeps pods of one node from each other")
                .say_if(
                    &[Claim::BetweenNodesPasses],
                    ", while pods of other nodes get through",
                )
                .clauses()
        },
        remedies: |_| {
            vec![remedy(
                "look at the nodes' bridge settings and at NetworkPolicies that select by node address",
                Some("kubectl get networkpolicies -A".to_owned()),
                "nothing: reading only",
            )]
        },
    },
];

/// What gets lost, and on which paths.
fn lost(s: &CauseContext<'_>) -> Vec<Clause> {
    let [from, to] = s.members.as_slice() else {
        return Wording::of(s)
            .say_first([
                (
                    &[Claim::AllFail, Claim::SeveralChannels][..],
                    "whatever leaves its node is lost, on every channel".to_owned(),
                ),
                (&[Claim::AllFail], "whatever leaves its node is lost".to_owned()),
                (&[], "the network between nodes loses packets".to_owned()),
            ])
            .say_if(&[Claim::WithinNodePasses], ", and within a node all is well")
            .clauses();
    };
    Wording::of(s)
        .say_first([
            (
                &[Claim::AllFail, Claim::SeveralChannels][..],
                format!("nothing gets from {from} to {to}, on no channel"),
            ),
            (&[Claim::AllFail], format!("nothing gets from {from} to {to}")),
            (
                &[Claim::NearlyAllFail],
                format!("hardly anything gets from {from} to {to}"),
            ),
            (&[], format!("the network loses packets from {from} to {to}")),
        ])
        .clauses()
}

fn remedies(_: &CauseContext<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            "check tunnel ports (VXLAN 4789 or 8472, Geneve 6081, WireGuard 51820) and routes between these nodes",
            Some("kubectl -n kube-system get pods -o wide".to_owned()),
            "opening a tunnel port in a security group lets every machine of that group send into the overlay",
        )
        .not_when("the nodes reach each other on those ports: then look at the CNI agents"),
    ]
}
