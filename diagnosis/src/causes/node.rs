//! One node deviates: as a client, as a destination, or in its Service rules.

use super::{Cause, Situation, remedy};
use crate::{kinds, region::RegionKind, verdict::Remedy};

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P1",
        title: "a node cannot reach others",
        regions: &[RegionKind::Client],
        profile: |_| kinds::CLIENT,
        likelier: |_| 1.0,
        mechanism: |s| {
            format!(
                "everything that starts on node {} fails, whatever it asks for",
                s.member()
            )
        },
        remedies: node_out,
    },
    Cause {
        id: "F27",
        title: "conntrack table full on a node",
        regions: &[RegionKind::Client, RegionKind::Bnode],
        profile: |_| kinds::CLIENT,
        likelier: |s| s.conntrack_full(),
        mechanism: |s| {
            format!(
                "node {} drops new connections, as a full conntrack table does",
                s.member()
            )
        },
        remedies: |s| {
            vec![remedy(
                format!(
                    "compare nf_conntrack_count with nf_conntrack_max on {} and raise the limit",
                    s.member()
                ),
                Some(format!(
                    "kubectl debug node/{} -it --image=busybox -- sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
                    s.member()
                )),
                "about 300 bytes of kernel memory per entry",
            )
.not_when("the table is not full: the count is below the limit while probes fail")]
        },
    },
    Cause {
        id: "F24",
        title: "stale kube-proxy on a node",
        regions: &[RegionKind::ClientVip],
        profile: |_| kinds::CLIENT_VIP,
        likelier: |_| 1.0,
        mechanism: |s| {
            format!(
                "node {} reaches the endpoints directly but not through the address: its Service rules are out of date",
                s.member()
            )
        },
        remedies: |s| {
            vec![remedy(
                format!("restart kube-proxy on {}", s.member()),
                Some(format!(
                    "kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={}",
                    s.member()
                )),
                "its rules are rewritten once; established connections stay",
            )
.not_when("kube-proxy cannot reach the API server: it then comes back with the same old rules")]
        },
    },
    Cause {
        id: "P2",
        title: "a node cannot be reached",
        regions: &[RegionKind::Bnode],
        profile: |_| kinds::NETWORK,
        likelier: |_| 1.0,
        mechanism: |s| {
            format!(
                "nothing that runs on node {} can be reached, from the node itself neither",
                s.member()
            )
        },
        remedies: node_out,
    },
    Cause {
        id: "P3",
        title: "a node cannot be reached from the other nodes",
        regions: &[RegionKind::BnodeRemote],
        profile: |_| kinds::NETWORK,
        likelier: |_| 1.0,
        mechanism: |s| {
            format!(
                "pods on node {} answer on the node itself and to nobody else: its routes, tunnel or security group",
                s.member()
            )
        },
        remedies: node_out,
    },
];

fn node_out(s: &Situation<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            format!("take node {} out of service while it is repaired", s.member()),
            Some(format!(
                "kubectl drain {} --ignore-daemonsets --delete-emptydir-data",
                s.member()
            )),
            "its pods move and restart; the other nodes must have room for them",
        ),
        remedy(
            format!(
                "look at the network agent of node {} (CNI pod, routes, node conditions)",
                s.member()
            ),
            Some(format!("kubectl describe node {}", s.member())),
            "nothing: reading only",
        ),
    ]
}
