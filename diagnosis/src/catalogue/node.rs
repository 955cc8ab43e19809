//! One node fails: as a client, as a destination, or in its Service rules.

use super::{Cause, CauseContext, Claim, Wording, remedy};
use crate::{inference::kind_profiles, regions::RegionKind, verdict::Remedy};

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P1",
        title: "a node's outbound connections fail",
        regions: &[RegionKind::Client],
        profile: |_| kind_profiles::CLIENT,
        weight: |_| 1.0,
        mechanism: |s| {
            let node = s.node_text();
            Wording::new(s)
                .add_first([
                    (
                        &[
                            Claim::AllFail,
                            Claim::SeveralChannels,
                            Claim::MemberReachesOwnPods,
                        ][..],
                        format!("every connection from {node} to another node fails"),
                    ),
                    (
                        &[Claim::SeveralChannels, Claim::MemberReachesOwnPods],
                        format!("connections from {node} to other nodes fail"),
                    ),
                    (
                        &[Claim::AllFail, Claim::SeveralChannels],
                        format!("every connection from {node} fails, whatever its destination"),
                    ),
                    (
                        &[Claim::SeveralChannels],
                        format!("connections from {node} fail, whatever their destination"),
                    ),
                    (&[], format!("the outbound path of {node} is broken")),
                ])
                .add_if(&[Claim::MemberReachesOwnPods], ", while the Pods on it answer")
                .clauses()
        },
        remedies: node_removal_remedies,
    },
    Cause {
        id: "F27",
        title: "a node's conntrack table is full",
        regions: &[RegionKind::Client, RegionKind::Bnode, RegionKind::NodeLink],
        // As of the other causes of the region: facts about the table tell them apart, dropped packets do not.
        profile: |s| match s.region {
            RegionKind::Bnode | RegionKind::BnodeRemote | RegionKind::NodeLink => kind_profiles::NETWORK,
            _ => kind_profiles::CLIENT,
        },
        weight: |s| s.conntrack_weight(),
        mechanism: |s| {
            Wording::new(s)
                .add(format!(
                    "{} drops new connections, as happens when its conntrack table is full",
                    s.node_text()
                ))
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    format!(
                        "compare nf_conntrack_count with nf_conntrack_max on {} and raise the limit",
                        s.node_text()
                    ),
                    s.member_command(|node| {
                        format!(
                            "kubectl debug node/{node} -it --image=busybox -- sysctl net.netfilter.nf_conntrack_count \
                             net.netfilter.nf_conntrack_max"
                        )
                    }),
                    "about 300 bytes of kernel memory per entry",
                )
                .with_ineffective_when("the table is not full: the count is below the limit while probes fail"),
            ]
        },
    },
    Cause {
        id: "F24",
        title: "kube-proxy on a node has stale Service rules",
        regions: &[RegionKind::ClientVip],
        profile: |_| kind_profiles::CLIENT_VIP,
        // Connections that leave the node for a balancer do not meet the node's own rules.
        weight: |s| if s.is_forwarded_to_balancer() { 0.05 } else { 1.0 },
        mechanism: |s| {
            let node = s.node_text();
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::AddressFails, Claim::EndpointsPassFromMember][..],
                        format!("{node} reaches the endpoints directly but not through the address: its Service rules \
                                 are stale"),
                    ),
                    (
                        &[Claim::AddressPassesElsewhere],
                        format!("the address answers other nodes: the Service rules of {node} are stale"),
                    ),
                    (&[], format!("the Service rules of {node} are stale")),
                ])
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    format!("restart kube-proxy on {}", s.node_text()),
                    s.member_command(|node| {
                        format!(
                            "kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"
                        )
                    }),
                    "kube-proxy rewrites its rules once; established connections survive",
                )
                .with_ineffective_when("kube-proxy cannot reach the API server: then it restarts with the same stale rules"),
            ]
        },
    },
    Cause {
        id: "P2",
        title: "a node is unreachable",
        regions: &[RegionKind::Bnode],
        profile: |_| kind_profiles::NETWORK,
        weight: |_| 1.0,
        mechanism: |s| {
            let node = s.node_text();
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::AllFail, Claim::FailsFromItself][..],
                        format!("nothing on {node} is reachable, not even from the node itself"),
                    ),
                    (&[Claim::AllFail], format!("nothing on {node} is reachable")),
                    (&[], format!("{node} is unreachable")),
                ])
                .clauses()
        },
        remedies: node_removal_remedies,
    },
    Cause {
        id: "P3",
        title: "a node is unreachable from other nodes",
        regions: &[RegionKind::BnodeRemote, RegionKind::NodeLink],
        profile: |_| kind_profiles::NETWORK,
        weight: |_| 1.0,
        mechanism: |s| {
            let node = s.node_text();
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::AllFail, Claim::PassesFromItself][..],
                        format!("Pods on {node} answer on the node itself but no other node: its routes, tunnel or \
                                 security group"),
                    ),
                    (
                        &[Claim::PassesFromItself],
                        format!("Pods on {node} answer on the node itself, but other nodes cannot reach them: its \
                                 routes, tunnel or security group"),
                    ),
                    (
                        &[],
                        format!("other nodes cannot reach {node}: its routes, tunnel or security group, or the node \
                                 itself"),
                    ),
                ])
                .clauses()
        },
        remedies: node_removal_remedies,
    },
];

fn node_removal_remedies(s: &CauseContext<'_>) -> Vec<Remedy> {
    let node = s.node_text();
    vec![
        remedy(
            format!("drain {node} until it is repaired"),
            s.member_command(|node| {
                format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data")
            }),
            "its Pods are rescheduled and restart; the other nodes need capacity for them",
        ),
        remedy(
            format!("check the network of {node} (CNI Pod, routes, node conditions)"),
            Some(s.member().map_or_else(
                || "kubectl get nodes -o wide".to_owned(),
                |node| format!("kubectl describe node {node}"),
            )),
            "none (read-only)",
        ),
    ]
}
