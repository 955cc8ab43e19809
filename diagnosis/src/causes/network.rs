//! The network between nodes.

use parallax_model::KindClass;

use super::{Cause, Situation, remedy};
use crate::{kinds, region::RegionKind, verdict::Remedy};

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P7",
        title: "the network between nodes is down: overlay, routes or security group",
        regions: &[RegionKind::Cross, RegionKind::Zone, RegionKind::Pair],
        profile: |_| kinds::NETWORK,
        likelier: |_| 1.0,
        mechanism: |s| match s.members.as_slice() {
            [from, to] => format!("nothing gets from {from} to {to}, on no channel"),
            _ => {
                "whatever leaves its node is lost, on every channel, and within a node all is well".to_owned()
            }
        },
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
        mechanism: |_| {
            "connections stand and large answers stall between nodes: the path's MTU is smaller than the pods'".to_owned()
        },
        remedies: |_| {
            vec![
                remedy(
                    "lower the pods' MTU in the CNI configuration to what the path carries",
                    Some("ping -M do -s 1422 ADDRESS".to_owned()),
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
        profile: |_| kinds::LOOPBACK,
        likelier: |_| 0.5,
        mechanism: |_| {
            "pods of one node do not reach each other, while other nodes' pods do: the bridge or a NetworkPolicy".to_owned()
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

fn remedies(_: &Situation<'_>) -> Vec<Remedy> {
    vec![remedy(
        "check tunnel ports (VXLAN 4789 or 8472, Geneve 6081, WireGuard 51820) and routes between these nodes",
        Some("kubectl -n kube-system get pods -o wide".to_owned()),
        "opening a tunnel port in a security group lets every machine of that group send into the overlay",
    )
.not_when("the nodes reach each other on those ports: then look at the CNI agents")]
}
