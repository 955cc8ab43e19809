//! One node deviates: as a client, as a destination, or in its Service rules.

use super::{Cause, CauseContext, Claim, Wording, remedy};
use crate::{inference::profiles, regions::RegionKind, verdict::Remedy};

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P1",
        title: "a node cannot reach others",
        regions: &[RegionKind::Client],
        profile: |_| profiles::CLIENT,
        likelier: |_| 1.0,
        mechanism: |s| {
            let node = s.node_words();
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::AllFail, Claim::SeveralChannels][..],
                        format!("everything that starts on {node} fails, whatever it asks for"),
                    ),
                    (
                        &[Claim::SeveralChannels],
                        format!("what starts on {node} fails, whatever it asks for"),
                    ),
                    (&[], format!("the way out of {node} is broken")),
                ])
                .clauses()
        },
        remedies: node_out,
    },
    Cause {
        id: "F27",
        title: "conntrack table full on a node",
        regions: &[RegionKind::Client, RegionKind::Bnode],
        profile: |_| profiles::CLIENT,
        likelier: |s| s.conntrack_full(),
        mechanism: |s| {
            Wording::of(s)
                .say(format!(
                    "{} drops new connections, as a full conntrack table does",
                    s.node_words()
                ))
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    format!(
                        "compare nf_conntrack_count with nf_conntrack_max on {} and raise the limit",
                        s.node_words()
                    ),
                    s.about_member(|node| {
                        format!(
                            "kubectl debug node/{node} -it --image=busybox -- sysctl net.netfilter.nf_conntrack_count \
                             net.netfilter.nf_conntrack_max"
                        )
                    }),
                    "about 300 bytes of kernel memory per entry",
                )
                .not_when("the table is not full: the count is below the limit while probes fail"),
            ]
        },
    },
    Cause {
        id: "F24",
        title: "stale kube-proxy on a node",
        regions: &[RegionKind::ClientVip],
        profile: |_| profiles::CLIENT_VIP,
        likelier: |_| 1.0,
        mechanism: |s| {
            let node = s.node_words();
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::AddressFails, Claim::EndpointsPassFromMember][..],
                        format!("{node} reaches the endpoints directly but not through the address: its Service rules are out of date"),
                    ),
                    (
                        &[Claim::AddressPassesElsewhere],
                        format!("the address answers other nodes: the Service rules of {node} are out of date"),
                    ),
                    (&[], format!("the Service rules of {node} are out of date")),
                ])
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    format!("restart kube-proxy on {}", s.node_words()),
                    s.about_member(|node| {
                        format!(
                            "kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"
                        )
                    }),
                    "its rules are rewritten once; established connections stay",
                )
                .not_when("kube-proxy cannot reach the API server: it then comes back with the same old rules"),
            ]
        },
    },
    Cause {
        id: "P2",
        title: "a node cannot be reached",
        regions: &[RegionKind::Bnode],
        profile: |_| profiles::NETWORK,
        likelier: |_| 1.0,
        mechanism: |s| {
            let node = s.node_words();
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::AllFail, Claim::FailsFromItself][..],
                        format!("nothing that runs on {node} can be reached, not even from the node itself"),
                    ),
                    (
                        &[Claim::AllFail],
                        format!("nothing that runs on {node} can be reached"),
                    ),
                    (&[], format!("{node} cannot be reached")),
                ])
                .clauses()
        },
        remedies: node_out,
    },
    Cause {
        id: "P3",
        title: "a node cannot be reached from the other nodes",
        regions: &[RegionKind::BnodeRemote],
        profile: |_| profiles::NETWORK,
        likelier: |_| 1.0,
        mechanism: |s| {
            let node = s.node_words();
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::AllFail, Claim::PassesFromItself][..],
                        format!("pods on {node} answer on the node itself and no other node: its routes, tunnel or security group"),
                    ),
                    (
                        &[Claim::PassesFromItself],
                        format!("pods on {node} answer on the node itself, and other nodes do not get through: its routes, tunnel or security group"),
                    ),
                    (
                        &[],
                        format!("other nodes do not get through to {node}: its routes, tunnel or security group, or the node itself"),
                    ),
                ])
                .clauses()
        },
        remedies: node_out,
    },
];

fn node_out(s: &CauseContext<'_>) -> Vec<Remedy> {
    let node = s.node_words();
    vec![
        remedy(
            format!("take {node} out of service while it is repaired"),
            s.about_member(|node| format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data")),
            "its pods move and restart; the other nodes must have room for them",
        ),
        remedy(
            format!("look at the network agent of {node} (CNI pod, routes, node conditions)"),
            Some(s.member().map_or_else(
                || "kubectl get nodes -o wide".to_owned(),
                |node| format!("kubectl describe node {node}"),
            )),
            "nothing: reading only",
        ),
    ]
}
